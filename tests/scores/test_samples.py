"""Every kind of sample makes a claim that names the better side, mirrors, and holds whatever is missing."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from instruct.analysis.inference import Estimate
from instruct.analysis.results import NULL, Claim
from instruct.analysis.statistics import Tally
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import (
    Sample,
    difference,
    figures,
    fixed,
    match,
    match_over_seeds,
    mean_over_tasks,
    sides_of,
)
from instruct.scores.scores import Scores

Array = np.ndarray
# By seed and unit; the candidate's are missing where NaN.
Trainings = Array


def by_unit(trainings: Trainings) -> list[dict[int, float | None]]:
    return [
        {unit: None if math.isnan(value) else value for unit, value in enumerate(one.tolist())} for one in trainings
    ]


def of_match(ours: Trainings, theirs: Trainings) -> Sample:
    """Right or wrong answers as verdicts: the better one wins."""
    gains = (ours - theirs)[0]
    won, tied, lost = ((gains == value).sum() for value in (1, 0, -1))
    return match(Tally(int(won), int(tied), int(lost), failed=int(np.isnan(gains).sum())))


def of_seeds(ours: Trainings, theirs: Trainings) -> Sample:
    scores = by_unit((1 + ours - theirs) / 2)
    return match_over_seeds(dict(enumerate(scores)), len(scores))


def of_difference(ours: Trainings, theirs: Trainings) -> Sample:
    return difference(sides_of(by_unit(ours), by_unit(theirs))[1])


def of_clusters(ours: Trainings, theirs: Trainings) -> Sample:
    return difference(sides_of(by_unit(ours), by_unit(theirs))[1], np.arange(ours.shape[1]) // 2)


def of_tasks(ours: Trainings, theirs: Trainings) -> Sample:
    parts = [slice(None, 80), slice(80, None)]
    sides = [sides_of(by_unit(ours[:, part]), by_unit(theirs[:, part]))[1] for part in parts]
    return mean_over_tasks(sides, [np.arange(sides[0](0.0)[0].shape[1]), np.arange(sides[1](0.0)[0].shape[1])], True)


KINDS: dict[str, tuple[Callable[[Trainings, Trainings], Sample], int]] = {
    "a match": (of_match, 1),
    "a match over seeds": (of_seeds, 4),
    "a difference": (of_difference, 1),
    "a difference over seeds": (of_difference, 4),
    "a difference of clusters": (of_clusters, 1),
    "a mean over tasks": (of_tasks, 1),
    "a mean over tasks and seeds": (of_tasks, 4),
}


def drawn(seed: int, trainings: int, ours: float, theirs: float, units: int = 200) -> tuple[Array, Array]:
    """Right (1) or wrong (0) answers of both systems."""
    rng = np.random.default_rng(seed)
    return tuple((rng.random((trainings, units)) < share).astype(float) for share in (ours, theirs))  # type: ignore[return-value]


def claimed(sample: Sample) -> Claim:
    claim = claim_of(sample, measure="m", candidate="ours", baseline="theirs", family="f")
    settle([claim])
    return claim


@pytest.mark.parametrize("kind", KINDS)
def test_the_better_side_wins_and_the_mirrored_claim_is_the_mirror(kind):
    make, trainings = KINDS[kind]
    ours, theirs = drawn(0, trainings, 0.9, 0.5)
    made, mirrored = claimed(make(ours, theirs)), claimed(make(theirs, ours))
    assert (made.finding, mirrored.finding) == ("candidate", "baseline")
    assert made.value - made.null == pytest.approx(mirrored.null - mirrored.value)
    assert made.p == pytest.approx(mirrored.p)
    assert made.interval == pytest.approx([2 * made.null - end for end in reversed(mirrored.interval)], abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_holds_whatever_is_missing(kind):
    """The worse answers of the candidate are missing: its complete ones alone would say that it is better."""
    make, trainings = KINDS[kind]
    ours, theirs = drawn(1, trainings, 0.5, 0.5)
    hidden = ours.copy()
    hidden[:, :120][ours[:, :120] == 0] = math.nan
    made = claimed(make(hidden, theirs))
    filled = [claimed(make(np.nan_to_num(hidden, nan=value), theirs)) for value in (0.0, 1.0)]
    assert (made.missing > 0, made.finding) == (True, "no difference")
    assert made.interval[0] <= min(each.interval[0] for each in filled) + 1e-6
    assert made.interval[1] >= max(each.interval[1] for each in filled) - 1e-6
    assert made.p >= max(each.p for each in filled if each.gain * made.gain > 0)
    assert made.p == 1 or all(each.gain * made.gain > 0 for each in filled)


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_that_no_missing_value_can_change_is_found(kind):
    make, trainings = KINDS[kind]
    ours, theirs = drawn(2, trainings, 0.95, 0.3)
    ours[:, ::40] = math.nan
    made = claimed(make(ours, theirs))
    assert (made.missing > 0, made.finding) == (True, "candidate")
    assert made.interval[0] > made.null


def test_figures_of_whole_samples_are_compared_by_the_jackknife():
    """Of means, that is the paired t-test."""
    rng = np.random.default_rng(3)
    easy = 5 * rng.normal(size=40)
    ours, theirs = (easy + gain + rng.normal(size=40) for gain in (0.9, 0.1))

    def trained(values: Array) -> Scores:
        figure, without = {"m": values.mean()}, {"m": (values.sum() - values) / 39}
        return Scores("", Path(), "", "", figures=figure, without=without, variances={"m": 0.0})

    for one, other in ((ours, theirs), (theirs, ours)):
        made = claimed(figures("m", [trained(one)], [trained(other)]))
        assert (made.kind, made.test, made.value) == ("metric", "jackknife", pytest.approx((one - other).mean()))
        assert made.p == pytest.approx(stats.ttest_rel(one, other).pvalue)
        assert made.interval[0] < made.value < made.interval[1]


@pytest.mark.parametrize("kind", NULL)
def test_without_a_unit_there_is_no_value_and_no_finding(kind):
    made = claimed(Sample(kind, fixed(Estimate(math.nan, None, None)), "sign", n=0, missing=4, enough=False))
    assert (made.value, made.interval, made.p, made.finding) == (None, None, None, "too few")
