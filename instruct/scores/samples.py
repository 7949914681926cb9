"""What a claim rests on: the scores of a sample of units, with the estimator that suits them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis import jackknife
from instruct.analysis.clusters import numbered
from instruct.analysis.inference import (
    FEW_PAIRS,
    Estimate,
    crossed,
    mean_of_groups,
    paired_difference,
    paired_test_name,
    unit_values,
)
from instruct.analysis.results import Counts, Kind, recorded, rounded
from instruct.analysis.seeds import score_difference, seed_spread
from instruct.analysis.statistics import Tally
from instruct.scores.scores import Scores

Array = NDArray[np.float64]
# The score of each unit; None: it is missing.
Values = Mapping[Any, float | None]
# What the trainings of two systems scored on the same units, each of shape (trainings, units), with a missing value of
# the candidate counting as this number, 0 or 1, and one of the baseline as the rest; NaN: missing values are NaN.
Sides = Callable[[float], tuple[Array, Array]]
# Six coin tosses all agree in 2 of 64 cases: with fewer than six decided pairs no result is significant at 5 %.
LEAST_DECIDED = 6
# With two trainings nobody knows how much a training seed changes: Student's t has one degree of freedom.
LEAST_SEEDS = 3
_NOTHING = Estimate(math.nan, None, None)


@dataclass(frozen=True)
class Sample:
    """Scores of units, and what they say about all such units.

    Args:
        kind: of the value, in whose unit `at` is.
        at: the estimate, a missing value of the candidate counting as this share, 0 or 1, and one of the baseline as
            the rest; NaN: of the units without a missing value.
        test: what p and interval are of.
        n: units with a value. missing: values that are missing.
        share: whether scores are from 0 to 1, so that what is missing is bounded.
        enough: whether there is enough for a finding; None: none rests on this.
        trainings: of each system.
        counts: of a judge's verdicts.
        params: of the claim.
    """

    kind: Kind
    at: Callable[[float], Estimate]
    test: str
    n: int
    missing: int = 0
    share: bool = True
    enough: bool | None = None
    trainings: int = 1
    counts: Counts | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def fixed(estimate: Estimate) -> Callable[[float], Estimate]:
    """An estimate that does not depend on what is missing."""
    return lambda missing: estimate


def enough_decided(wins: int, losses: int, units: int) -> bool:
    """Whether there are enough decided pairs for a claim, of `units` drawn at random (pairs, or conversations)."""
    return min(wins + losses, units) >= LEAST_DECIDED


def match(counts: Tally) -> Sample:
    """A judge's verdicts on two systems: the candidate's win rate."""
    lost, won = counts.extremes
    cases = {0.0: lost, 1.0: won}
    # The mean of so few grades has no interval or test that says anything.
    few = counts.scores is not None and len(counts.values) < FEW_PAIRS

    def at(missing: float) -> Estimate:
        estimate = cases.get(missing, counts).estimate
        rate = counts.win_rate if math.isnan(missing) else estimate.value
        value = math.nan if rate is None else rate
        return Estimate(value, None, None) if few else estimate._replace(value=value)

    return Sample(
        kind="rate",
        at=at,
        test="mean" if counts.graded else "sign",
        n=counts.n_judged,
        missing=counts.unread,
        enough=not few and enough_decided(counts.win, counts.loss, len(counts.values)),
        counts=recorded(Counts, counts),
        params={} if counts.conversations is None else {"clusters": len(counts.conversations)},
    )


def match_over_seeds(by_seed: Mapping[int, Values], trainings: int) -> Sample:
    """A judge's verdicts on two systems, each trained with several seeds: the candidate's mean win rate.

    Args:
        by_seed: by prompt, a score from 0 to 1.
        trainings: that count as independent.
    """
    scores = list(by_seed.values())
    prompts = dict.fromkeys(prompt for one in scores for prompt in one)
    spread = seed_spread(scores)

    def at(missing: float) -> Estimate:
        if math.isnan(missing):
            return spread.estimate
        return seed_spread(
            [{key: missing if one.get(key) is None else one[key] for key in prompts} for one in scores]
        ).estimate

    return Sample(
        kind="rate",
        at=at,
        test="two-way",
        n=spread.n,
        missing=sum(one.get(prompt) is None for one in scores for prompt in prompts),
        enough=trainings >= LEAST_SEEDS,
        trainings=trainings,
        params={
            "seeds": list(by_seed),
            "win_rates": rounded(spread.win_rates),
            "left_out": spread.left_out,
            "standard_deviation": rounded(spread.standard_deviation),
            "interval_seeds": rounded(spread.interval_seeds),
            "interval_prompts": rounded(spread.interval_prompts),
        },
    )


def difference(
    sides: Sides,
    clusters: NDArray[np.intp] | None = None,
    *,
    kind: Kind = "points",
    share: bool = True,
    test: str = "",
) -> Sample:
    """What two systems scored on the same units: the mean of the candidate's score minus the baseline's.

    Args:
        clusters: the cluster of each unit, from 0; None: each is one of its own.
        kind: points of scores that are shares, or the metric's own unit.
        share: whether scores are from 0 to 1.
        test: of one training each; empty: by the values.
    """
    ours, theirs = sides(math.nan)
    gains = mean_gains(ours, theirs)
    known = np.flatnonzero(np.isfinite(gains))
    places = known if clusters is None else clusters[known]
    several, trainings = max(len(ours), len(theirs)) > 1, min(len(ours), len(theirs))

    def at(missing: float) -> Estimate:
        first, second = sides(missing)
        kept = np.flatnonzero(np.isfinite(np.concatenate([first, second])).all(axis=0))
        first, second, places = first[:, kept], second[:, kept], kept if clusters is None else clusters[kept]
        if several:
            found = score_difference(first, second, places).scaled(100)
        else:
            found = paired_difference((first - second)[0], places)
        return found if kind == "points" else found.scaled(0.01)

    named = "two-way" if several else test or paired_test_name(gains[known], places)
    sample = _of_gains(at, kind, gains, len(np.unique(places)), named, trainings, several)
    return replace(sample, share=share)


def mean_over_tasks(of_tasks: Sequence[Sides], clusters: Sequence[NDArray[np.intp]], by_size: bool) -> Sample:
    """The mean difference over tasks, of scores from 0 to 1, each counting by its number of units or all alike.

    Args:
        clusters: of each task's units, from 0.
    """
    gains = [mean_gains(*sides(math.nan)) for sides in of_tasks]
    trainings = len(of_tasks[0](math.nan)[0])

    def at(missing: float) -> Estimate:
        differences, places = [], []
        for sides, own in zip(of_tasks, clusters, strict=True):
            ours, theirs = sides(missing)
            kept = np.flatnonzero(np.isfinite(ours - theirs).all(axis=0))
            if len(kept):
                differences.append((ours - theirs)[:, kept])
                places.append(numbered(own[kept].tolist()))
        if not differences:
            return _NOTHING
        sizes = np.array([gains.shape[1] for gains in differences], dtype=float)
        weights = sizes / sizes.sum() if by_size else np.full(len(sizes), 1 / len(sizes))
        if trainings == 1:
            return mean_of_groups([gains[0] for gains in differences], places, weights.tolist()).scaled(100)
        # Units that weigh what they weigh in the mean: drawn from all tasks alike, which is more than they vary within.
        weighed = [
            weight * sizes.sum() * gains / gains.shape[1] for weight, gains in zip(weights, differences, strict=True)
        ]
        starts = np.cumsum([0, *(of.max() + 1 for of in places[:-1])])
        together = np.concatenate([of + start for of, start in zip(places, starts, strict=True)])
        every = np.concatenate(weighed, axis=1)
        return crossed(np.array([unit_values(training, together) for training in every])).scaled(100)

    drawn = sum(len(np.unique(of[np.isfinite(own)])) for own, of in zip(gains, clusters, strict=True))
    test = "two-way" if trainings > 1 else "permutation"
    sample = _of_gains(at, "points", np.concatenate(gains), drawn, test, trainings, trainings > 1)
    about = {"tasks": len(of_tasks), "weights": "units" if by_size else "tasks"}
    return replace(sample, params={**sample.params, **about})


def figures(metric: str, ours: Sequence[Scores], theirs: Sequence[Scores] = ()) -> Sample:
    """A figure of whole samples of texts, such as MAUVE: its mean over trainings, or what it differs by from that of as
    many trainings of another system on the same texts, by the jackknife over texts."""
    values, without = np.array([each.figures[metric] for each in ours]), [each.without[metric] for each in ours]
    if theirs:
        values = values - [each.figures[metric] for each in theirs]
        without = [left - each.without[metric] for left, each in zip(without, theirs, strict=True)]
    found = jackknife.estimate(values, without, sum(each.variances[metric] for each in (*ours, *theirs)))
    return Sample("metric", fixed(found), "jackknife", n=0, share=False, trainings=len(ours))


def is_share(values: Array) -> bool:
    """Whether a metric with these values is from 0 to 1, so that differences are in points; NaN: missing."""
    known = values[np.isfinite(values)]
    return bool(known.size) and bool(known.min() >= 0 and known.max() <= 1)


def mean_gains(ours: Array, theirs: Array) -> Array:
    """The mean over the trainings of what the candidate gains on each unit; NaN where a value is missing."""
    gains: Array = (ours - theirs).mean(axis=0) if len(ours) == len(theirs) else ours.mean(axis=0) - theirs.mean(axis=0)
    return gains


def sides_of(ours: Sequence[Values], theirs: Sequence[Values]) -> tuple[list[Any], Sides]:
    """The units that all trainings of two systems have, and what they scored on them."""
    units = [unit for unit in ours[0] if all(unit in one for one in (*ours, *theirs))]
    first, second = (
        np.array([[math.nan if (value := one[unit]) is None else value for unit in units] for one in side])
        for side in (ours, theirs)
    )

    def sides(missing: float) -> tuple[Array, Array]:
        return np.where(np.isnan(first), missing, first), np.where(np.isnan(second), 1 - missing, second)

    return units, sides


def _of_gains(
    at: Callable[[float], Estimate],
    kind: Kind,
    gains: Array,
    drawn: int,
    test: str,
    trainings: int,
    several: bool,
) -> Sample:
    """Args: gains: of each unit; NaN: a value is missing. drawn: how many clusters these are."""
    known = gains[np.isfinite(gains)]
    above, below = int((known > 0).sum()), int((known < 0).sum())
    return Sample(
        kind=kind,
        at=at,
        test=test,
        n=len(known),
        missing=len(gains) - len(known),
        enough=enough_decided(above, below, drawn) and (not several or trainings >= LEAST_SEEDS),
        trainings=trainings,
        params={
            "candidate_above": above,
            "baseline_above": below,
            **({"clusters": drawn} if drawn < len(known) else {}),
        },
    )
