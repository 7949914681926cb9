"""A config is checked whole before anything is trained: every problem on a line, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml


@pytest.fixture
def refused(instruct):
    """`refused(verb, content)`: the lines of a refusal."""

    def call(verb: str, content: dict) -> list[str]:
        Path("mine.yaml").write_text(yaml.safe_dump(content))
        code, _, stderr = instruct(verb, "mine.yaml")
        assert (code, "Traceback" in stderr) == (2, False), stderr
        assert not Path("runs").exists()
        return [line.removeprefix("instruct: ") for line in stderr.splitlines() if line.startswith("instruct: ")]

    return call


def test_all_that_is_wrong_is_listed_before_anything_is_trained(refused, tiny_experiment):
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
    # The machine that trains need not be the one that judges.
    for verb, expected in {"run": [*beginnings, engine], "train": beginnings}.items():
        lines = refused(verb, wrong)
        assert len(lines) == len(expected), lines
        for beginning in expected:
            assert any(line.startswith(beginning) for line in lines), (beginning, lines)


def test_every_wrong_key_is_listed(refused, tiny_experiment):
    tiny_experiment["data"]["limt"] = 3
    tiny_experiment["lora"]["r"] = "many"
    tiny_experiment["judges"] = [{"crad": "autoj"}]
    lines = refused("run", tiny_experiment)
    assert [line.partition(": ")[2].partition(";")[0].split(" (")[0] for line in lines] == [
        "unknown key 'data.limt'",
        "lora.r: must be a whole number",
        "the key 'judges.0.card' is missing",
        "unknown key 'judges.0.crad'",
    ]
