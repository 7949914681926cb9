"""The minimum detectable difference, and the pairs needed for the observed one."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.results import Power

# Two-sided 5 %, and 80 % power: 1.960 + 0.842 standard errors.
_STANDARD_ERRORS = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
_FROM = "80 % power, two-sided test at 5 %, with the observed standard deviation"


def power(values: NDArray[np.float64]) -> Power:
    """The smallest difference from 50 % that the pairs can detect, and the pairs needed for the observed one.

    With s the standard deviation (ddof=1) of the n scores and z = 1.960 + 0.842: the difference is 100 z s / sqrt(n)
    points, and the pairs are ceil((z s / (mean - 1/2)) ** 2).

    Args:
        values: scores, 0 to 1, one for each pair with a verdict.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapter 2, in the normal
    approximation; statsmodels.stats.power.zt_ind_solve_power with ratio=0 gives the same.
    """
    if len(values) < 2:
        return Power(smallest_difference=None, pairs_needed=None, note="fewer than two verdicts")
    deviation = float(values.std(ddof=1))
    if deviation == 0:
        return Power(
            smallest_difference=None, pairs_needed=None, note="all verdicts are the same, so there is no deviation"
        )
    smallest = 100 * _STANDARD_ERRORS * deviation / math.sqrt(len(values))
    difference = abs(float(values.mean()) - 0.5)
    if difference < 1e-9:
        return Power(
            smallest_difference=round(smallest, 6), pairs_needed=None, note=f"{_FROM}; there is no difference to detect"
        )
    return Power(
        smallest_difference=round(smallest, 6),
        pairs_needed=max(2, math.ceil((_STANDARD_ERRORS * deviation / difference) ** 2)),
        note=_FROM if smallest < 50 else f"{_FROM}; no win rate differs that much from 50: too few pairs",
    )
