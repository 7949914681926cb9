"""`instruct validate`: asking a judge, replaying verdicts, and the figures in a judge's card."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from json_files import write_json

from instruct.base.errors import InputError
from instruct.engines.server import ServerEngine
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.run.directory import newest_run
from instruct.validation.agreement import measure_agreement
from instruct.validation.card_figures import card_figures, write_training_pairs
from instruct.validation.human_sets import load_human_set
from instruct.validation.published import read_published
from instruct.validation.validate import validate

ROOT = Path(__file__).resolve().parent.parent.parent
LABELS = ("first", "second", "tie")
CARD = Path("judges", "pandalm", "judge.yaml")
FOLDER = Path("runs", "validate-pandalm-own")
ASKED = ["validate", "--judge", "pandalm", "--against", "own.json"]


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """A fresh working folder with judge cards that may be written, also with the figures of twelve pairs."""
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 12)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    monkeypatch.chdir(tmp_path)
    for name in ("pandalm", "autoj"):
        shutil.copytree(ROOT / "judges" / name, Path("judges", name))
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
    write_json("own.json", rows)


def run(url=None, card="pandalm", against="own.json", **arguments):
    content, _, text, stopped = validate(JudgeOptions(card=card, base_url=url), against, **arguments)
    assert stopped is None
    return content, text


def verdicts_in(folder):
    rows = map(json.loads, Path(folder, "verdicts.jsonl").read_text().splitlines())
    return [row for row in rows if "verdict" in row]


def rows_of(content, system, metric):
    """The measurements of a rater by what they are about."""
    rows = [row for row in content["measurements"] if (row["system"], row["metric"]) == (system, metric)]
    return {row["details"].get("about", ""): row for row in rows}


def figure(content, system, metric):
    """A measurement's value, or None."""
    return rows_of(content, system, metric).get("", {}).get("value")


def right(content, order="listed"):
    return rows_of(content, order, "accuracy")[""]["details"]["count"]


def test_a_judge_is_asked_once_in_both_orders_and_its_verdicts_can_be_replayed(fake_server):
    url, requests = fake_server()
    content, text = run(url)
    verdicts = verdicts_in(FOLDER)
    orders = [(pair, order) for pair in range(12) for order in ("first", "swapped")]
    assert len(requests()) == 24
    assert [(row["pair"], row["order"]) for row in verdicts] == orders
    agreed = sum(row["verdict"] == LABELS[row["pair"] % 3] for row in verdicts if row["order"] == "first")
    assert right(content) == agreed
    assert f"{agreed} of 12" in text
    assert [*rows_of(content, "listed", "accuracy")] == ["", "even", "odd"]
    assert "Good" not in (FOLDER / "verdicts.jsonl").read_text()
    assert run(url)[1] == text
    assert len(requests()) == 24  # nothing is asked again
    with pytest.raises(InputError, match="no run in runs/"):  # it is not the newest run of other verbs
        newest_run("judgments.sqlite")
    assert run(replay=str(FOLDER / "verdicts.jsonl"), output="again")[0]["measurements"] == content["measurements"]
    assert verdicts_in("again") == verdicts


def test_a_failed_request_counts_as_wrong_until_it_is_retried(fake_server):
    url, requests = fake_server({"Good 3.": ["400"]})
    content, text = run(url)
    assert figure(content, "listed", "failed") == figure(content, "swapped", "failed") == 1
    accuracy = figure(content, "listed", "accuracy")
    assert figure(content, "listed", "best_case") == pytest.approx(accuracy + 100 / 12)
    assert "2 × failed: " in text
    asked = len(requests())
    run(url)
    assert len(requests()) == asked
    assert figure(run(url, mode=JudgingMode(retry_failed=True))[0], "listed", "failed") == 0


def test_figures_are_written_to_the_card_and_nothing_else_changes(fake_server):
    CARD.write_text(CARD.read_text().rstrip("\n").replace("order_policy", "# which orders\norder_policy"))
    hash_before = load_judge_card("pandalm").sha256()
    url, _ = fake_server()
    content, _ = run(url, write_card=True)
    card, text = load_judge_card("pandalm"), CARD.read_text()
    assert card.sha256() == hash_before
    measured = card.human_agreement["own"]
    assert (measured["pairs"], measured["judge"]) == (12, hash_before[:12])
    assert measured["accuracy"] == round(figure(content, "listed", "accuracy"), 2)
    assert measured["both_orders"] == round(figure(content, "judge", "both_orders"), 2)
    assert "# which orders\norder_policy" in text
    run(url, write_card=True)
    assert CARD.read_text() == text
    with pytest.raises(InputError, match="`model` and `criteria` measure another judge"):
        validate(JudgeOptions(card="pandalm", model="m", base_url=url), "own.json", write_card=True)


def test_figures_of_few_pairs_or_of_training_pairs_are_not_written(fake_server, monkeypatch):
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 13)
    url, requests = fake_server()
    with pytest.raises(InputError, match=r"own has 12 pairs, and a card's figure takes at least 13"):
        run(url, write_card=True)
    monkeypatch.setattr("instruct.validation.card_figures.LEAST_PAIRS", 12)
    hash_before = load_judge_card("pandalm").sha256()
    CARD.write_text(CARD.read_text() + "trained_on: trained_on.txt\n")
    assert load_judge_card("pandalm").sha256() == hash_before
    # The same pairs in another file, in another order and with other labels.
    rows = json.loads(Path("own.json").read_text())[:5]
    write_json(
        "turned.json",
        [row | {"response1": row["response2"], "response2": row["response1"], "label": "tie"} for row in rows],
    )
    write_training_pairs(CARD.parent, load_human_set("turned.json").pairs)
    with pytest.raises(InputError, match=r"the judge was trained on 5 of the 12 pairs of own"):
        run(url, write_card=True)
    assert requests() == []
    warning = "the judge was trained on 5 of these 12 pairs, so this is not how well it judges what it has not seen"
    assert f"WARNING: {warning}" in run(url)[1]
    assert f"WARNING: {warning}" in (FOLDER / "agreement.md").read_text()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("pandalm", ["pandalm-7b-testset-v1.json"]),
        ("autoj", ["pairwise_example_output.jsonl", "pairwise_exchange_example_output.jsonl"]),
    ],
)
def test_a_card_has_the_figures_of_the_published_verdicts(known_data, name, files):
    human, found = load_human_set(name), {}
    for file, order in zip(files, ("first", "swapped"), strict=False):
        found |= read_published([known_data / name / file], human.pairs, order).raters()
    shipped = load_judge_card(name).human_agreement[name]
    about = {"verdicts": "verdicts published by the authors", "measured": shipped["measured"]}
    assert shipped == card_figures(measure_agreement(human, found), None) | about


def test_verdicts_of_another_prompt_or_set_do_not_reach_the_card(fake_server, instruct):
    url, _ = fake_server()
    content, _ = run(url)
    made = str(FOLDER / "verdicts.jsonl")
    Path("other.json").write_text(Path("own.json").read_text() + "\n")
    with pytest.raises(InputError, match="has verdicts on another set"):
        run(against="other.json", replay=made)
    call = [*ASKED, "--replay", made, "--write-card"]
    assert instruct(*call)[0] == 0  # this card made them
    prompt = CARD.parent / "prompt.txt"
    prompt.write_text(prompt.read_text() + "\nBe fair.")
    before = CARD.read_text()
    code, _, err = instruct(*call)
    assert code == 2
    assert "does not state that" in err
    assert CARD.read_text() == before
    assert run(replay=made, output="again")[0]["card_sha256"] == content["card_sha256"]  # of the prompt that made them


def test_a_judge_that_does_not_beat_the_best_yardstick_is_warned_about():
    write_json("coin.json", [{"idx": n, "coin_result": "garbage" if n < 4 else 1 + n % 2} for n in range(12)])
    content, text = run(replay="coin.json")
    assert content["claims"][0]["finding"] == "too few"
    assert "WARNING: the judge agrees with people no better than the longer answer does" in text
    assert "4 unreadable verdicts: counted as wrong " in text


def test_a_stopped_validation_is_reported_and_exits_3(fake_server, monkeypatch, instruct):
    monkeypatch.setattr("instruct.engines.server.FAILURES_IN_A_ROW", 5)
    engine = ServerEngine  # two at a time, so that more are waiting when these fail
    monkeypatch.setattr(
        "instruct.engines.server.ServerEngine", lambda options, url, _, *more: engine(options, url, 2, *more)
    )
    url, _ = fake_server({f"Good {n}.": "500" for n in range(4, 12)})
    before = CARD.read_text()
    code, out, err = instruct(*ASKED, "--base-url", url, "--write-card")
    assert code == 3
    assert "5 requests in a row failed" in err
    assert "failed: not asked" in out
    assert len(verdicts_in(FOLDER)) == 24
    assert 0 < figure(json.loads((FOLDER / "agreement.json").read_text()), "listed", "failed") <= 8
    assert CARD.read_text() == before


def test_log_odds_of_both_orders_are_averaged_and_can_be_replayed(fake_server):
    about = yaml.safe_load(CARD.read_text())
    del about["prompts"]
    rule = {"labels": {"first": "A", "second": "B"}, "tie_margin": 0.3}
    about |= {"name": "labels", "verdict": rule, "leading_policy": "averaged", "human_agreement": None}
    folder = Path("judges", "labels")
    folder.mkdir()
    (folder / "prompt.txt").write_text("{instruction} {input} {first} {second}")
    (folder / "judge.yaml").write_text(yaml.safe_dump(about))
    url, _ = fake_server()
    content, text = run(url, card="labels")
    assert "both orders, averaged" in text
    shown = {(row["pair"], row["order"]): row["margin"] for row in verdicts_in("runs/validate-labels-own")}
    means = [(shown[index, "first"] - shown[index, "swapped"]) / 2 for index in range(12)]
    said = ["tie" if abs(mean) < 0.3 else "first" if mean > 0 else "second" for mean in means]
    assert right(content, "averaged") == sum(verdict == LABELS[index % 3] for index, verdict in enumerate(said))
    again, _ = run(replay="runs/validate-labels-own/verdicts.jsonl", output="again")
    assert again["measurements"] == content["measurements"]
    assert [claim["candidate"] for claim in content["claims"]] == [
        "as listed", "swapped", "both orders, else tie", "both orders, averaged",
    ]  # fmt: skip


@pytest.fixture
def demo(work, known_data):
    """The demo judge in the working folder: its committed verdicts on the known sets."""
    return shutil.copytree(ROOT / "judges" / "smollm2_score", Path("judges", "smollm2_score")) / "agreement"


@pytest.mark.parametrize(("name", "shorter"), [("pandalm", (288, 50.7)), ("autoj", (286, 25.9))])
def test_the_demo_judges_card_has_the_figures_of_its_committed_verdicts(demo, name, shorter):
    path = demo / f"{name}.jsonl"
    made, *rows = map(json.loads, path.read_text().splitlines())
    assert {key for row in rows for key in row} <= {"pair", "order", "verdict", "preference", "margin"}
    card = load_judge_card("smollm2_score")
    assert made["card"] == card.sha256()
    shipped = dict(card.human_agreement[name])
    content, _ = run(card="smollm2_score", against=name, replay=str(path), write_card=True)
    again = dict(load_judge_card("smollm2_score").human_agreement[name])
    assert {**again, "measured": ""} == {**shipped, "measured": ""}
    assert again["judge"] == card.sha256()[:12]
    assert "first_position_rate" not in again  # the judge scores answers alone
    assert (shipped.get("verdicts") == "cross-validated on the training set") == (name == "pandalm")
    measured = rows_of(content, "listed", "shorter_better")[""]
    assert (measured["n"], round(measured["value"], 1)) == shorter
    assert any("trained on" in warning for warning in content["warnings"]) is False


@pytest.mark.slow
def test_the_demo_judge_repeats_its_committed_verdicts(demo):
    """The first pairs of Auto-J's set; in another batch or processor bfloat16 rounds by up to .02."""
    _, text = run(card="smollm2_score", against="autoj", limit=4)
    assert "Only the first 4 pairs: a trial, not a measurement." in text
    now = verdicts_in("runs/validate-smollm2_score-autoj")
    then = list(map(json.loads, (demo / "autoj.jsonl").read_text().splitlines()[1:5]))
    assert len(now) == 4
    for row, earlier in zip(now, then, strict=True):
        assert (row["pair"], row["order"]) == (earlier["pair"], earlier["order"])
        assert row["preference"] == pytest.approx(earlier["preference"], abs=0.05)
