"""An own judge on a local server: asked, then validated with own labels."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

PAIRS = 60


def answers(name: str) -> list[dict[str, str]]:
    return [{"instruction": f"Question {n}?", "output": f"{name} says {n}.", "generator": name} for n in range(PAIRS)]


def test_an_own_judge_is_asked_and_validated(user, strict_editor, says, fake_server):
    url, requests = fake_server()
    user.writes("ours.json", answers("ours"))
    user.writes("theirs.json", answers("theirs"))
    says(user.types("list", "judges"), "strict_editor", "our/model")
    files = ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/x"]
    judged = user.types("judge", "--judge", "strict_editor", "--base-url", url, *files)
    says(judged, "strict_editor: ", f"n = {PAIRS}", "the judge contradicted itself", "with people: not measured")
    assert len(requests()) == 2 * PAIRS
    labels = [
        {"instruction": f"Question {n}?", "first": f"ours says {n}.", "second": f"theirs says {n}.", "label": label}
        for n, label in enumerate(["first", "second", "tie"] * 40)
    ]
    user.writes("labels.jsonl", labels)
    asked = ["--base-url", url, "--against", "labels.jsonl", "--write-card"]
    says(user.types("validate", "--judge", "strict_editor", *asked), "human labels on labels: 120 pairs")
    says(user.types("report", "runs/x"), "agreement with people: labels: not shown to be better than chance")
    found = json.loads((user.folder / "runs/x/report/report.json").read_text())["judges"][0]
    assert found["human_agreement"]["labels"]["pairs"] == 120
    user.reads("runs/x/report/report.md")
    user.reads("runs/x/report/report.html")
