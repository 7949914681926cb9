"""The health of answers: compared with independent counts, and its warnings."""

from __future__ import annotations

import json
import statistics

from pages import WIN, rows_of, warned

from instruct.base.files import sha256_of, write_atomically
from instruct.data.evaluation import load_answers
from instruct.reporting.provenance import answers_health
from instruct.reporting.report import build_report


def test_health_counts_each_answer_of_a_system():
    outputs = ["", " \n", "again and again and " * 30, "an answer like any other", "x" * 1000]
    health = answers_health(outputs, {"truncated": 3, "mean_tokens": 70.25})
    assert (health.empty, health.repeated, health.truncated, health.mean_tokens) == (2, 1, 3, 70.25)
    lengths = [0, 2, 600, 24, 1000]
    assert health.mean_characters == statistics.fmean(lengths)
    assert health.median_characters == 24


def test_few_published_answers_count_as_repeated(shared_data):
    """The threshold is for loops: good answers that repeat a phrase or a table's punctuation must not count."""
    for name, repeated in {"gpt4.model_outputs.json": 2, "reference_text_davinci_003.json": 5}.items():
        outputs = [row["output"] for row in load_answers(shared_data / "alpaca_eval" / name)]
        assert answers_health(outputs, {}).repeated == repeated


def test_the_report_contains_health_figures_and_warnings(run, judge_run, write_answers, add_step):
    judge_run([WIN] * 20)
    write_answers("mle", 20, "short")
    path = write_answers("emo", 20, "again and again and " * 20)
    made = {"n": 20, "truncated": 7, "mean_tokens": 80.5, "engine": "e", "sha256": sha256_of(path)}
    add_step("answers", results={"emo": made})
    report = build_report(run.folder)
    assert warned(report.judges[0].comparisons[0]) == [
        "the answers of emo: 7 of 20 (35 %) are cut off at the length limit, 20 of 20 (100 %) are repetitive",
        "the winner's answers (emo) are 7900 % longer than those of mle (mean 400 and 5 characters); "
        "judges tend to prefer longer answers",
    ]
    rows = rows_of(report.to_html()).splitlines()
    assert "emo | emo | e | 20 | 80.5 | 400 | 400 | 7 (35.0 %) | 0 (0.0 %) | 20 (100.0 %)" in rows
    assert "mle | mle | - | 20 | - | 5.00 | 5.00 | - | 0 (0.0 %) | 0 (0.0 %)" in rows


def test_prompts_without_an_answer_are_counted_and_are_no_answers(run, judge_run, write_answers):
    judge_run([WIN] * 18 + [("failed", "failed")] * 2)
    path = write_answers("emo", 20, "an answer, too")
    rows = json.loads(path.read_text(encoding="utf-8"))
    for row in rows[:2]:
        row |= {"output": "", "failed": "HTTP 400"}
    write_atomically(path, json.dumps(rows))
    report = build_report(run.folder)
    emo, mle = report.systems
    assert (emo.n, emo.health.failed, emo.health.empty, mle.health.failed) == (20, 2, 0, 0)
    assert emo.health.mean_characters == len("an answer, too")
    comparison = report.judges[0].comparisons[0]
    counts = comparison.counts
    assert (counts.n, comparison.claim.n, counts.failed) == (20, 18, 2)
    assert counts.bounds[1] - counts.bounds[0] == 10.0
    assert "the answers of emo: 2 of 20 (10 %) are missing: refused, or failed" in warned(comparison)
