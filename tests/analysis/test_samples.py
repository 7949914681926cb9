"""The mean of a judge's samples, and its noise against a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from instruct.analysis.outcomes import PairResult, outcome_of_score
from instruct.analysis.panel import judge_noise, mean_of_samples


def pairs(*scores: float | None) -> list[PairResult]:
    return [
        PairResult(str(number), "", "unparsed" if score is None else outcome_of_score(score), score)
        for number, score in enumerate(scores)
    ]


def test_a_pair_has_the_mean_of_its_samples_if_more_than_half_have_a_verdict():
    smoothed = mean_of_samples([pairs(1, 0), pairs(1, 0), pairs(1, 1)], smoothing=0.5)
    assert [pair.score for pair in smoothed] == [3.5 / 4, 1.5 / 4]
    found = mean_of_samples([pairs(1, 1, None, 1), pairs(0, 1, 1, None), pairs(1, 1, 0, None)])
    assert [pair.score for pair in found] == [pytest.approx(2 / 3), 1, 0.5, None]
    assert [pair.outcome for pair in found] == ["win", "win", "tie", "unparsed"]
    assert found[2].tie == "contradicted"


def test_the_noise_is_that_of_the_win_rate_when_the_same_pairs_are_asked_again():
    """A judge that prefers each pair's answer with a probability of its own, asked three times about 200 pairs."""
    rng = np.random.default_rng(0)
    chances = rng.beta(2, 2, size=200)
    drawn = rng.random((2000, 3, 200)) < chances
    again = 100 * drawn.mean(axis=(1, 2)).std()  # other samples, the same prompts
    noises = [judge_noise([pairs(*map(float, one)) for one in run]) for run in drawn[:40]]
    assert np.mean([noise.half_width for noise in noises]) == pytest.approx(1.96 * again, rel=0.03)
    other = np.var([(rng.random((3, 200)) < rng.beta(2, 2, size=200)).mean() for _ in range(4000)])
    assert np.mean([noise.share for noise in noises]) == pytest.approx((again / 100) ** 2 / other * 100, rel=0.1)


def test_a_judge_that_never_changes_has_no_noise():
    noise = judge_noise([pairs(1, 0, 1), pairs(1, 0, 1)])
    assert (noise.changed, noise.half_width, noise.share, noise.missing) == (0, 0, 0, 0)
    assert judge_noise([pairs(1, None), pairs(1, 1)]) is None
