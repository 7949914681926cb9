"""Evaluation prompts in the training data: what a report makes of what the run counted."""

from __future__ import annotations

import pytest
from pages import warned

from instruct.data.overlap import overlap_text
from instruct.reporting.report import write_report

FOUND = {"prompts": 800, "rows": 12, "exact": 2, "shared": 8, "short": 300, "found": {1: "r:1"}}
SENTENCE = overlap_text(FOUND)
WARNING = f"{SENTENCE}, on which emo trained"


@pytest.fixture
def judged(write_answers, judge_pairs):
    write_answers("emo", 20)
    write_answers("mle", 20)
    judge_pairs([("first", "first")] * 20)


def count(add_step, data="d" * 64, prompts="p", **results):
    add_step("answers", inputs={"prompts": "p"})
    add_step("overlap", inputs={"data": data, "prompts": prompts}, results=FOUND | results)


def test_a_report_warns_of_evaluation_prompts_in_the_training_data(run, judged, add_step):
    count(add_step)
    written = write_report(run.folder)
    report = written.report
    assert (report.overlap.exact, report.overlap.shared, report.overlap.rows) == (2, 8, 12)
    (comparison,) = report.judges[0].comparisons
    assert WARNING in warned(comparison)
    text = (run.report / "report.md").read_text()
    assert f"  - Warning: {WARNING}" in text
    assert f"{SENTENCE}." in text
    assert WARNING in (run.report / "report.html").read_text()


def test_no_overlap_is_stated_without_a_warning(run, judged, add_step):
    count(add_step, exact=0, shared=0)
    report = write_report(run.folder).report
    assert report.overlap.exact == 0
    assert not any("evaluation prompts" in warning for warning in warned(report.judges[0].comparisons[0]))
    assert "0 of 800 evaluation prompts (0.0 %) are in the training data" in (run.report / "report.md").read_text()


def test_a_comparison_of_systems_from_elsewhere_has_no_overlap_warning(run, write_answers, judge_pairs, add_step):
    write_answers("theirs", 20)
    write_answers("mle", 20)
    judge_pairs([("first", "first")] * 20, candidate="theirs")
    count(add_step)
    report = write_report(run.folder).report
    assert not any("evaluation prompts" in warning for warning in warned(report.judges[0].comparisons[0]))


@pytest.mark.parametrize("stale", [{"data": "e" * 64}, {"prompts": "q"}])
def test_an_overlap_with_other_rows_or_prompts_is_not_reported(run, judged, add_step, stale):
    count(add_step, **stale)
    report = write_report(run.folder).report
    assert report.overlap is None
    assert WARNING not in warned(report.judges[0].comparisons[0])
