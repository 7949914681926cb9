"""A config is checked whole before anything is trained: every problem on a line, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import yaml


def test_all_that_is_wrong_is_listed_before_anything_is_trained(instruct, tiny_experiment):
    rows = [{"instruction": "Say 1."}, {"instructions": "Say 2."}]
    Path("prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = {"card": "judge/judge.yaml", "engine": "transformers", "base_url": "http://127.0.0.1:9/v1"}
    wrong = tiny_experiment | {
        "data": {"files": ["rows.jsonl", "missing.jsonl"], "template": "chat"},
        "answers": {"files": ["prompts.jsonl"], "generation": {"engine": "transformers"}},
        "judges": ["autojj", judge],
        "comparisons": [["emo", "elsewhere.json"]],
    }
    beginnings = [
        "prompts.jsonl, row 2",
        "unknown judge 'autojj' (nearest: autoj",
        "elsewhere.json: no such file",
        "missing.jsonl: no such file",
    ]
    engine = "judge judge: engine transformers asks no server at http://127.0.0.1:9/v1; leave `engine` or"
    Path("mine.yaml").write_text(yaml.safe_dump(wrong))
    # The machine that trains need not be the one that judges.
    for verb, expected in {"run": [*beginnings, engine], "train": beginnings}.items():
        code, _, stderr = instruct(verb, "mine.yaml")
        assert (code, "Traceback" in stderr) == (2, False), stderr
        lines = [line.removeprefix("instruct: ") for line in stderr.splitlines() if line.startswith("instruct: ")]
        assert len(lines) == len(expected), lines
        for beginning in expected:
            assert any(line.startswith(beginning) for line in lines), (beginning, lines)
    assert not Path("runs").exists()
