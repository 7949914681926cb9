"""The commands with a reward model as judge."""

from __future__ import annotations

import json
from pathlib import Path


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
    page = Path("runs/x/report/report.html").read_text()
    assert "each answer judged alone" in page
    for text in (page, out):
        for misleading in ("onsistency", "irst position", "contradict", "one order", "Skywork-Reward-V2"):
            assert misleading not in text
    before = Path("runs/x/report/report.md").read_text()
    assert instruct(*asked, "runs/x")[0] == 0  # everything is stored
    assert Path("runs/x/report/report.md").read_text() == before
