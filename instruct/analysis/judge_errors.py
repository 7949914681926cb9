"""A win rate corrected for a judge's errors, which labels on other pairs have measured: a sensitivity analysis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_STEPS = 10_001  # a hundredth of a point


class Rate(NamedTuple):
    """A percentage and its 95 % interval."""

    value: float
    interval: Sequence[float]


def corrected_rate(judged: Rate, right: Sequence[Rate]) -> tuple[float | None, list[float] | None]:
    """The true win rate that a judge with these errors shows as `judged`, and its 95 % interval, in percent.

    None for a rate if a + b, which is 100 for a judge that knows nothing, is not shown to be larger (MOVER).

    A judge that is right in a of the pairs which the candidate wins and in b of those which the baseline wins, a tie
    counting half, shows a true rate t as a t + (1 - b) (1 - t): Rogan and Gladen's estimate inverts that. Ties enter as
    half of each, so where people call a tie, the judge is taken to be half way between 1 - b and a on average. Of a
    judge that errs alike for both systems that is so by symmetry.

    The interval is that of all t from which `judged` differs no more than chance, in the verdicts and in the labels,
    explains, with the limits of the difference from those of its parts. None if there is no such t. It also holds if
    the judge is hardly better than chance, and is then wide.

    Args:
        judged: the win rate by the judge.
        right: a and b; or one rate, if the judge errs alike for both systems.

    Source: Rogan and Gladen, American Journal of Epidemiology 107 (1978); Lee et al., arXiv 2511.21140, for the chance
    in both samples, whose interval covers as little as 77 % with 50 labels and a weak judge; Zou and Donner, Statistics
    in Medicine 27 (2008), for the limits, inverted as in Fieller, JRSS B 16 (1954).
    """
    true = np.linspace(0, 1, _STEPS)
    weights = [1 - 2 * true] if len(right) == 1 else [-true, 1 - true]
    difference, below, above = judged.value - 100 * (1 - true), np.zeros(_STEPS), np.zeros(_STEPS)
    for weight, (value, (low, high)) in zip([np.ones(_STEPS), *weights], [judged, *right], strict=True):
        ends = weight * (low - value), weight * (high - value)
        below, above = below + np.minimum(*ends) ** 2, above + np.maximum(*ends) ** 2
    for weight, rate in zip(weights, right, strict=True):
        difference = difference + weight * rate.value
    fits = np.flatnonzero((difference <= np.sqrt(below)) & (difference >= -np.sqrt(above)))
    interval = [100 * float(true[fits[0]]), 100 * float(true[fits[-1]])] if len(fits) else None
    knows = 2 / len(right) * sum(rate.value for rate in right) - 100
    if knows <= 2 / len(right) * math.hypot(*(rate.value - rate.interval[0] for rate in right)):
        return None, interval
    return float(np.clip(100 * difference[0] / knows, 0, 100)), interval
