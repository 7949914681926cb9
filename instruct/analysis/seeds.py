"""The same comparison with systems trained with different seeds: what another training would have given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.clusters import numbered
from instruct.analysis.inference import Estimate, OneSided, crossed, student, unit_values


@dataclass(frozen=True)
class Spread:
    """Win rates of several seeds, in percent, with 95 % intervals of their mean, cut to 0..100.

    All figures are of the `n` prompts that have a verdict for every seed; `left_out` have one for some seeds alone.
    `interval_seeds` is over seeds alone, for these prompts, `interval_both` over seeds and prompts, `interval_prompts`
    over prompts alone. They are None with fewer than two prompts or without any variation to estimate them from: equal
    win rates of a few seeds do not show that other seeds would give the same. `p`: of the hypothesis that the mean over
    seeds and prompts is 50. Without such prompts, `mean` and `standard_deviation` are None.
    """

    win_rates: list[float]
    mean: float | None
    standard_deviation: float | None
    interval_seeds: list[float] | None
    n: int
    left_out: int
    interval_both: list[float] | None
    interval_prompts: list[float] | None
    p: float | None
    one_sided: OneSided | None = None

    @property
    def estimate(self) -> Estimate:
        """The mean with its interval and tests over seeds and prompts."""
        mean = math.nan if self.mean is None else self.mean
        return Estimate(mean, self.interval_both, self.p, self.one_sided)


def seed_spread(scores: Sequence[Mapping[str, float | None]]) -> Spread:
    """The mean of the seeds' win rates and how certain it is.

    Over seeds: Student's t with the seeds as the sample. Over both: seeds and prompts are `crossed` random effects
    without replication.

    Args:
        scores: of each seed, at least two: score (0 to 1) by prompt, None without a verdict.
    """
    judged = [{prompt for prompt, score in seed.items() if score is not None} for seed in scores]
    shared = [prompt for prompt in scores[0] if all(prompt in prompts for prompts in judged)]
    left_out = len(set().union(*judged)) - len(shared)
    if not shared:
        return Spread([], None, None, None, 0, left_out, None, None, None)
    matrix = np.array([[seed[prompt] for prompt in shared] for seed in scores], dtype=float)
    rates = 100 * matrix.mean(axis=1)
    mean, deviation = float(rates.mean()), float(rates.std(ddof=1))
    over_seeds = student(mean, deviation / math.sqrt(len(rates)), len(rates) - 1)
    both = crossed(100 * matrix, 50.0) if len(shared) > 1 else Estimate(mean, None, None)
    over_prompts = crossed(100 * matrix.mean(axis=0, keepdims=True), 50.0)
    intervals = (
        np.clip(each.interval, 0, 100).tolist() if each.interval else None for each in (over_seeds, both, over_prompts)
    )
    of_seeds, of_both, of_prompts = intervals
    tests = both.p, both.one_sided
    return Spread(rates.tolist(), mean, deviation, of_seeds, len(shared), left_out, of_both, of_prompts, *tests)


def score_difference(
    first: NDArray[np.float64], second: NDArray[np.float64], clusters: NDArray[np.intp] | None = None
) -> Estimate:
    """Compare two systems, seed with seed and prompt with prompt, by the two-way analysis of `seed_spread`.

    The difference is in the scores' unit. Its interval and p are over seeds and prompts: None with fewer than two of
    either, or without any variation.

    Args:
        first, second: scores of the same prompts, shape (seeds, prompts), the seeds in the same order. Of different
            numbers, all count in the difference, and the smaller number in its interval (`_as_many`).
        clusters: the cluster of each prompt; None: each is one of its own.
    """
    if not first.shape[1]:
        return Estimate(math.nan, None, None)
    number = min(len(first), len(second))
    ours, theirs = (_as_many(side, number) for side in (first, second))
    places = numbered((np.arange(first.shape[1]) if clusters is None else clusters).tolist())
    scores = np.array([unit_values(training, places) for training in ours - theirs])
    return crossed(scores) if min(scores.shape) > 1 else Estimate(float(scores.mean()), None, None)


def _as_many(trainings: np.ndarray, number: int) -> np.ndarray:
    """Trainings as fewer independent ones with the same mean, each with so much less variance.

    That is Scheffé's test for samples of different sizes, whose variances may differ ("On Solutions of the
    Behrens-Fisher Problem, Based on the t-Distribution", Annals of Mathematical Statistics 14, 1943).

    Args:
        trainings: scores, float64, shape (trainings, prompts).
    """
    share = math.sqrt(number / len(trainings))
    if share == 1:
        return trainings
    paired = trainings[:number]
    return share * (paired - paired.mean(axis=0)) + trainings.mean(axis=0)
