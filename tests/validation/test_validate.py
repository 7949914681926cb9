"""`instruct validate`: asking a judge, replaying verdicts, and the figures in a judge's card."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.command.main import main
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.run.directory import newest_run
from instruct.validation.agreement import measure_agreement
from instruct.validation.card_figures import card_figures, trained_on, write_training_pairs
from instruct.validation.human_sets import load_human_set
from instruct.validation.published import read_published
from instruct.validation.validate import validate, write_human_agreement

ROOT = Path(__file__).resolve().parent.parent.parent
LABELS = ("first", "second", "tie")


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """A fresh working folder with judge cards that may be written, also with the figures of twelve pairs."""
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 12)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    folder = tmp_path / "work"
    for name in ("pandalm", "autoj"):
        shutil.copytree(ROOT / "judges" / name, folder / "judges" / name)
    rows = [
        # the same instruction in all pairs: the known sets repeat instructions too
        {
            "instruction": "Say something.",
            "input": f"Case {index}?" if index % 2 else "",
            "response1": f"Good {index}.",
            "response2": f"Also good, {index}!",
            "label": LABELS[index % 3],
            "group": "odd" if index % 2 else "even",
        }
        for index in range(12)
    ]
    (folder / "own.json").write_text(json.dumps(rows))
    monkeypatch.chdir(folder)
    return folder


def run(url=None, card="pandalm", against="own.json", **arguments):
    _, _, text, stopped = validate(JudgeOptions(card=card, base_url=url), against, **arguments)
    assert stopped is None
    return text


def read(folder):
    content = json.loads(Path(folder, "agreement.json").read_text())
    rows = [json.loads(line) for line in Path(folder, "verdicts.jsonl").read_text().splitlines()]
    return content, [row for row in rows if "verdict" in row]


def rows_of(content, system, metric):
    """The measurements of a rater by what they are about."""
    rows = [row for row in content["measurements"] if (row["system"], row["metric"]) == (system, metric)]
    return {row["details"].get("about", ""): row for row in rows}


def figure(content, system, metric):
    """A measurement's value, or None."""
    return rows_of(content, system, metric).get("", {}).get("value")


def right(content, order="listed"):
    return rows_of(content, order, "accuracy")[""]["details"]["count"]


def test_a_judge_is_asked_once_in_both_orders_and_its_verdicts_can_be_replayed(fake_server, work):
    url, requests = fake_server()
    text = run(url)
    folder = work / "runs" / "validate-pandalm-own"
    content, verdicts = read(folder)
    assert len(requests()) == 24
    assert [(row["pair"], row["order"]) for row in verdicts] == [
        (pair, order) for pair in range(12) for order in ("first", "swapped")
    ]
    agreed = sum(row["verdict"] == LABELS[row["pair"] % 3] for row in verdicts if row["order"] == "first")
    assert right(content) == agreed
    assert f"{agreed} of 12" in text
    assert [*rows_of(content, "listed", "accuracy")] == ["", "even", "odd"]
    assert "Good" not in (folder / "verdicts.jsonl").read_text()

    assert run(url) == text
    assert len(requests()) == 24  # nothing is asked again

    for needs in ("judgments.sqlite", "outputs/*.json"):  # it is not the newest run of other verbs
        with pytest.raises(InputError, match="no run in runs/"):
            newest_run(needs)
    run(replay=str(folder / "verdicts.jsonl"), output="replayed")
    replayed, same = read("replayed")
    assert replayed["measurements"] == content["measurements"]
    assert same == verdicts


def test_a_failed_request_counts_as_wrong_until_it_is_retried(fake_server, work):
    url, requests = fake_server({"Good 3.": ["400"]})
    text = run(url)
    content, _ = read("runs/validate-pandalm-own")
    assert figure(content, "listed", "failed") == figure(content, "swapped", "failed") == 1
    accuracy = figure(content, "listed", "accuracy")
    assert figure(content, "listed", "best_case") == pytest.approx(accuracy + 100 / 12)
    assert "2 × failed: " in text
    asked = len(requests())
    run(url)
    assert len(requests()) == asked
    run(url, mode=JudgingMode(retry_failed=True))
    assert figure(read("runs/validate-pandalm-own")[0], "listed", "failed") == 0


def test_a_trial_on_the_first_pairs_says_so(fake_server, work):
    url, requests = fake_server()
    text = run(url, limit=4)
    assert "Only the first 4 pairs" in text
    assert len(requests()) == 8
    assert read("runs/validate-pandalm-own")[0]["pairs"] == 4
    run(url)  # continues after the first four
    assert len(requests()) == 24
    with pytest.raises(InputError, match="`limit` must be at least 1, and cannot be combined"):
        run(url, limit=4, write_card=True)


def test_figures_are_written_to_the_card_and_nothing_else_changes(fake_server, work):
    path = work / "judges" / "pandalm" / "judge.yaml"
    before = path.read_text()
    path.write_text(before.rstrip("\n").replace("order_policy", "# which orders\norder_policy"))
    hash_before = load_judge_card("pandalm").sha256()
    url, _ = fake_server()
    run(url, write_card=True)
    content, _ = read("runs/validate-pandalm-own")
    card = load_judge_card("pandalm")
    assert card.sha256() == hash_before
    measured = card.human_agreement["own"]
    assert measured["pairs"] == 12
    assert measured["accuracy"] == round(figure(content, "listed", "accuracy"), 2)
    assert measured["both_orders"] == round(figure(content, "judge", "both_orders"), 2)
    assert measured["judge"] == hash_before[:12]
    text = path.read_text()
    assert "# which orders\norder_policy" in text

    run(url, write_card=True)
    assert path.read_text() == text
    (work / "other.json").write_text((work / "own.json").read_text())
    run(url, against="other.json", write_card=True)
    assert list(load_judge_card("pandalm").human_agreement) == [*card.human_agreement, "other"]
    with pytest.raises(InputError, match="`model` measures another model"):
        validate(JudgeOptions(card="pandalm", model="m", base_url=url), "own.json", write_card=True)


def test_figures_of_few_pairs_or_of_training_pairs_are_not_written(fake_server, monkeypatch, capsys, work):
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 13)
    url, requests = fake_server()
    with pytest.raises(InputError, match=r"own has 12 pairs, and a card's figure takes at least 13"):
        run(url, write_card=True)
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 12)
    path = work / "judges" / "pandalm" / "judge.yaml"
    path.write_text(path.read_text() + "trained_on: trained_on.txt\n")
    hash_before = load_judge_card(str(ROOT / "judges" / "pandalm")).sha256()
    assert load_judge_card("pandalm").sha256() == hash_before
    with pytest.raises(InputError, match=r"trained_on.txt: no such file; put the hashes of its training pairs next to"):
        run(url)
    # The same pairs in another file, in another order and with other labels.
    rows = [
        dict(row, response1=row["response2"], response2=row["response1"])
        for row in json.loads(Path("own.json").read_text())
    ]
    (work / "turned.json").write_text(json.dumps([dict(row, label="tie") for row in rows[:5]]))
    write_training_pairs(path.parent, load_human_set("turned.json").pairs)
    with pytest.raises(InputError, match=r"the judge was trained on 5 of the 12 pairs of own"):
        run(url, write_card=True)
    assert requests() == []
    warning = "the judge was trained on 5 of these 12 pairs, so this is not how well it judges what it has not seen"
    for flag in ("-q", "--json"):
        code, out, _ = command(
            monkeypatch, capsys, "--judge", "pandalm", "--against", "own.json", "--base-url", url, flag
        )
        assert code == 0
        assert warning in (out if flag == "-q" else json.loads(out)["warnings"])
    read = []
    monkeypatch.setattr(
        "instruct.validation.validate.trained_on", lambda card, pairs: read.append(card) or trained_on(card, pairs)
    )
    assert f"WARNING: {warning}" in run(url)
    assert len(read) == 1
    assert f"WARNING: {warning}" in (work / "runs" / "validate-pandalm-own" / "agreement.md").read_text()


@pytest.mark.parametrize(
    "old", ["", "human_agreement:\n  own: {pairs: 1}\n  a: {pairs: 2}\n\n", "human_agreement: null\n"]
)
def test_only_the_human_agreement_block_is_replaced(tmp_path, old):
    path = tmp_path / "judge.yaml"
    head, tail = "# a comment\nname: x   # another\n", "# of notes\nnotes: >-\n  human_agreement: see there\n  here\n"
    path.write_text(head + old + tail)
    write_human_agreement(path, "own", {"pairs": 3, "accuracy_interval": [1.0, 2.5]})
    text = path.read_text()
    assert text.startswith(head)
    assert tail in text
    assert yaml.safe_load(text)["human_agreement"]["own"] == {"pairs": 3, "accuracy_interval": [1.0, 2.5]}
    assert ("a" in yaml.safe_load(text)["human_agreement"]) == ("a:" in old)
    path.write_text("{name: x, human_agreement: {}}\n")
    with pytest.raises(InputError, match="cannot replace human_agreement alone"):
        write_human_agreement(path, "own", {"pairs": 3})


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["instruct", "validate", *arguments])
    code = main()
    return (code, *capsys.readouterr())


@pytest.mark.parametrize(
    ("name", "files", "said"),
    [
        (
            "pandalm",
            ["pandalm-7b-testset-v1.json"],
            [
                "66.8 % of 999 pairs (the longer answer: 61.1 %).",
                "667 of 999",
                "0.8520",
                "| human: first | 40 | 298 | 84 | 0 |",
            ],
        ),
        (
            "autoj",
            ["pairwise_example_output.jsonl", "pairwise_exchange_example_output.jsonl"],
            ["60.0 % of 1392 pairs (the longer answer: 52.9 %).", "765 of 1392", "1161 of 1392", "NLP Tasks"],
        ),
    ],
)
def test_the_command_scores_published_verdicts(shared_data, monkeypatch, capsys, name, files, said):
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    replays = zip(("--replay", "--replay-swapped"), files, strict=False)
    paths = [word for flag, file in replays for word in (flag, str(shared_data / name / file))]
    code, out, _ = command(monkeypatch, capsys, "--against", name, *paths, "--output", "found")
    assert code == 0
    shown = out + Path("found", "agreement.md").read_text()
    assert [words for words in said if words not in shown] == []
    # The project's own card has these figures, which its present form did not make.
    human, found = load_human_set(name), {}
    for file, order in zip(files, ("first", "swapped"), strict=False):
        found |= read_published([shared_data / name / file], human.pairs, order).raters()
    shipped = load_judge_card(str(ROOT / "judges" / name)).human_agreement[name]
    about = {"verdicts": "verdicts published by the authors", "measured": shipped["measured"]}
    assert shipped == card_figures(measure_agreement(human, found), None) | about


def test_a_replay_names_its_own_judge(monkeypatch, capsys, work):
    rows = [{"idx": n, "gpt-3.5_result": 1} for n in range(12)]
    (work / "gpt.json").write_text(json.dumps(rows))
    before = (work / "judges" / "pandalm" / "judge.yaml").read_text()
    call = ["--judge", "pandalm", "--against", "own.json", "--replay", "gpt.json"]
    code, out, _ = command(monkeypatch, capsys, *call)
    assert code == 0
    assert out.startswith("Judge gpt-3.5 vs. human labels on own")
    assert "PandaLM-7B" not in out
    assert "Note: the file does not state that the card pandalm made these verdicts" in out
    content, _ = read("runs/validate-gpt-3.5-own-replay")
    assert (content["judge"], content["model"], content["card_sha256"]) == ("gpt-3.5", None, None)
    code, out, err = command(monkeypatch, capsys, *call, "--write-card")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--write-card: gpt.json does not state that judges/pandalm/judge.yaml in its present form made these" in err
    assert (work / "judges" / "pandalm" / "judge.yaml").read_text() == before


def test_verdicts_of_another_prompt_or_set_do_not_reach_the_card(fake_server, monkeypatch, capsys, work):
    url, _ = fake_server()
    run(url)
    made = "runs/validate-pandalm-own/verdicts.jsonl"
    (work / "other.json").write_text((work / "own.json").read_text() + "\n")
    with pytest.raises(InputError, match="has verdicts on another set"):
        run(against="other.json", replay=made)
    call = ["--judge", "pandalm", "--against", "own.json", "--replay", made, "--write-card"]
    assert command(monkeypatch, capsys, *call)[0] == 0  # this card made them
    prompt = work / "judges" / "pandalm" / "prompt.txt"
    prompt.write_text(prompt.read_text() + "\nBe fair.")
    before = (work / "judges" / "pandalm" / "judge.yaml").read_text()
    code, _, err = command(monkeypatch, capsys, *call)
    assert code == 2
    assert "does not state that" in err
    assert (work / "judges" / "pandalm" / "judge.yaml").read_text() == before
    content, _ = read("runs/validate-pandalm-own")
    run(replay=made, output="again")
    assert read("again")[0]["card_sha256"] == content["card_sha256"]  # of the prompt that made them


def test_a_judge_that_does_not_beat_the_best_yardstick_is_warned_about(work):
    rows = [{"idx": n, "coin_result": "garbage" if n < 4 else 1 + n % 2} for n in range(12)]
    (work / "coin.json").write_text(json.dumps(rows))
    text = run(replay="coin.json")
    content, _ = read("runs/validate-coin-own-replay")
    assert content["claims"][0]["finding"] == "too few"
    assert "WARNING: the judge agrees with people no better than the longer answer does" in text
    agreed = sum(LABELS[n % 3] == ("second" if n % 2 else "first") for n in range(4, 12))
    ties = sum(LABELS[n % 3] == "tie" for n in range(4))
    assert (
        f"4 unreadable verdicts: counted as wrong {agreed} of 12 are right; as ties, as PandaLM's authors count them, "
        f"{agreed + ties}" in text
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "own.json"], "--judge is required to ask a judge"),
        (["--judge", "pandalm", "--against", "nothing"], "unknown set of human labels 'nothing'"),
        (["--judge", "pandlm", "--against", "own.json"], "unknown judge 'pandlm'"),
        (["--judge", "pandalm", "--against", "own.json", "--replay", "gone.json"], "gone.json: no such file"),
        (
            ["--judge", "pandalm", "--against", "own.json", "--replay-swapped", "x"],
            "--replay-swapped requires --replay",
        ),
        (["--judge", "pandalm", "--against", "own.json", "--replay", "short.jsonl"], "has 1 verdict, but"),
        (
            ["--judge", "pandalm", "--against", "own.json", "--replay", "both.jsonl", "--replay-swapped", "both.jsonl"],
            "a second set of verdicts for order first",
        ),
    ],
)
def test_a_wrong_call_prints_one_line_and_exits_2(monkeypatch, capsys, work, arguments, said):
    (work / "short.jsonl").write_text('{"output": 1}\n')
    rows = [{"pair": n, "order": order, "verdict": "tie"} for n in range(12) for order in ("first", "swapped")]
    (work / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = command(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_single_ratings_have_one_order_and_no_position(fake_server, work):
    url, requests = fake_server()
    run(url, card="autoj_single")
    content, verdicts = read("runs/validate-autoj_single-own")
    assert len(requests()) == 24  # one rating per answer
    assert [row["pair"] for row in verdicts] == list(range(12))
    for rater, metric in (("swapped", "accuracy"), ("judge", "consistency"), ("judge", "first_position")):
        assert figure(content, rater, metric) is None
    assert figure(content, "listed", "unparsed") == figure(content, "listed", "failed") == 0


def test_a_stopped_validation_is_reported_and_exits_3(fake_server, monkeypatch, capsys, work):
    monkeypatch.setattr("instruct.engines.server.FAILURES_IN_A_ROW", 5)
    down = {f"Good {n}.": "500" for n in range(4, 12)}
    url, _ = fake_server(down)
    call = ["--judge", "pandalm", "--against", "own.json", "--base-url", url, "--concurrency", "2"]
    code, out, err = command(monkeypatch, capsys, *call, "--write-card")
    assert code == 3
    assert "5 requests in a row failed" in err
    assert "failed: not asked" in out
    content, verdicts = read("runs/validate-pandalm-own")
    assert len(verdicts) == 24
    assert 0 < figure(content, "listed", "failed") <= 8
    assert load_judge_card("pandalm").human_agreement == load_judge_card(str(ROOT / "judges/pandalm")).human_agreement


def test_log_odds_of_both_orders_are_averaged_and_can_be_replayed(fake_server, work):
    (work / "judges" / "labels").mkdir()
    (work / "judges" / "labels" / "prompt.txt").write_text("{instruction} {input} {first} {second}")
    rule = {"labels": {"first": "A", "second": "B"}, "tie_margin": 0.3}
    about = yaml.safe_load((work / "judges" / "pandalm" / "judge.yaml").read_text())
    changes = {"name": "labels", "verdict": rule, "leading_policy": "averaged", "human_agreement": None}
    del about["prompt_with_input"]
    (work / "judges" / "labels" / "judge.yaml").write_text(yaml.safe_dump(about | changes))
    url, _ = fake_server()
    text = run(url, card="labels")
    assert "both orders, averaged" in text
    content, rows = read("runs/validate-labels-own")
    shown = {(row["pair"], row["order"]): row["margin"] for row in rows}
    means = [(shown[index, "first"] - shown[index, "swapped"]) / 2 for index in range(12)]
    said = ["tie" if abs(mean) < 0.3 else "first" if mean > 0 else "second" for mean in means]
    assert right(content, "averaged") == sum(verdict == LABELS[index % 3] for index, verdict in enumerate(said))
    run(replay="runs/validate-labels-own/verdicts.jsonl", output="again")
    assert read("again")[0]["measurements"] == content["measurements"]
    assert [claim["candidate"] for claim in content["claims"]] == [
        "as listed", "swapped", "both orders, else tie", "both orders, averaged",
    ]  # fmt: skip


@pytest.fixture
def demo(work, shared_data, monkeypatch):
    """The demo judge in the working folder, and its committed verdicts on the known sets."""
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    shutil.copytree(ROOT / "judges" / "smollm2_score", work / "judges" / "smollm2_score")
    return work / "judges" / "smollm2_score" / "agreement"


@pytest.mark.parametrize(("name", "shorter"), [("pandalm", (288, 50.7)), ("autoj", (286, 25.9))])
def test_the_demo_judges_card_has_the_figures_of_its_committed_verdicts(demo, name, shorter):
    path = demo / f"{name}.jsonl"
    made, *rows = map(json.loads, path.read_text().splitlines())
    assert {key for row in rows for key in row} <= {"pair", "order", "verdict", "preference", "margin"}
    card = load_judge_card("smollm2_score")
    assert made["card"] == card.sha256()
    shipped = dict(card.human_agreement[name])
    run(card="smollm2_score", against=name, replay=str(path), write_card=True)
    again = dict(load_judge_card("smollm2_score").human_agreement[name])
    assert {**again, "measured": ""} == {**shipped, "measured": ""}
    assert again["judge"] == card.sha256()[:12]
    assert "first_position_rate" not in again  # the judge scores answers alone
    assert (shipped.get("verdicts") == "cross-validated on the training set") == (name == "pandalm")
    content, _ = read(f"runs/validate-smollm2_score-{name}-replay")
    measured = rows_of(content, "listed", "shorter_better")[""]
    assert (measured["n"], round(measured["value"], 1)) == shorter
    assert any("trained on" in warning for warning in content["warnings"]) is False


def test_the_demo_judges_own_verdicts_on_its_training_pairs_are_no_measurement(demo, work):
    made, *lines = (demo / "pandalm.jsonl").read_text().splitlines()
    about = {key: value for key, value in json.loads(made).items() if key != "verdicts"}
    (work / "asked.jsonl").write_text("\n".join([json.dumps(about), *lines]))
    line = validate(JudgeOptions(card="smollm2_score"), "pandalm", replay="asked.jsonl").line
    assert "WARNING: the judge was trained on 999 of these 999 pairs" in line
    assert "On 50.7 % of the 288 whose shorter answer is the better one." in line
    with pytest.raises(InputError, match=r"the judge was trained on 999 of the 999 pairs of pandalm"):
        run(card="smollm2_score", against="pandalm", replay="asked.jsonl", write_card=True)


@pytest.mark.slow
def test_the_demo_judge_repeats_its_committed_verdicts(demo):
    """The first pairs of Auto-J's set; in another batch or processor bfloat16 rounds by up to .02."""
    text = run(card="smollm2_score", against="autoj", limit=4)
    assert "Only the first 4 pairs: a trial, not a measurement." in text
    _, now = read("runs/validate-smollm2_score-autoj")
    then = list(map(json.loads, (demo / "autoj.jsonl").read_text().splitlines()[1:5]))
    assert len(now) == 4
    for row, earlier in zip(now, then, strict=True):
        assert (row["pair"], row["order"]) == (earlier["pair"], earlier["order"])
        assert row["preference"] == pytest.approx(earlier["preference"], abs=0.05)
