"""Tasks: lm-eval's figures in the report, the same in every form."""

from __future__ import annotations

import re

import pytest
from kept_tasks import keep_task

from instruct.reporting.report import Report
from instruct.run.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("without_figures")


def test_a_run_without_verdicts_has_its_tasks_in_the_report(tmp_path, instruct):
    run = RunDirectory(tmp_path / "mine")
    run.start({"name": "mine", "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}})
    for system, task, right in [("base", "trec", 10), ("emo", "trec", 18), ("base", "arc", 9), ("emo", "arc", 9)]:
        keep_task(run, task, system, [float(row < right) for row in range(20)], standard_error=0.1)
    code, out, err = instruct("report", run.folder)
    assert code == 0, err
    report = Report.read(run.folder)
    assert not report.claims
    assert [(row.task, row.system, row.value) for row in report.measurements] == [
        ("trec", "base", 0.5), ("arc", "base", 0.45), ("trec", "emo", 0.9), ("arc", "emo", 0.45),
    ]  # fmt: skip
    assert "Measured without a judge" in (run.report / "report.html").read_text()
    assert "| trec | emo | acc | 0 | 20 | 0.90 | 0.10 |" in (run.report / "report.md").read_text()
    assert re.search(r"trec +emo +acc +0 +20 +0\.90 +0\.10", out)
