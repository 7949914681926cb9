"""The commands with a reward model as judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from instruct.judging.cards import load_judge_card


def answers(name: str) -> str:
    """A file of eight answers; the first one is the same for everybody."""
    rows = [
        {
            "dataset": "",
            "instruction": f"Why {number}?",
            "output": f"Because {name} is {number}." if number else "So.",
            "generator": name,
        }
        for number in range(8)
    ]
    Path(f"{name}.json").write_text(json.dumps(rows))
    return f"{name}.json"


def test_a_report_shows_no_order_for_a_judge_that_scores_each_answer_alone(
    reward_model, tmp_path, monkeypatch, instruct
):
    monkeypatch.chdir(tmp_path)
    asked = ["judge", "--judge", "skywork_reward", "--judge-model", reward_model, "--engine", "transformers"]
    files = ["--candidate", answers("emo"), "--baseline", answers("mle")]
    code, out, _ = instruct(*asked, *files, "--output", "runs/x")
    assert code == 0
    report = json.loads(Path("runs/x/report/report.json").read_text())
    (comparison,) = report["judges"][0]["comparisons"]
    assert (comparison["orders"], comparison["pairs_judged"], comparison["requests"]) == ("alone", 8, 14)
    assert comparison["claim"]["counts"]["weighted"]
    markdown = Path("runs/x/report/report.md").read_text()
    assert "| emo | mle | 8 of 8 | 14 |" in markdown
    assert "Policies: single: each answer judged alone." in markdown
    for text in (markdown, out):
        for misleading in ("onsistency", "irst position", "contradict", "one order", "Skywork-Reward-V2"):
            assert misleading not in text
    before = Path("runs/x/report/report.md").read_text()
    assert instruct(*asked, "runs/x")[0] == 0  # everything is stored
    assert Path("runs/x/report/report.md").read_text() == before


def test_a_reward_judge_is_validated_in_one_order(reward_model, tmp_path, monkeypatch, instruct):
    monkeypatch.chdir(tmp_path)
    pairs = [
        {"instruction": f"Why {n}?", "first": "Yes." * (n % 3 + 1), "second": f"No {n}.", "label": label}
        for n, label in enumerate(("first", "second", "tie", "first"))
    ]
    Path("human.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    asked = ["--judge", "skywork_reward", "--judge-model", reward_model, "--engine", "transformers"]
    code, out, _ = instruct("validate", *asked, "--against", "human.jsonl", "--output", "found")
    assert code == 0
    rows = [json.loads(line) for line in Path("found/verdicts.jsonl").read_text().splitlines()]
    assert [row["order"] for row in rows[1:]] == ["first"] * 4
    for text in (out, Path("found/agreement.md").read_text()):
        assert "the longer answer" in text
        for misleading in ("same verdict in both orders", "prefers the answer shown first", "swapped"):
            assert misleading not in text


def test_another_reward_model_has_nothing_of_the_card_s_model():
    own = load_judge_card("skywork_reward")
    other = load_judge_card("skywork_reward", model="org/reward")
    assert (other.name, other.model) == ("skywork_reward@org/reward", "org/reward")
    for field in ("description", "licence", "citation", "notes"):
        assert "Skywork" not in str(getattr(other, field))
        assert getattr(other, field) != getattr(own, field)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may hold them")
@pytest.mark.parametrize("name", ["skywork_reward_4b", "skywork_reward_8b"])
def test_a_reward_judge_that_needs_a_gpu_is_not_said_to_work_with_a_server(name, tmp_path, monkeypatch, instruct):
    monkeypatch.chdir(tmp_path)
    files = ["--candidate", answers("emo"), "--baseline", answers("mle")]
    code, _, error = instruct("judge", "--judge", name, "--engine", "transformers", *files, "--output", "runs/x")
    assert code == 2
    assert error.strip().endswith("this machine has no GPU; choose a smaller --judge-model")
    assert len(error.strip().splitlines()) == 1
