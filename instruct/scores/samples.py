"""What a claim rests on: the scores of a sample of units, with the estimator that suits them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis import jackknife
from instruct.analysis.clusters import numbered
from instruct.analysis.inference import (
    FEW_UNITS,
    Estimate,
    cluster_values,
    mean_score,
    student,
)
from instruct.analysis.outcomes import POINTS, PairResult, weighted_scores
from instruct.analysis.results import Counts, Kind, rounded
from instruct.scores.scores import Scores

Array = NDArray[np.float64]
# What the trainings of two systems scored on the same units, each of shape (trainings, units), with a missing value of
# the candidate counting as this number, 0 or 1, and one of the baseline as the rest; NaN: missing values are NaN.
Sides = Callable[[float], tuple[Array, Array]]
# Six coin tosses all agree in 2 of 64 cases: with fewer than six decided pairs no result is significant at 5 %.
LEAST_DECIDED = 6
# With two trainings nobody knows how much a training seed changes: Student's t has one degree of freedom.
LEAST_SEEDS = 3


@dataclass(frozen=True)
class Sample:
    """Scores of units, and what they say about all such units.

    Args:
        kind: of the value, in whose unit `at` is.
        at: the estimate, a missing value of the candidate counting as this share, 0 or 1, and one of the baseline as
            the rest; NaN: of the units without a missing value.
        n: units with a value. missing: values that are missing.
        share: whether scores are from 0 to 1, so that what is missing is bounded.
        enough: whether there is enough for a finding; None: none rests on this.
        trainings: of each system.
        counts: of a judge's verdicts.
        params: of the claim.
    """

    kind: Kind
    at: Callable[[float], Estimate]
    n: int
    missing: int = 0
    share: bool = True
    enough: bool | None = None
    trainings: int = 1
    counts: Counts | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def enough_decided(wins: int, losses: int, units: int) -> bool:
    """Whether there are enough decided pairs for a claim, of `units` drawn at random (pairs, or conversations)."""
    return min(wins + losses, units) >= LEAST_DECIDED


def match(pairs: Sequence[PairResult]) -> Sample:
    """A judge's verdicts on two systems: the candidate's win rate.

    A pair without a verdict that is taken for won or lost weighs as much as the heaviest.
    """
    scores = np.array([math.nan if pair.score is None else pair.score for pair in pairs], dtype=float)
    weights, places = np.array([pair.weight for pair in pairs]), numbered(pair.unit for pair in pairs)
    known = np.isfinite(scores)
    heaviest = float(weights.max(initial=1.0))

    def at(missing: float) -> Estimate:
        filled, weighed = np.where(known, scores, missing), np.where(known, weights, heaviest)
        kept = np.isfinite(filled)
        return mean_score(filled[None, kept], places[kept], weighed[kept])

    graded = not np.isin(scores[known], list(POINTS.values())).all() or len(np.unique(weights[known])) > 1
    units = len(np.unique(places[known]))
    counted = Counter(pair.outcome for pair in pairs)
    ties = Counter(pair.tie for pair in pairs)
    discrete = [POINTS[pair.outcome] for pair in pairs if pair.outcome in POINTS]
    extremes = [at(0.0).value, at(1.0).value]
    counts = Counts(
        weighted=graded,
        win=counted["win"],
        tie=counted["tie"],
        loss=counted["loss"],
        unparsed=counted["unparsed"],
        failed=counted["failed"],
        contradicted=ties["contradicted"],
        identical=ties["identical"],
        discrete_win_rate=rounded(100 * math.fsum(discrete) / len(discrete)) if discrete else None,
        bounds=rounded(extremes) if pairs else None,
    )
    return Sample(
        kind="rate",
        at=at,
        n=int(known.sum()),
        missing=counts.unread,
        enough=enough_decided(counts.win, counts.loss, units),
        counts=counts,
        params={"clusters": units} if any(pair.conversation for pair in pairs) else {},
    )


def match_over_seeds(by_seed: Mapping[int, Sequence[PairResult]], trainings: int) -> Sample:
    """A judge's verdicts on two systems, each trained with several seeds: the candidate's mean win rate, over the
    prompts that have a verdict for every seed.

    Args:
        trainings: that count as independent.
    """
    prompts = dict.fromkeys(pair.instruction for pairs in by_seed.values() for pair in pairs)
    verdicts = [{pair.instruction: pair for pair in pairs} for pairs in by_seed.values()]
    units = {pair.instruction: pair.unit for pairs in by_seed.values() for pair in pairs}
    places = numbered(units[prompt] for prompt in prompts)
    known = np.array([weighted_scores([seed.get(prompt) for prompt in prompts]) for seed in verdicts])
    judged = np.isfinite(known)

    def at(missing: float) -> Estimate:
        filled = np.where(judged, known, missing)
        kept = np.isfinite(filled).all(axis=0)
        return mean_score(filled[:, kept], places[kept])

    shared = judged.all(axis=0)
    above, below = ((side * (known[:, shared].mean(axis=0) - 0.5) > 0).sum() for side in (1, -1))
    drawn = len(np.unique(places[shared]))
    about: dict[str, Any] = {"win_rates": [], "standard_deviation": None}
    about |= {"interval_seeds": None, "interval_prompts": None}
    if shared.any():
        of_units = np.unique(places[shared], return_inverse=True)[1]
        seeds = np.array([cluster_values(100 * row[shared], of_units, np.ones(len(of_units))) for row in known])
        rates, deviation = seeds.mean(axis=1), float(seeds.mean(axis=1).std(ddof=1))
        over_seeds = student(float(rates.mean()), deviation / math.sqrt(len(rates)), len(rates) - 1)
        over_prompts = mean_score(known[:, shared].mean(axis=0, keepdims=True), places[shared])
        about = {"win_rates": rates.tolist(), "standard_deviation": deviation}
        for name, estimate in {"interval_seeds": over_seeds, "interval_prompts": over_prompts}.items():
            about[name] = estimate.interval and np.clip(estimate.interval, 0, 100).tolist()
        if seeds.shape[1] < len(of_units):
            about["clusters"] = seeds.shape[1]
    return Sample(
        kind="rate",
        at=at,
        n=int(shared.sum()),
        missing=int((~judged).sum()),
        enough=trainings >= LEAST_SEEDS and enough_decided(above, below, drawn),
        trainings=trainings,
        params={
            "seeds": list(by_seed),
            "left_out": int((judged.any(axis=0) & ~shared).sum()),
            **{name: rounded(value) for name, value in about.items()},
        },
    )


def difference_of_matches(ours: Sequence[PairResult], theirs: Sequence[PairResult]) -> Sample:
    """A judge's verdicts on two systems beside a third: the difference of their win rates. No finding rests on it."""
    first, second = ({pair.instruction: pair for pair in pairs} for pairs in (ours, theirs))
    shared = [prompt for prompt in first if prompt in second]
    scores = [weighted_scores([side[prompt] for prompt in shared])[None] for side in (first, second)]
    sample = difference(sides_of(*scores), numbered(first[prompt].unit for prompt in shared))
    return replace(sample, enough=None, params={})


def difference(
    sides: Sides,
    clusters: NDArray[np.intp] | None = None,
    *,
    kind: Kind = "points",
    share: bool = True,
    tasks: NDArray[np.intp] | None = None,
    seeded: bool = False,
) -> Sample:
    """What two systems scored on the same units: the mean of the candidate's score minus the baseline's.

    Args:
        clusters: the cluster of each unit, from 0; None: each is one of its own.
        kind: points of scores that are shares, or the metric's own unit.
        share: whether scores are from 0 to 1.
        tasks: the task of each unit, from 0, whose means count alike; None: all units count alike.
        seeded: whether trainings are told apart by their seeds, so that also a single one is a sample of trainings.
    """
    first, second = sides(math.nan)
    several, trainings = max(len(first), len(second)) > 1, min(len(first), len(second))
    gains = mean_gains(first, second)
    known = np.flatnonzero(np.isfinite(gains))
    places = np.arange(len(gains)) if clusters is None else clusters

    def at(missing: float) -> Estimate:
        ours, theirs = (_as_many(side, trainings) for side in sides(missing))
        kept = np.flatnonzero(np.isfinite(ours - theirs).all(axis=0))
        apart, weights = (ours - theirs)[:, kept], None
        if tasks is not None:
            weights = 1 / np.bincount(tasks[kept])[tasks[kept]]
        if several and trainings == 1:  # nobody knows how much another training of the one would change
            return Estimate(float(np.average(apart, axis=1, weights=weights)[0]) * scale if len(kept) else math.nan)
        if not share:
            return mean_score(apart, places[kept], weights, share=False, null=0.0)
        estimate = mean_score((1 + apart) / 2, places[kept], weights).on_scale(0.02 * scale, -scale)
        return replace(estimate, test="McNemar") if estimate.test == "sign" else estimate

    scale = 100.0 if kind == "points" else 1.0
    above, below = int((gains[known] > 0).sum()), int((gains[known] < 0).sum())
    drawn = len(np.unique(places[known]))
    enough = enough_decided(above, below, drawn) and (share or drawn >= FEW_UNITS)
    return Sample(
        kind=kind,
        at=at,
        n=len(known),
        missing=len(gains) - len(known),
        share=share,
        enough=enough and (not (several or seeded) or trainings >= LEAST_SEEDS),
        trainings=trainings,
        params={
            "candidate_above": above,
            "baseline_above": below,
            **({"clusters": drawn} if drawn < len(known) else {}),
            **({"seeded": True} if seeded else {}),
        },
    )


def mean_over_tasks(
    of_tasks: Sequence[Sides], clusters: Sequence[NDArray[np.intp]], by_size: bool, seeded: bool = False
) -> Sample:
    """The mean difference over tasks, of scores from 0 to 1, each counting by its number of units or all alike.

    Args:
        clusters: of each task's units, from 0.
    """

    def sides(missing: float) -> tuple[Array, Array]:
        ours, theirs = zip(*(each(missing) for each in of_tasks), strict=True)
        return np.concatenate(ours, axis=1), np.concatenate(theirs, axis=1)

    starts = np.cumsum([0, *(of.max(initial=-1) + 1 for of in clusters[:-1])])
    together = np.concatenate([of + start for of, start in zip(clusters, starts, strict=True)])
    tasks = np.repeat(np.arange(len(clusters)), [len(of) for of in clusters])
    sample = difference(sides, together, tasks=None if by_size else tasks, seeded=seeded)
    gains = mean_gains(*sides(math.nan))
    about = {"tasks": len(np.unique(tasks[np.isfinite(gains)])), "weights": "units" if by_size else "tasks"}
    return replace(sample, params={**sample.params, **about})


def figures(metric: str, ours: Sequence[Scores], theirs: Sequence[Scores] = ()) -> Sample:
    """A figure of whole samples of texts, such as MAUVE: its mean over trainings, or what it differs by from that of as
    many trainings of another system on the same texts, by the jackknife over texts."""
    values, without = np.array([each.figures[metric] for each in ours]), [each.without[metric] for each in ours]
    if theirs:
        values = values - [each.figures[metric] for each in theirs]
        without = [left - each.without[metric] for left, each in zip(without, theirs, strict=True)]
    if all(len(left) for left in without):
        found = jackknife.estimate(values, without, sum(each.variances[metric] for each in (*ours, *theirs)))
    else:  # nobody knows how much other texts would change
        found = Estimate(float(values.mean()))
    named = replace(found, test="jackknife")
    return Sample("metric", lambda missing: named, n=0, share=False, trainings=len(ours))


def is_share(values: Array) -> bool:
    """Whether a metric with these values is from 0 to 1, so that differences are in points; NaN: missing."""
    known = values[np.isfinite(values)]
    return bool(known.size) and bool(known.min() >= 0 and known.max() <= 1)


def mean_gains(ours: Array, theirs: Array) -> Array:
    """The mean over the trainings of what the candidate gains on each unit; NaN where a value is missing."""
    gains: Array = (ours - theirs).mean(axis=0) if len(ours) == len(theirs) else ours.mean(axis=0) - theirs.mean(axis=0)
    return gains


def sides_of(ours: Array, theirs: Array) -> Sides:
    """What two systems scored on the same units, from matrices where NaN is missing."""

    def sides(missing: float) -> tuple[Array, Array]:
        return np.where(np.isnan(ours), missing, ours), np.where(np.isnan(theirs), 1 - missing, theirs)

    return sides


def _as_many(trainings: Array, number: int) -> Array:
    """Trainings as fewer independent ones with the same mean, each with so much less variance.

    That is Scheffé's test for samples of different sizes, whose variances may differ ("On Solutions of the
    Behrens-Fisher Problem, Based on the t-Distribution", Annals of Mathematical Statistics 14, 1943).

    Args:
        trainings: shape (trainings, units).
    """
    if number == len(trainings):
        return trainings
    paired = trainings[:number]
    spread: Array = math.sqrt(number / len(trainings)) * (paired - paired.mean(axis=0))
    return spread + trainings.mean(axis=0)
