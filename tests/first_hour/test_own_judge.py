"""An own judge on a local server: killed and resumed without asking twice, then validated with own labels."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress

import pytest

pytestmark = pytest.mark.slow

PAIRS = 60


def answers(name: str) -> list[dict[str, str]]:
    return [{"instruction": f"Question {n}?", "output": f"{name} says {n}.", "generator": name} for n in range(PAIRS)]


def test_an_own_judge_is_killed_resumed_and_validated(user, strict_editor, says, fake_server, run_and_kill):
    url, requests = fake_server(delay=0.1)
    user.writes("ours.json", answers("ours"))
    user.writes("theirs.json", answers("theirs"))
    listed = user.types("list", "judges")
    says(listed, "strict_editor\n  model our/model · pairwise, both orders · agreement with people: not measured")

    store = user.folder / "runs" / "x" / "judgments.sqlite"

    def stored() -> int:
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT COUNT(*) FROM completions").fetchone()[0])
        return 0

    files = ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/x"]
    judge = ["judge", "--judge", "strict_editor", "--base-url", url, *files]
    run_and_kill(user.command(*judge), lambda: stored() >= 20, cwd=user.folder, env=user.environment)
    before, sent = stored(), len(requests())
    assert 20 <= before < 2 * PAIRS
    resumed = user.types(*judge)
    says(resumed, "strict_editor: ", f"n = {PAIRS}", "the judge contradicted itself")
    says(resumed, "Judge strict_editor (our/model); agreement with people: not measured.")
    assert stored() == 2 * PAIRS
    assert len(requests()) - sent == 2 * PAIRS - before  # what was on its way when it was killed is asked again

    labels = [
        {"instruction": f"Question {n}?", "first": f"ours says {n}.", "second": f"theirs says {n}.", "label": label}
        for n, label in enumerate(["first", "second", "tie"] * 40)
    ]
    user.writes("labels.jsonl", labels)
    validated = user.types(
        "validate", "--judge", "strict_editor", "--base-url", url, "--against", "labels.jsonl", "--write-card"
    )
    says(validated, "Judge strict_editor (our/model) vs. human labels on labels: 120 pairs, one label each.")
    says(validated, "wrote human_agreement.labels to judges/strict_editor/judge.yaml")
    reported = user.types("report", "runs/x")
    says(reported, "agreement with people: labels: not shown to be better than chance (κ 0.06; accuracy 37.5 % of 120")
    found = json.loads((user.folder / "runs/x/report/report.json").read_text())["judges"][0]
    assert found["human_agreement"]["labels"]["pairs"] == 120
    user.reads("runs/x/report/report.md")
    user.reads("runs/x/report/report.html")
