"""Sets with human labels: the known ones, where their files are found, and files of your own."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections import Counter

import pytest
from json_files import write_json
from sklearn.metrics import cohen_kappa_score

from instruct.base.errors import InputError
from instruct.data.prompts import EvalPrompt
from instruct.validation.agreement import measure_agreement
from instruct.validation.human_sets import HumanPair, load_human_set

ROW = {"instruction": "Say hello.", "response1": "Hello!", "response2": "No.", "label": "first"}


@pytest.mark.parametrize(
    ("name", "file", "labels"),
    [
        ("pandalm", "pandalm/testset-v1.json", {"tie": 105, "first": 422, "second": 472}),
        ("autoj", "autoj/testdata_pairwise.jsonl", {"first": 520, "second": 499, "tie": 373}),
    ],
)
def test_the_known_sets_have_their_published_labels_by_name_and_by_path(known_data, name, file, labels):
    human, by_path = load_human_set(name), load_human_set(str(known_data / file))
    assert Counter(pair.label for pair in human.pairs) == labels
    assert by_path.sha256 == human.sha256
    assert [pair.labels for pair in by_path.pairs] == [pair.labels for pair in human.pairs]
    groups = Counter(pair.group for pair in human.pairs)
    if name == "autoj":  # 58 scenarios in 8 groups
        assert [groups[group] for group in human.groups] == [24 * n for n in (3, 3, 5, 5, 9, 10, 12, 11)]
    else:
        assert sum(len(set(pair.labels)) == 1 for pair in human.pairs) == 879


def test_a_file_of_your_own(tmp_path):
    names = ("prompt", "input", "output_1", "output_2", "label", "group")
    values = [("Say hello.", "to Ann", "Hello!", "", "Second", "a"), ("Say yes.", None, True, "No.", "tie", "b")]
    rows = [dict(zip(names, row, strict=True)) for row in values]
    human = load_human_set(str(write_json(tmp_path / "own.json", rows)))
    assert (human.name, human.annotators) == ("own", ("label",))
    assert human.pairs == [
        HumanPair(EvalPrompt("Say hello.", "", input="to Ann"), "Hello!", "", ("second",), "a"),
        HumanPair(EvalPrompt("Say yes.", ""), "True", "No.", ("tie",), "b"),
    ]
    csv = tmp_path / "own.csv"
    csv.write_text('instruction,first,second,annotator2,annotator1\n"Hi, you",a,b,tie,first\n', encoding="utf-8")
    assert load_human_set(str(csv)).pairs == [HumanPair(EvalPrompt("Hi, you", ""), "a", "b", ("first", "tie"))]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": 1}, "row 1: label: 1 is a number, which PandaLM and Auto-J read differently; write first"),
        ({"label": "left"}, "row 1: label: 'left' is not a label; write one of first, second, tie"),
        ({"output_1": "a", "output_2": "b"}, "row 1: has several columns for the two answers"),
    ],
)
def test_a_row_that_could_be_misread_is_refused(tmp_path, change, said):
    path = str(write_json(tmp_path / "own.json", [{**ROW, **change}]))
    with pytest.raises(InputError) as caught:
        load_human_set(path)
    assert str(caught.value).startswith(path)
    assert said in str(caught.value)


@pytest.fixture
def made_up_set(tmp_path, monkeypatch):
    """A card in ./data/human; yields the file that a local server serves for it."""
    content = json.dumps([ROW]).encode()
    served = tmp_path / "served"
    served.mkdir()
    (served / "pairs.json").write_bytes(content)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    card = tmp_path / "work" / "data" / "human" / "made.yaml"
    card.parent.mkdir(parents=True)
    card.write_text(
        "name: made\ndescription: made up\nfile: made/pairs.json\nlicence: none\ncitation: none\nrows: 1\n"
        f"url: http://127.0.0.1:{server.server_port}/pairs.json\nsha256: {hashlib.sha256(content).hexdigest()}\n"
    )
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INSTRUCT_SHARED_DATA", raising=False)
    yield served / "pairs.json"
    server.shutdown()
    server.server_close()


def test_a_set_is_downloaded_once_and_then_found(made_up_set, tmp_path):
    cached = tmp_path / "cache" / "human" / "made" / "pairs.json"
    assert load_human_set("made").path == cached
    made_up_set.unlink()
    assert load_human_set("made").path == cached
    beside = tmp_path / "shared" / "data" / "made" / "pairs.json"
    beside.parent.mkdir(parents=True)
    cached.rename(beside)
    assert load_human_set("made").path.resolve() == beside
    beside.unlink()
    with pytest.raises(InputError) as caught:
        load_human_set("made")
    assert all(words in str(caught.value) for words in (str(cached), "SHA-256", "404"))
    assert "\n" not in str(caught.value)


def test_a_file_with_another_hash_is_refused(made_up_set, tmp_path):
    write_json(made_up_set, [{**ROW, "label": "second"}])
    with pytest.raises(InputError, match="is not the card's file"):
        load_human_set("made")
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_missing_labels_are_counted_and_pairs_without_any_are_left_out(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text(
        "instruction,first,second,annotator1,annotator2\n"
        "a?,1,2,first,\nb?,1,2,second,first\nc?,1,2,,\nd?,1,2,tie,tie\ne?,1,2,,first\nf?,1,2,first,first\n"
    )
    human = load_human_set(str(path))
    said = [(pair.prompt.instruction, pair.label) for pair in human.pairs]
    assert said == [("a?", "first"), ("b?", "second"), ("d?", "tie"), ("e?", "first"), ("f?", "first")]
    assert human.notes == (
        "annotator1 labels 4 of 5 pairs",
        "annotator2 labels 4 of 5 pairs",
        "left out: 1 of 6 pairs without a label",
    )
    found = measure_agreement(human, {"listed": ["first", "second", "tie", "tie", "first"]})
    one, other = human.annotators
    assert found.value("listed", "kappa", one) == 1.0  # of the four pairs that the first one labeled
    between = found.value("people", "kappa", f"{one} and {other}")
    both = [pair.labels for pair in human.pairs if None not in pair.labels]
    assert between == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)))


def test_rows_of_reward_bench_are_pairs_whose_chosen_answer_is_on_either_side(tmp_path):
    rows = [{"prompt": f"Q{n}?", "chosen": f"good {n}", "rejected": f"bad {n}", "subset": "chat"} for n in range(40)]
    pairs = load_human_set(str(write_json(tmp_path / "bench.jsonl", rows))).pairs
    assert [pair.first if pair.label == "first" else pair.second for pair in pairs] == [row["chosen"] for row in rows]
    assert {pair.group for pair in pairs} == {"chat"}
    assert 10 < sum(pair.label == "first" for pair in pairs) < 30


def test_rows_of_chatbot_arena_are_labeled_by_their_winner(tmp_path):
    path = tmp_path / "arena.csv"
    winners = {"model_a": "first", "model_b": "second", "tie (bothbad)": "tie"}
    rows = "".join(f"{n},x,y,Hi?,one,two,{winner}\n" for n, winner in enumerate(winners))
    path.write_text(f"id,model_a,model_b,prompt,response_a,response_b,winner\n{rows}")
    pairs = load_human_set(str(path)).pairs
    assert [(pair.first, pair.second, pair.label) for pair in pairs] == [
        ("one", "two", said) for said in winners.values()
    ]
