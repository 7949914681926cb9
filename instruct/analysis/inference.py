"""What a sample says about all units: for each kind of sample one procedure, which tests every possible value.

Interval, p-value and what is excluded are readings of these tests, so that they cannot contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_Z, _LEVEL = NormalDist().inv_cdf(0.975), 0.05
# 2 ** -24 of a range is below a thousandth of a percentage point.
_BISECTIONS = 24
# Of fewer units the mean of values without bounds says nothing.
FEW_UNITS = 20
# A standard error that only rounding makes.
_NOTHING = 1e-10
# Of a distribution over which a p-value is averaged.
_STEPS = 200
# What is right or wrong, or won, tied or lost; also the differences of two of these, as shares.
_COUNTED = (0.0, 0.25, 0.5, 0.75, 1.0)


# By a number and a sign: the p-value of the hypothesis that the true value is at most that number (1), at least (-1).
OneSided = Callable[[float, int], float]


@dataclass(frozen=True)
class Estimate:
    """A value, and the one-sided tests of all other values.

    Args:
        tests: None: there is nothing to test, and no interval.
        null: the value of equal systems. least, most: the possible values.
        error: the value's standard error, if it is known.
        test: what the tests are called.
    """

    value: float
    tests: OneSided | None = None
    null: float = 0.0
    least: float = -math.inf
    most: float = math.inf
    error: float | None = None
    test: str = ""

    @cached_property
    def p(self) -> float | None:
        """The two-sided p-value of `null`."""
        return None if self.tests is None else min(1.0, 2 * min(self.tests(self.null, sign) for sign in (1, -1)))

    @cached_property
    def interval(self) -> list[float] | None:
        """The 95 % interval."""
        return self.within(0.95)

    def within(self, level: float) -> list[float] | None:
        """The interval of a level: the values that neither one-sided test rejects at half of what the level leaves."""
        if self.tests is None or not math.isfinite(self.value):
            return None
        tail = (1 - level) / 2
        return [self._end(self.tests, 1, tail), self._end(self.tests, -1, tail)]

    def _end(self, tests: OneSided, sign: int, tail: float) -> float:
        from scipy.optimize import brentq  # takes a fifth of a second

        bound, step = self.least if sign > 0 else self.most, self.error or 1.0
        if math.isinf(bound):
            bound = self.value - sign * step
            while tests(bound, sign) > tail:
                step *= 2
                bound = self.value - sign * step
        elif sign * (self.value - bound) <= 0 or tests(bound, sign) > tail:
            return bound
        if tests(self.value, sign) <= tail:
            return self.value
        return float(brentq(lambda at: tests(at, sign) - tail, bound, self.value, xtol=1e-12))

    def on_scale(self, by: float, plus: float = 0.0) -> Estimate:
        """The estimate of `by` (above 0) times the value and `plus`."""
        value, null, least, most = (by * each + plus for each in (self.value, self.null, self.least, self.most))
        tests, error = self.tests, None if self.error is None else by * self.error
        moved: OneSided | None = tests and (lambda at, sign: tests((at - plus) / by, sign))
        return Estimate(value, moved, null, least, most, error, self.test)


def weakest(estimate: Estimate, others: Iterable[Estimate]) -> Estimate:
    """The estimate with tests that reject what those of all others reject, too: it holds whichever of them is true."""
    every = [estimate.tests, *(other.tests for other in others)]
    tests = [each for each in every if each is not None]
    if len(tests) < len(every):
        return replace(estimate, tests=None)
    return replace(estimate, tests=lambda at, sign: max(test(at, sign) for test in tests))


def student(value: float, error: float, freedom: float, null: float = 0.0, **about: Any) -> Estimate:
    """A value with this standard error: Student's test. `about`: more of the estimate."""
    if error <= _NOTHING * max(1.0, abs(value)):
        return Estimate(value, None, null, **about)
    from scipy.special import stdtr  # takes half a second

    def tests(at: float, sign: int) -> float:
        return float(stdtr(freedom, sign * (at - value) / error))

    return Estimate(value, tests, null, error=error, **about)


def mean_score(
    scores: Array,
    clusters: NDArray[np.intp] | None = None,
    weights: Array | None = None,
    *,
    share: bool = True,
    null: float = 50.0,
) -> Estimate:
    """The mean score of one training or several, by the procedure for this kind of sample (docs/statistics.md).

    Args:
        scores: shape (trainings, units). clusters: the cluster of each unit, from 0; None: each is one of its own.
        weights: how often each unit counts, shape (units,); None: all alike.
        share: whether scores are from 0 to 1; the mean is then in percent. null: of the mean.

    Source: of what clusters vary by, Bell and McCaffrey, Survey Methodology 28 (2002).
    """
    units = scores.shape[1]
    about: dict[str, Any] = {"null": null, **({"least": 0.0, "most": 100.0} if share else {})}
    scale = 100 if share else 1
    if not units:
        return Estimate(math.nan, **about)
    places = np.arange(units) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    weights = np.ones(units) if weights is None else weights / weights.mean()
    per_cluster = scale * np.array([cluster_values(training, places, weights) for training in scores])
    mean, number, freedom = float(per_cluster.mean()), per_cluster.shape[1], kish_freedom(np.bincount(places, weights))
    if 1 < number < units:
        # A large cluster pulls the mean to itself, which hides its variance (Bell and McCaffrey).
        hidden = (1 - np.bincount(places, weights) / units) * number / (number - 1)
        own = per_cluster.mean(axis=1, keepdims=True)
        per_cluster = own + (per_cluster - own) / np.sqrt(hidden)
    if len(scores) > 1 and number > 1:
        estimate = crossed(per_cluster, null, value=mean, freedom=freedom)
        if estimate.tests is None and share:  # nothing varies: the rows of the seed that shows least
            rows = [mean_score(training[None], clusters, weights) for training in scores]
            estimate = weakest(replace(rows[0], value=mean), rows)
        return replace(estimate, **about, test="two-way")
    if len(scores) > 1 or number < min(units, 2):  # other units might have given anything
        return Estimate(mean, **about, test="two-way" if len(scores) > 1 else "mean")
    spread = float(per_cluster.std(ddof=1)) / math.sqrt(number) if number > 1 else None
    about["error"] = spread
    kind = " in clusters" if number < units else ""
    if share and scores.min() >= 0 and scores.max() <= 1:
        counted = np.isin(scores, _COUNTED).all() and not np.ptp(weights)
        independent = _independent_rows(scores[0], number, (spread or 0.0) / 100, freedom) if kind else None
        tests = mean_tests(scores[0], weights, independent)
        return Estimate(mean, tests, **about, test=f"{'sign' if counted else 'mean'}{kind}")
    if number < FEW_UNITS:
        return Estimate(mean, **about, test=f"Student{kind}")
    return replace(student(mean, spread or 0.0, freedom), **about, test=f"Student{kind}")


def cluster_values(scores: Array, clusters: NDArray[np.intp], weights: Array) -> Array:
    """What is drawn at random: a value for each cluster, whose mean is the weighted mean of all rows and varies as it
    does (the ratio estimator); of rows that are clusters of their own and count alike these are their scores.

    Source: Cochran, Sampling Techniques (1977), section 9.2 for clusters, 6.4 for the ratio estimator.
    """
    mean, sizes = float(scores @ weights / weights.sum()), np.bincount(clusters, weights)
    if len(sizes) == len(scores) and not np.ptp(weights):
        return scores
    values: Array = mean + np.bincount(clusters, weights * (scores - mean)) / sizes.mean()
    return values


def kish_freedom(sizes: NDArray[Any]) -> float:
    """The degrees of freedom of clusters of these sizes: those of as many clusters of equal size as would leave (Kish).

    Source: Kish, Survey Sampling (1965); Korn and Graubard, Survey Methodology 24 (1998).
    """
    return max(1.0, float(sizes.sum() ** 2 / (sizes**2).sum()) - 1)


def _independent_rows(scores: Array, clusters: int, error: float, freedom: float) -> float:
    """How many independent rows, with the distribution of these, have a mean that varies as that of rows in clusters.

    Never more than there are, and as many as clusters if nothing varies. Fewer, where few clusters show their variance.

    Source: Korn and Graubard, Survey Methodology 24 (1998).
    """
    from scipy.special import stdtrit  # takes half a second

    variance, rows = float(scores.var()), float(len(scores))
    if variance <= _NOTHING**2:
        rows = float(clusters)
    elif error > _NOTHING:
        rows = min(rows, variance / error**2)
    return rows * (_Z / float(stdtrit(freedom, 0.975))) ** 2


def _binomial_tests(mean: float, n: float) -> OneSided:
    """Clopper and Pearson's tests of a rate in percent, of so many rows, whose number need not be whole."""
    from scipy.special import betainc  # takes half a second

    points = min(max(mean, 0.0), 1.0) * n

    def tests(percent: float, sign: int) -> float:
        right, rate = (points, percent / 100) if sign > 0 else (n - points, 1 - percent / 100)
        return float(betainc(right, n - right + 1, rate)) if right > 1e-9 else 1.0

    return tests


def mean_tests(scores: Array, weights: Array, rows: float | None = None) -> OneSided:
    """Gaffke's tests of the weighted mean, in percent, of scores of any distribution from 0 to 1.

    The mean exceeds m by evidence at level a if the scores and one more 0, drawn with shares of 1 that are uniformly
    distributed, average m or less with a probability of at most a. Of wins and losses alone these are Clopper and
    Pearson's tests; of wins, ties and losses the test of 50 is the exact sign test, without the ties. With weights
    the distances from m are weighted, that of the 0 by the largest weight.

    Args:
        rows: as of so many rows with the distribution of these; None: of these.

    Source: Gaffke, Mathematical Methods of Statistics 14 (2005); Learned-Miller and Thomas, arXiv 1905.06208. That it
    is valid for more than two values is conjectured; benchmarks/claims.py and docs/statistics.md have its error.
    """
    # Rounded, so that time does not grow with the number of grades: by a two-hundredth of a point at most.
    if np.ptp(weights):
        (points_of, heights), counts = np.unique(
            np.stack([scores.round(4), weights.round(4)]), axis=1, return_counts=True
        )
    else:
        points_of, counts = np.unique(scores.round(4), return_counts=True)
        heights = np.ones(len(points_of))
    counts = np.append(counts if rows is None else counts * rows / len(scores), 1)
    heights = np.append(heights, heights.max())

    def tests(percent: float, sign: int) -> float:
        points, least = (points_of, percent / 100) if sign > 0 else (1 - points_of, 1 - percent / 100)
        return _chance_below(heights * (np.append(points, 0.0) - least), counts)

    return tests


def _chance_below(values: Array, counts: NDArray[Any]) -> float:
    """P(sum of the values, each times a Gamma variable of shape `counts`, <= 0).

    Of one value above 0 and one below it is the distribution function of a Beta variable. Of others, the moment
    generating function's inverse, integrated over the vertical line through its saddlepoint.

    Source: Rice, SIAM Journal on Scientific and Statistical Computing 1 (1980).
    """
    values, counts = values[values != 0], counts[values != 0]
    if not len(values) or values.min() > 0 or values.max() < 0:
        return float(not len(values) or values.max() < 0)
    above, below = values > 0, values < 0
    if not np.ptp(values[above]) and not np.ptp(values[below]):
        from scipy.special import betainc  # takes half a second

        gained, lost = float(values.max()), -float(values.min())
        return float(betainc(counts[above].sum(), counts[below].sum(), lost / (gained + lost)))
    low, high = 1 / float(values.min()), 0.0
    for _ in range(_BISECTIONS):
        point = (low + high) / 2
        low, high = (point, high) if float((counts * values / (1 - point * values)).sum()) < 1 / point else (low, point)
    scale = 1 / math.sqrt(float((counts * (values / (1 - point * values)) ** 2).sum()) + 1 / point**2)
    # The integrand falls as a power: steps that grow exponentially reach its end, and the trapezoidal rule converges.
    steps = np.arange(0, 3 + 40 / counts.sum(), 0.1)
    line = point + 1j * scale * np.sinh(steps)
    factors = np.vstack([-line, 1 - np.outer(values, line)])
    # numpy's complex logarithm is thirty times slower than its two parts.
    size, turn = (np.append(1, counts)[:, None] * part for part in (np.log(np.abs(factors)), np.angle(factors)))
    heights = np.exp(-size.sum(axis=0)) * np.cos(turn.sum(axis=0)) * np.cosh(steps)
    return min(1.0, max(0.0, float(heights.sum() - heights[0] / 2) * 0.1 * scale / math.pi))


def crossed(
    scores: Array,
    null: float = 0.0,
    value: float | None = None,
    fixed: float = 0.0,
    freedom: float | None = None,
) -> Estimate:
    """The mean of scores of several trainings by several units, with both drawn at random: crossed random effects.

    With S, P and E the mean squares of trainings, units and the rest, the mean has the variance (S + P - E) / cells.
    Few trainings hardly show how much a training changes, and Satterthwaite's degrees of freedom claim up to 12 % of
    nothing with two of them. So S is the generalized pivotal quantity S (trainings - 1) / chi2, at least E, and the
    p-value is the mean of Student's over its distribution (benchmarks/claims.py).

    Args:
        scores: shape (trainings, units); one of either: Student's over the other. Undefined where nothing varies.
        value: the figure, if it is not the mean of the scores. fixed: variance of it from other sources.
        freedom: the degrees of freedom of the units; None: units - 1.

    Source: Scheffe, The Analysis of Variance (1959), chapter 7; Weerahandi, JASA 88 (1993), for generalized intervals.
    """
    trainings, units = scores.shape
    mean = float(scores.mean())
    value = mean if value is None else value
    if scores.size < 2 or not np.isfinite(scores).all():
        return Estimate(value, None, null)
    freedom_of_units = units - 1 if freedom is None else freedom
    by_training, by_unit = scores.mean(axis=1), scores.mean(axis=0)
    if 1 in (trainings, units):
        error = math.sqrt(float(scores.var(ddof=1)) / scores.size + fixed) if np.ptp(scores) else 0.0
        return student(value, error, freedom_of_units if trainings == 1 else trainings - 1, null)
    rest = scores - by_training[:, None] - by_unit + mean
    of_trainings = float(by_training.var(ddof=1)) / trainings
    of_units = float(by_unit.var(ddof=1)) / units
    of_rest = float((rest**2).sum()) / ((trainings - 1) * (units - 1)) / scores.size
    if max(of_trainings, of_units) <= 1e-18 * max(1.0, mean**2):
        return Estimate(value, None, null)
    from scipy.special import gammaincinv, stdtr

    steps = (np.arange(_STEPS) + 0.5) / _STEPS  # finer where chi2 is small, which decides small p-values
    chi2, weights = 2 * gammaincinv((trainings - 1) / 2, steps**2), 2 * steps / _STEPS
    pivots = np.maximum(of_trainings * (trainings - 1) / chi2, of_rest)
    errors = np.sqrt(pivots + max(of_units - of_rest, 0.0) + fixed)

    def tests(at: float, sign: int) -> float:
        return float(weights @ stdtr(freedom_of_units, sign * (at - value) / errors))

    error = math.sqrt(max(of_trainings, of_rest) + max(of_units - of_rest, 0.0) + fixed)
    return Estimate(value, tests, null, error=error)


def figure_interval(
    figure: Callable[[NDArray[Any]], Array],
    counts: NDArray[Any],
    clusters: NDArray[np.intp],
    least: float = 0.0,
) -> list[float] | None:
    """The 95 % interval of a figure of summed counts that is no mean, such as kappa, by its jackknife pseudo-values:
    that of as many independent rows, right or wrong, as would vary as little, with one more row at each end.

    None with fewer than two clusters, or if the figure without some of the clusters is not defined.

    Args:
        figure: from sums of counts, shape (..., *k), to values from `least` to 1.
        counts: of each pair, shape (pairs, *k); pairs without any count are left out.
        clusters: the cluster of each pair, from 0, shape (pairs,); only these are independent.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 11; see `_independent_rows`.
    """
    used = counts.reshape(len(counts), -1).any(axis=1)
    places = np.unique(clusters[used], return_inverse=True)[1]
    sums = np.zeros((places.max(initial=-1) + 1, *counts.shape[1:]))
    np.add.at(sums, places, counts[used])
    if len(sums) < 2:
        return None
    of_clusters, of_pairs = ((_pseudo_values(figure, each) - least) / (1 - least) for each in (sums, counts[used]))
    if not np.isfinite(of_clusters).all():
        return None
    if not np.isfinite(of_pairs).all():
        of_pairs = of_clusters
    mean, error = float(of_clusters.mean()), float(of_clusters.std(ddof=1)) / math.sqrt(len(of_clusters))
    rows = _independent_rows(of_pairs, len(of_clusters), error, kish_freedom(np.bincount(places)))
    added = min(max((rows * mean + 1) / (rows + 2), 0.0), 1.0)
    varies = (rows * (float(of_pairs.var()) + (mean - added) ** 2) + added**2 + (1 - added) ** 2) / (rows + 2)
    tests = _binomial_tests(mean, rows * added * (1 - added) / varies)
    interval = Estimate(100 * mean, tests, least=0.0, most=100.0).interval
    return interval and [100 * least + (1 - least) * end for end in interval]


def _pseudo_values(figure: Callable[[NDArray[Any]], Array], counts: NDArray[Any]) -> Array:
    """What each row of the counts adds to a figure of all: around that figure, they vary as it does."""
    n, total = len(counts), counts.sum(axis=0)
    values = n * figure(total) - (n - 1) * figure(total - counts)
    around: Array = np.clip(figure(total) + values - values.mean(), -1e6, 1e6)
    return around


# 80 % power adds so many standard errors to those of the test.
_FOR_POWER = NormalDist().inv_cdf(0.8)


def smallest_difference(error: float | None, claims: int = 1, half_width: float | None = None) -> float | None:
    """The minimum detectable difference: a true difference that a two-sided test at 5 % / `claims` finds in four of
    five cases, so whatever the other claims of the family are.

    With z the normal quantiles of the test and of 80 % it is (z + 0.842) standard errors, which the observed scores
    give; it does not depend on the difference that was found. A test whose interval is wider than the normal one finds
    less: then z standard errors are those of its interval.

    Args:
        error: the standard error. half_width: of the test's own 95 % interval; None: the normal one's.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapter 2, in the normal
    approximation; statsmodels.stats.power.zt_ind_solve_power with ratio=0 gives the same.
    """
    if error is None:
        return None
    z = NormalDist().inv_cdf(1 - _LEVEL / 2 / max(1, claims))
    return z * max(error, (half_width or 0.0) / _Z) + _FOR_POWER * error
