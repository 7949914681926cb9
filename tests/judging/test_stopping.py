"""`judge --stop-when`: as few pairs as the decision needs, and nothing lost if more are wanted later."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from instruct.analysis.sequential import random_order
from instruct.run.directory import RunDirectory

PAIRS = 150
CALL = ["judge", "runs/one", "--judge", "pandalm", "--candidate", "ours", "--baseline", "theirs", "--concurrency", "4"]


@pytest.fixture
def run(tmp_path, monkeypatch) -> RunDirectory:
    monkeypatch.chdir(tmp_path)
    found = RunDirectory("runs/one")
    found.start({"name": "one"})
    found.outputs.mkdir()
    for name in ("ours", "theirs"):
        rows = [
            {"dataset": "d", "instruction": f"Question {i}?", "output": f"{name} {i}", "generator": name}
            for i in range(PAIRS)
        ]
        (found.outputs / f"{name}.json").write_text(json.dumps(rows))
    return found


def comparison(run: RunDirectory) -> dict:
    report = json.loads((run.folder / "report" / "report.json").read_text())
    return report["judges"][0]["comparisons"][0]


def asked(requests: list[dict]) -> list[str]:
    """The questions of the requests, as often as they were sent."""
    prompts = [request["body"]["prompt"] for request in requests]
    return [prompt.split("### Instruction:\n")[1].split("\n")[0] for prompt in prompts]


def test_judging_stops_when_the_interval_is_narrow_enough(run, instruct, fake_server) -> None:
    url, requests = fake_server(delay=0.0)
    code, out, err = instruct(*CALL, "--base-url", url, "--stop-when", "width=40")
    assert code == 0, err
    found = comparison(run)
    looked = found["sequential"]
    assert (looked["rule"], looked["met"], looked["pairs"]) == ("width=40", True, PAIRS)
    assert looked["judged"] < PAIRS
    # Pairs that were not needed are not missing.
    assert found["pairs_judged"] < found["pairs_expected"] == PAIRS
    assert not found["partial"]
    assert not any("PARTIAL" in warning["text"] for warning in found["warnings"])
    figures = found["policies"][found["leading"]]
    assert figures["claim"]["test"] == "confidence sequence"
    assert figures["claim"]["interval"] == looked["interval"]
    assert figures["claim"]["interval"][1] - figures["claim"]["interval"][0] <= 40
    assert f"{looked['judged']} of {PAIRS} pairs, {PAIRS - looked['judged']} saved" in out
    assert "95 % confidence sequence" in out
    # The first pairs of the random order, both orders of each, and what was under way when the rule was met.
    sent = Counter(asked(requests()))
    assert set(sent) <= set(random_order([f"Question {i}?" for i in range(PAIRS)])[: looked["judged"] + 4])
    assert (run.folder / "report" / "figures" / "stopping.svg").is_file()

    once = len(requests())
    assert instruct(*CALL, "--base-url", url, "--stop-when", "width=40")[0] == 0
    assert len(requests()) == once


@pytest.mark.slow
def test_judging_the_rest_later_asks_nothing_twice(run, instruct, fake_server) -> None:
    url, requests = fake_server(delay=0.0)
    assert instruct(*CALL, "--base-url", url, "--stop-when", "width=50")[0] == 0
    assert 0 < len(requests()) < 2 * PAIRS
    assert instruct(*CALL, "--base-url", url)[0] == 0
    assert set(Counter(asked(requests())).values()) == {2}  # each pair in both orders
    assert len(requests()) == 2 * PAIRS
    found = comparison(run)
    assert found["sequential"] is None
    assert found["pairs_judged"] == PAIRS
    assert found["policies"][found["leading"]]["claim"]["test"] == "sign"


@pytest.mark.slow
def test_a_rule_that_is_never_met_judges_all_pairs(run, instruct, fake_server) -> None:
    url, requests = fake_server(delay=0.0)
    code, out, _ = instruct(*CALL, "--base-url", url, "--stop-when", "width=0.01")
    assert code == 0
    assert len(requests()) == 2 * PAIRS
    assert f"it took all {PAIRS} pairs" in out
    assert comparison(run)["policies"]["strict"]["claim"]["test"] == "sign"


def test_an_unknown_rule_is_refused(run: RunDirectory, instruct, tmp_path: Path) -> None:
    code, _, err = instruct(*CALL, "--base-url", "http://127.0.0.1:9/v1", "--stop-when", "soon")
    assert code == 2
    assert "stop_when" in err
    assert "must be `decided`, or `width=POINTS`" in err


@pytest.mark.slow
def test_looking_at_the_verdicts_takes_time_in_proportion_to_the_pairs(run, instruct, fake_server, monkeypatch) -> None:
    """Not with their square, as it would if all were looked at again after each reply."""
    looked: list[int] = []
    monkeypatch.setattr(
        "instruct.judging.work.rule_is_met",
        lambda judge, order, judgments, completions: bool(looked.append(len(judgments))),
    )
    url, _ = fake_server(delay=0.0)
    code, _, err = instruct(*CALL, "--base-url", url, "--stop-when", "width=1")
    assert code == 0, err
    assert looked[-1] > 1.9 * PAIRS
    assert sum(looked) < 51 * 2 * PAIRS


@pytest.mark.parametrize("alike", [False, True])
def test_turns_of_conversations_and_repeated_prompts_are_not_stopped_early(run: RunDirectory, instruct, alike) -> None:
    earlier = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]
    for path in run.outputs.glob("*.json"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        changes = [
            {"instruction": "The same?", "id": str(n)} if alike else {"earlier": earlier} for n in range(len(rows))
        ]
        changed = [row | change for row, change in zip(rows, changes, strict=True)]
        path.write_text(json.dumps(changed), encoding="utf-8")
    code, _, err = instruct(*CALL, "--base-url", "http://127.0.0.1:9/v1", "--stop-when", "decided")
    assert code == 2
    assert "turns of conversations or rows of clusters, which are not independent; judge all of them" in err
