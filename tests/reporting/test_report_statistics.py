"""The statistics in a report: paired systems, parts, lengths and several judges."""

from __future__ import annotations

import numpy as np
import pytest
from pages import LOSS, TIE, WIN

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
