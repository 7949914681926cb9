"""Verdicts from elsewhere stay as they are: judging never removes what this project cannot make again."""

from __future__ import annotations

import pytest
from imported import annotation
from json_files import write_json

from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

COMPARISON = ComparisonKey("alpaca_eval_gpt4", "ours", "theirs")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def stored(run) -> list:
    with JudgmentStore(RunDirectory(run).store) as store:
        return store.judgments(COMPARISON)


@pytest.mark.parametrize("more", [("--base-url", "http://127.0.0.1:9/v1", "--yes"), ("--retry-failed",)])
def test_judging_never_removes_imported_verdicts(instruct, more):
    rows = [annotation(n, (1.5, 1, 2)[n % 3], raw_completion="Model 1" if n else None) for n in range(9)]
    rows[0]["output_2"] = rows[0]["output_1"]
    assert instruct("report", "--annotations", write_json("annotations.json", rows), "--output", "z")[0] == 0
    before = stored("z")
    code, _, error = instruct(
        "judge", "z", "--judge", "alpaca_eval_gpt4", "--candidate", "ours", "--baseline", "theirs", *more
    )
    assert code == 2
    assert error == (
        "instruct: z/judgments.sqlite: the verdicts of alpaca_eval_gpt4 on ours vs. theirs were imported and cannot be "
        "made again; judge in another run, or under another name (another --judge-model, or a copy of the "
        "judge's card)\n"
    )
    assert stored("z") == before
    assert len(before) == 9
    assert not any(step.startswith("judge/") for step in RunDirectory("z").manifest()["steps"])
