"""95 % intervals of a win rate: Wilson's, AlpacaEval's from the standard error, and the bootstrap's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 0
_Z = NormalDist().inv_cdf(0.975)
# Rows times resamples at once: 32 MB of indices.
_AT_ONCE = 4_000_000
# With at most this many distinct values their counts are resampled instead of rows: the same distribution, faster.
_FEW_VALUES = 16


def win_rate_interval(scores: NDArray[np.float64], graded: bool) -> list[float] | None:
    """The leading 95 % interval of 100 * mean(scores), in percent.

    Wilson's score interval for counted verdicts (win 1, tie 1/2, loss 0); for graded preferences the mean -/+ 1.96
    standard errors, which is AlpacaEval's, cut to 0..100. None without scores, or with a single graded one.
    """
    n = len(scores)
    if not graded:
        return wilson_interval(float(scores.sum()), n)
    if n < 2:
        return None
    rate, spread = 100 * float(scores.mean()), 196 * float(scores.std(ddof=1)) / math.sqrt(n)
    return [max(0.0, rate - spread), min(100.0, rate + spread)]


def bootstrap_interval(values: NDArray[np.float64]) -> list[float] | None:
    """The percentile interval of 100 * mean(values), from 10,000 resamples of the pairs with a fixed seed.

    Args:
        values: one for each pair: scores, or differences of scores.

    Returns:
        The 2.5th and the 97.5th percentile; None with fewer than two values.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3; scipy.stats.bootstrap with
    method="percentile" gives the same up to the draw.
    """
    if len(values) < 2:
        return None
    rng = np.random.default_rng(SEED)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _FEW_VALUES:
        drawn = rng.multinomial(len(values), counts / len(values), size=RESAMPLES)
        means = drawn @ distinct / len(values)
    else:
        parts = [
            values[rng.integers(len(values), size=(rows, len(values)), dtype=np.int32)].mean(axis=1)
            for rows in chunks(len(values))
        ]
        means = np.concatenate(parts)
    low, high = np.percentile(means, [2.5, 97.5])
    return [100 * float(low), 100 * float(high)]


def chunks(width: int) -> Iterator[int]:
    """How many resamples of `width` values to draw at once, until there are RESAMPLES."""
    rows = max(1, _AT_ONCE // width)
    for start in range(0, RESAMPLES, rows):
        yield min(rows, RESAMPLES - start)


def wilson_interval(points: float, n: int) -> list[float] | None:
    """Wilson's score interval of points / n in percent; None if n is 0.

    A tie counts as half a success. Ties vary less than wins and losses with the same mean, so the interval is then
    wider than it needs to be, never narrower.

    Source: Wilson, Journal of the American Statistical Association 22 (1927).
    """
    if not n:
        return None
    share, shrink = points / n, 1 + _Z**2 / n
    center = (share + _Z**2 / (2 * n)) / shrink
    half = _Z / shrink * math.sqrt(max(0.0, share * (1 - share)) / n + _Z**2 / (4 * n**2))
    return [max(0.0, 100 * (center - half)), min(100.0, 100 * (center + half))]


def rounded_interval(interval: list[float] | tuple[float, float] | None) -> list[float] | None:
    """To the six decimals of report.json."""
    return None if interval is None else [round(value, 6) for value in interval]
