"""What a report says of the text that compared systems were trained on."""

from __future__ import annotations

import pytest
from pages import warned

from instruct.reporting.report import write_report


@pytest.fixture
def judged(write_answers, judge_pairs):
    write_answers("emo", 20)
    write_answers("mle", 20)
    judge_pairs([("first", "first")] * 20)


def test_a_report_warns_of_lost_end_tokens_empty_thoughts_and_rows_left_out(run, judged, add_step):
    results = {"rows": {"read": 200, "kept": 196, "rejected": 4}, "answers": {"ends": 200, "cut": 30, "empty": 2}}
    add_step("train/emo", results=results)
    add_step("train/mle", results={"rows": {"read": 200, "kept": 200}, "answers": {"ends": 200, "cut": 2}})
    (comparison,) = write_report(run.folder).report.judges[0].comparisons
    expected = [
        "the training of emo: 30 of 200 answers (15.0 %) lost the end token to max_length",
        "the training of emo: 2 empty thoughts, which teach not to think",
        "the training of emo: 4 of 200 rows left out as unusable",
    ]
    assert [text for text in warned(comparison) if "the training of" in text] == expected
    text = (run.report / "report.md").read_text()
    assert all(f"  - Warning: {warning}" in text for warning in expected)
