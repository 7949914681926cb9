"""Verdicts from elsewhere stay as they are: judging never removes what this project cannot make again."""

from __future__ import annotations

import json

import pytest

from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

NAMES = ("--candidate", "ours", "--baseline", "theirs")
COMPARISON = ComparisonKey("alpaca_eval_gpt4", "ours", "theirs")


@pytest.fixture
def rows() -> list[dict[str, object]]:
    return [
        {
            "instruction": f"Question {number}?",
            "generator_1": "theirs",
            "generator_2": "ours",
            "output_1": f"their answer {number}",
            "output_2": f"our answer {number}" if number else "their answer 0",
            "annotator": "alpaca_eval_gpt4",
            "preference": (1.5, 1, 2)[number % 3],
            "raw_completion": "Model 1" if number else None,
        }
        for number in range(9)
    ]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")


def stored(run) -> list:
    with JudgmentStore(RunDirectory(run).store) as store:
        return store.judgments(COMPARISON)


@pytest.mark.parametrize("more", [("--base-url", "http://127.0.0.1:9/v1", "--yes"), ("--retry-failed",)])
def test_judging_never_removes_imported_verdicts(instruct, tmp_path, rows, more):
    (tmp_path / "annotations.json").write_text(json.dumps(rows))
    assert instruct("report", "--annotations", "annotations.json", "--output", "z")[0] == 0
    before = stored("z")
    code, _, error = instruct("judge", "z", "--judge", "alpaca_eval_gpt4", *NAMES, *more)
    assert code == 2
    assert error == (
        "instruct: z/judgments.sqlite: the verdicts of alpaca_eval_gpt4 on ours vs. theirs were imported and cannot be "
        "made again; judge in another run, or under another name (another --judge-model, or a copy of the "
        "judge's card)\n"
    )
    assert stored("z") == before
    assert len(before) == 9
    assert not any(step.startswith("judge/") for step in RunDirectory("z").manifest()["steps"])
