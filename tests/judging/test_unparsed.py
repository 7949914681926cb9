"""A judge most of whose replies have no readable verdict: nobody takes its report for a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.judging.test_answer_files import answers


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_replies_without_a_verdict_are_said_and_kept(instruct, fake_server):
    url, requests = fake_server({"": "two"})
    for name in "ab":
        answers(Path(f"{name}.json"), [f"{name} {n}" for n in range(10)])
    call = ["judge", "--judge", "pandalm", "--base-url", url, "--candidate", "a.json", "--baseline", "b.json"]
    for _ in range(2):  # a rerun asks nothing, and says it again
        ended, _, error = instruct(*call)
        assert ended == 5, error
    assert len(requests()) == 20
    report = Path("runs/a_vs_b/report/report.md").read_text()
    assert "no fair sample" in report
    assert "judge pandalm: 20 of 20 verdicts cannot be read" in error
    assert 'one reply: "It could be that 1 ###' in error
    rows = [json.loads(line) for line in Path("runs/a_vs_b/unparsed-pandalm.jsonl").read_text().splitlines()]
    assert {row["instruction"] for row in rows} == {f"Question {n}?" for n in range(10)}
    assert all(row["replies"][0] for row in rows)
