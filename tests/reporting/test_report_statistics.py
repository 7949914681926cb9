"""The statistics in a report: paired systems, parts, lengths and several judges."""

from __future__ import annotations

import numpy as np
import pytest
from pages import LOSS, TIE, UNREAD, WIN, only_comparison

from instruct.analysis.inference import mean_score
from instruct.reporting.model import compared_by
from instruct.reporting.report import build_report


def test_systems_with_a_common_baseline_are_compared_on_common_prompts(run, card, write_answers, judge_pairs):
    card("j")
    for name in ("emo", "mix", "mle", "other"):
        write_answers(name, 40)
    ours = [WIN] * 25 + [TIE] * 5 + [LOSS] * 10
    theirs = [LOSS] * 10 + [WIN] * 15 + [TIE] * 5 + [LOSS] * 8 + [("unparsed", "first")] * 2
    judge_pairs(ours)
    judge_pairs(theirs, candidate="mix")
    judge_pairs([WIN] * 40, candidate="mix", baseline="other")
    (found,) = build_report(run.folder).paired
    points = {WIN: 1.0, TIE: 0.5, LOSS: 0.0}
    differences = np.array([points[a] - points[b] for a, b in zip(ours, theirs, strict=True) if b in points])
    assert (found.judge, found.policy, found.candidate, found.baseline) == ("j", "strict", "emo", "mix")
    assert (found.through, found.n) == ("mle", 38)
    assert found.value == pytest.approx(100 * differences.mean(), abs=1e-6)
    bounds = [np.append(differences, [points[a] - filled for a in ours[38:]]) for filled in (0.0, 1.0)]
    tested = [mean_score((1 + one[None]) / 2) for one in bounds]
    assert (found.missing, found.p) == (2, pytest.approx(max(one.p for one in tested)))
    every = [mean_score((1 + differences[None]) / 2), *tested]
    ends = [min(one.interval[0] for one in every), max(one.interval[1] for one in every)]
    assert found.interval == pytest.approx([2 * end - 100 for end in ends], abs=1e-4)


def test_parts_add_up_to_the_total_and_the_leading_policy_is_tested(judge_run):
    verdicts = ["first"] * 5 + ["second", "tie", "unparsed", "failed"]
    run = judge_run([{"verdict": v, "dataset": "aaaaabaab"[i]} for i, v in enumerate(verdicts)])
    comparison = only_comparison(run)
    a, b = comparison.parts
    counts = comparison.counts
    assert (a.dataset, a.n, b.dataset, b.n) == ("a", 7, "b", 2)
    assert all(getattr(a, key) + getattr(b, key) == getattr(counts, key) for key in ("n", "win", "tie", "loss"))
    assert (a.unread, b.unread) == (1, 1)
    assert a.win_rate == pytest.approx(100 * 5.5 / 6, abs=1e-6)
    bounded = [mean_score(np.array([[1, 1, 1, 1, 1, 0.5, filled]])).interval for filled in (0.0, 1.0)]
    assert a.interval == pytest.approx([bounded[0][0], bounded[1][1]], abs=1e-5)
    assert (b.win_rate, b.interval) == (None, None)  # a single verdict
    assert counts.decided == 6
    assert comparison.claim.p == pytest.approx(2 * 93 / 256)  # five of eight


def test_lengths_cover_pairs_with_a_verdict_and_both_answers(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 12, output="a longer answer")
    write_answers("mle", 10, output="short")
    judge_pairs([WIN] * 6 + [LOSS] * 3 + [("failed", "failed")] + [WIN] * 2)
    length = only_comparison(run).length
    assert (length.candidate_mean, length.baseline_mean) == (15, 5)
    assert (length.term, length.note) == (None, "not estimable: fewer than 20 pairs")
    (run.outputs / "mle.json").unlink()
    assert only_comparison(run).length is None


def test_every_report_shows_how_judges_agree(run, card, write_answers, judge_pairs):
    write_answers("emo", 8)
    for judge, pairs in {
        "alone": [WIN] * 6 + [LOSS, UNREAD],
        "both": [WIN] * 5 + [LOSS] * 2 + [UNREAD],
        "sided": [LOSS] * 7 + [UNREAD],
    }.items():
        card(judge)
        judge_pairs(pairs, judge=judge)
    card("elsewhere")
    judge_pairs([WIN] * 8, judge="elsewhere", baseline="other")
    report = build_report(run.folder)
    (panel,) = report.panels
    assert (panel.candidate, panel.baseline) == ("emo", "mle")
    assert [(*found.judges, round(found.kappa, 2)) for found in panel.agreements] == [
        ("alone", "both", 0.59), ("alone", "sided", 0.0), ("both", "sided", 0.0),
    ]  # fmt: skip
    for text in (report.to_markdown(), str(report)):
        assert " alone and both: kappa 0.59, the same outcome for 85.7 % of 7 pairs" in text


def test_all_judges_are_corrected_together(run, card, write_answers, judge_pairs):
    write_answers("emo", 6)
    for judge in ("one", "other"):
        card(judge)
        for baseline in ("mle", "base"):
            judge_pairs([WIN] * 6, judge=judge, baseline=baseline)
    report = build_report(run.folder)
    for _, comparison in compared_by(report.judges):
        claim = comparison.claim
        assert (claim.p, claim.adjusted_p, claim.claims) == (0.03125, 0.125, 4)
        assert claim.finding == "no difference"
        assert claim.interval[0] > 50
    assert str(report).count("95 % CI (not corrected) 54–100") == str(report).count("p = 0.125, corrected for 4") == 4
