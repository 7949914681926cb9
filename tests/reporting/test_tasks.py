"""Tasks: lm-eval's figures in the report, the same in every form, and paired tests by `compare`."""

from __future__ import annotations

import re

import pytest
from kept_tasks import keep_task

from instruct import compare_logs
from instruct.config import make_config
from instruct.reporting.report import Report
from instruct.run.directory import RunDirectory


@pytest.fixture
def evaluated(tmp_path, monkeypatch) -> RunDirectory:
    monkeypatch.chdir(tmp_path)
    run = RunDirectory("runs/mine")
    systems = {"base": {"objective": "none"}, "emo": {"objective": "emo"}}
    content = {"name": "mine", "systems": systems, "answers": None}
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    for system, task, right in [("base", "trec", 10), ("emo", "trec", 18), ("base", "arc", 9), ("emo", "arc", 9)]:
        keep_task(run, task, system, [float(row < right) for row in range(20)], standard_error=0.1)
    return run


def test_a_run_without_verdicts_has_its_tasks_in_the_report(evaluated, instruct):
    code, out, err = instruct("report", evaluated.folder)
    assert code == 0, err
    report = Report.read(evaluated.folder)
    assert not report.claims
    assert [(row.task, row.system, row.value) for row in report.measurements] == [
        ("trec", "base", 0.5), ("arc", "base", 0.45), ("trec", "emo", 0.9), ("arc", "emo", 0.45),
    ]  # fmt: skip
    trec, arc = compare_logs([evaluated.folder], baseline="base").main
    assert (trec.candidate, trec.baseline, trec.n, trec.value) == ("emo", "base", 20, 40)
    assert trec.p == pytest.approx(2 / 2**8)  # McNemar's exact test of 8 to 0
    assert trec.adjusted_p == trec.p  # the other has no test: the two agree on every row
    assert (arc.p, arc.interval) == (None, None)
    first_screen = (evaluated.report / "report.html").read_text().partition('<section id="numbers"')[0]
    assert "Measured without a judge" in first_screen
    assert re.findall("<caption>(.*?)</caption>", first_screen) == ["Tasks"]
    markdown = (evaluated.report / "report.md").read_text()
    assert "| base model |" in markdown
    assert "| answered |" not in markdown  # it has no prompts
    assert "| trec | emo | acc | 0 | 20 | 0.90 | 0.10 |" in markdown
    assert re.search(r"trec +emo +acc +0 +20 +0\.90 +0\.10", out)
