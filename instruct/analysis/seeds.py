"""The same comparison with systems trained with different seeds: what another training would have given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instruct.analysis.inference import Difference, Estimate, student


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

    @property
    def estimate(self) -> Estimate:
        """The mean with its interval and p over seeds and prompts."""
        return Estimate(math.nan if self.mean is None else self.mean, self.interval_both, self.p)


def seed_spread(scores: Sequence[Mapping[str, float | None]]) -> Spread:
    """The mean of the seeds' win rates and how certain it is.

    Over seeds: Student's t with the seeds as the sample. Over both: seeds and prompts are crossed random effects
    without replication, so with the mean squares of seeds S, prompts P and the rest E of a two-way analysis of
    variance, the grand mean of s seeds and n prompts has the variance (S + P - E) / (s n), with Satterthwaite's degrees
    of freedom. The estimate is at least that of either effect alone.

    Args:
        scores: of each seed, at least two: score (0 to 1) by prompt, None without a verdict.

    Source: Scheffe, The Analysis of Variance (1959), chapter 7; Satterthwaite, Biometrics Bulletin 2 (1946).
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
    both, prompts = _crossed(100 * matrix, 50.0)
    over_seeds_alone, over_both, over_prompts = (
        np.clip(interval, 0, 100).tolist() if interval else None
        for interval in (over_seeds.interval, both.interval, prompts)
    )
    return Spread(
        rates.tolist(), mean, deviation, over_seeds_alone, len(shared), left_out, over_both, over_prompts, both.p
    )


def score_difference(
    first: Sequence[Mapping[str, float | None]], second: Sequence[Mapping[str, float | None]]
) -> Difference:
    """Compare two systems, seed with seed and prompt with prompt, by the two-way analysis of `seed_spread`.

    The difference is in the scores' unit, over the prompts with a score in all trainings of both. Its interval and p
    are over seeds and prompts: None with fewer than two of either, or without any variation.

    Args:
        first, second: of each seed in the same order: score by prompt, None without one.

    Raises:
        ValueError: different numbers of seeds.
    """
    pairs = list(zip(first, second, strict=True))
    shared = [key for key in pairs[0][0] if all(one.get(key) is not None for pair in pairs for one in pair)]
    if not shared:
        return Difference()
    both = np.array([[[one[key] for key in shared] for one in pair] for pair in pairs], dtype=float)
    scores = both[:, 0] - both[:, 1]
    return Difference(len(shared), *_crossed(scores, 0.0)[0])


def _crossed(scores: np.ndarray, null: float) -> tuple[Estimate, list[float] | None]:
    """The mean of `scores`, (seeds, prompts), over both with the p-value of `null`, and its interval over prompts.

    Not defined with fewer than two seeds or prompts, or if all scores are equal.
    """
    seeds, prompts = scores.shape
    mean = float(scores.mean()) if scores.size else math.nan
    if min(scores.shape) < 2:
        return Estimate(mean, None, None), None
    by_seed, by_prompt = scores.mean(axis=1, keepdims=True), scores.mean(axis=0, keepdims=True)
    squares = [
        prompts * float(((by_seed - mean) ** 2).sum()),
        seeds * float(((by_prompt - mean) ** 2).sum()),
        float(((scores - by_seed - by_prompt + mean) ** 2).sum()),
    ]
    freedom = [seeds - 1, prompts - 1, (seeds - 1) * (prompts - 1)]
    of_seeds, of_prompts, rest = (square / degrees for square, degrees in zip(squares, freedom, strict=True))
    # The degrees of freedom count the seeds in any case: few seeds may be alike by chance (benchmarks/claims.py).
    total = max(of_seeds + of_prompts - rest, of_seeds, of_prompts)
    if not total:
        return Estimate(mean, None, None), None
    parts = [of_seeds**2 / freedom[0], of_prompts**2 / freedom[1], rest**2 / freedom[2]]
    over_prompts = student(mean, math.sqrt(of_prompts / (seeds * prompts)), prompts - 1).interval
    return student(mean, math.sqrt(total / (seeds * prompts)), total**2 / sum(parts), null), over_prompts
