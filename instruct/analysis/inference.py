"""What a sample of pairs says about all pairs: intervals, tests and statistical power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.clusters import numbered

RESAMPLES = 10_000
SEED = 0
_Z, _TAIL = NormalDist().inv_cdf(0.975), 0.025
# 2 ** -24 of a range is below a thousandth of a percentage point.
_BISECTIONS = 24
# Rows times resamples at once: 32 MB of indices.
_AT_ONCE = 4_000_000
# Below these Wilson's interval covers too little, and is united with the exact limits.
FEW_PAIRS, _FEW_POINTS = 20, 5
# An interval excludes what its test rejects at this level, by the smallest step of report.json.
_LEVEL, _BESIDE = 0.05, 1e-6
# Of a distribution over which a p-value is averaged.
_STEPS = 200
# Differences of rows that are right or wrong, or of wins, ties and losses.
_COUNTED = (-1.0, -0.5, 0.0, 0.5, 1.0)


# By a number and a sign: the p-value of the hypothesis that the true value is at most that number (1), at least (-1).
OneSided = Callable[[float, int], float]


class Estimate(NamedTuple):
    """A value with its 95 % interval, and a two-sided p-value (of 0, if nothing else is said); None: not defined."""

    value: float
    interval: list[float] | None
    p: float | None
    one_sided: OneSided | None = None

    def scaled(self, by: float) -> Estimate:
        """The estimate in another unit, `by` of which are one of this."""
        interval, tests = self.interval and [by * end for end in self.interval], self.one_sided
        return Estimate(self.value * by, interval, self.p, tests and (lambda null, sign: tests(null / by, sign)))

    def excluding(self, level: float = 0.9) -> list[float] | None:
        """The interval of a level: what that of 90 % leaves out, two one-sided tests at 5 % reject."""
        tests, tail = self.one_sided, (1 - level) / 2
        if tests is None or self.interval is None or not math.isfinite(self.value):
            return None
        from scipy.optimize import brentq  # takes a fifth of a second

        ends = []
        for sign, end in zip((1, -1), self.interval, strict=True):
            high = max(sign * (self.value - end), _BESIDE)  # the distance from the value
            while tests(self.value - sign * high, sign) > tail:
                high *= 1.5

            def beyond(distance: float, sign: int = sign) -> float:
                return tests(self.value - sign * distance, sign) - tail

            ends.append(
                self.value - sign * float(brentq(beyond, 0.0, high, xtol=1e-7)) if beyond(0.0) > 0 else self.value
            )
        return ends


def student(value: float, error: float, freedom: float, null: float = 0.0) -> Estimate:
    """A value with this standard error: Student's interval, and the p-value of the hypothesis that it is `null`."""
    if not error:
        return Estimate(value, None, None)
    from scipy.special import stdtr, stdtrit  # takes half a second

    half = float(stdtrit(freedom, 0.975)) * error

    def tests(at: float, sign: int) -> float:
        return float(stdtr(freedom, sign * (at - value) / error))

    return Estimate(value, [value - half, value + half], 2 * min(tests(null, 1), tests(null, -1)), tests)


def crossed(scores: NDArray[np.float64], null: float = 0.0, value: float | None = None, fixed: float = 0.0) -> Estimate:
    """The mean of scores of several trainings by several units, with both drawn at random: crossed random effects.

    With S, P and E the mean squares of trainings, units and the rest, the mean has the variance (S + P - E) / cells.
    Few trainings hardly show how much a training changes, and Satterthwaite's degrees of freedom claim up to 12 % of
    nothing with two of them. So S is the generalized pivotal quantity S (trainings - 1) / chi2, at least E, and the
    p-value is the mean of Student's over its distribution (benchmarks/claims.py).

    Args:
        scores: shape (trainings, units); one of either: Student's over the other. Undefined where nothing varies.
        value: the figure, if it is not the mean of the scores. fixed: variance of it from other sources.

    Source: Scheffe, The Analysis of Variance (1959), chapter 7; Weerahandi, JASA 88 (1993), for generalized intervals.
    """
    trainings, units = scores.shape
    mean = float(scores.mean())
    value = mean if value is None else value
    if scores.size < 2 or not np.isfinite(scores).all():
        return Estimate(value, None, None)
    by_training, by_unit = scores.mean(axis=1), scores.mean(axis=0)
    if 1 in (trainings, units):
        error = math.sqrt(float(scores.var(ddof=1)) / scores.size + fixed) if np.ptp(scores) else 0.0
        return student(value, error, scores.size - 1, null)
    rest = scores - by_training[:, None] - by_unit + mean
    of_trainings = float(by_training.var(ddof=1)) / trainings
    of_units = float(by_unit.var(ddof=1)) / units
    of_rest = float((rest**2).sum()) / ((trainings - 1) * (units - 1)) / scores.size
    if max(of_trainings, of_units) <= 1e-18 * max(1.0, mean**2):
        return Estimate(value, None, None)
    from scipy.special import gammaincinv, stdtr, stdtrit

    steps = (np.arange(_STEPS) + 0.5) / _STEPS  # finer where chi2 is small, which decides small p-values
    chi2, weights = 2 * gammaincinv((trainings - 1) / 2, steps**2), 2 * steps / _STEPS
    pivots = np.maximum(of_trainings * (trainings - 1) / chi2, of_rest)
    errors = np.sqrt(pivots + max(of_units - of_rest, 0.0) + fixed)

    def p_at(distance: float) -> float:
        return 2 * float(weights @ stdtr(units - 1, -distance / errors))

    low, high = (float(stdtrit(units - 1, 0.975)) * end for end in (float(errors.min()), float(errors.max())))
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if p_at(middle) > _LEVEL else (low, middle)

    def tests(at: float, sign: int) -> float:
        half = p_at(abs(value - at)) / 2
        return half if sign * (value - at) > 0 else 1 - half

    return Estimate(value, [value - high, value + high], p_at(abs(value - null)), tests)


def score_interval(scores: NDArray[np.float64], level: float = 0.95) -> list[float] | None:
    """The interval of 100 * mean(scores), in percent; None without scores.

    Wilson's score interval with as many pairs as would vary as little: ties and grades vary less than wins and losses
    with the same mean. Their variance is estimated with one more win and one more loss, so that an interval has a width
    even if all scores are equal. With fewer than 20 pairs, or fewer than 5 points on a side, it is united with the
    exact limits.

    Args:
        scores: one per prompt: a win 1, a tie 1/2, a loss 0, or a grade. They are beyond 0 and 1 where prompts count
            unequally, and then stand for fewer pairs.

    Source: Wilson, JASA 22 (1927); Clopper and Pearson, Biometrika 26 (1934); coverage: benchmarks/claims.py.
    """
    n: float = len(scores)
    if not n:
        return None
    points = math.fsum(scores)
    added = np.append(scores, [0.0, 1.0])
    mean = float(added.mean())
    pairs = n * mean * (1 - mean) / float(added.var())
    if scores.min() >= 0 and scores.max() <= 1:
        pairs = max(n, pairs)
    else:
        points, n = points * min(1.0, pairs / n), min(n, pairs)
    low, high = wilson_interval(points * pairs / n, pairs, NormalDist().inv_cdf((1 + level) / 2)) or [0.0, 100.0]
    if n < FEW_PAIRS or min(points, n - points) < _FEW_POINTS:
        limits = _exact_limits(points, n, level)
        low, high = min(low, limits[0]), max(high, limits[1])
    return [low, high]


def _exact_limits(points: float, n: float, level: float) -> list[float]:
    """Clopper and Pearson's limits in percent; points that are not whole are rounded outward."""
    from scipy.special import betaincinv  # takes half a second

    few, many, tail = math.floor(points + 1e-9), math.ceil(points - 1e-9), (1 - level) / 2
    low = float(betaincinv(few, n - few + 1, tail)) if few else 0.0
    high = float(betaincinv(many + 1, n - many, 1 - tail)) if many < n else 1.0
    return [100 * low, 100 * high]


def chunks(width: int) -> Iterator[int]:
    """How many resamples of `width` values to draw at once, until there are RESAMPLES."""
    rows = max(1, _AT_ONCE // width)
    for start in range(0, RESAMPLES, rows):
        yield min(rows, RESAMPLES - start)


def wilson_interval(points: float, n: float, z: float = _Z) -> list[float] | None:
    """Wilson's score interval of points / n in percent, `z` standard errors wide; None if n is 0.

    Source: Wilson, Journal of the American Statistical Association 22 (1927).
    """
    if not n:
        return None
    share, shrink = points / n, 1 + z**2 / n
    center = (share + z**2 / (2 * n)) / shrink
    half = z / shrink * math.sqrt(max(0.0, share * (1 - share)) / n + z**2 / (4 * n**2))
    return [max(0.0, 100 * (center - half)), min(100.0, 100 * (center + half))]


def mean_test(scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Estimate:
    """The weighted mean of scores in percent with Gaffke's 95 % interval, and the two-sided p of the hypothesis of 50.

    For scores of any distribution between 0 and 1, whose mean alone matters. The mean exceeds m by evidence at level a
    if the scores and one more 0, drawn with shares of 1 that are uniformly distributed, average m or less with a
    probability of at most a. For wins and losses alone this is Clopper and Pearson's interval. With weights the
    distances from m are weighted, that of the 0 by the largest weight.

    Args:
        scores: 0 to 1, one for each of what is drawn at random.
        weights: of the scores; None: equal ones.

    Source: Gaffke, Mathematical Methods of Statistics 14 (2005); Learned-Miller and Thomas, arXiv 1905.06208. That it
    is valid for more than two values is conjectured; benchmarks/claims.py and docs/statistics.md have its error.
    """
    from scipy.optimize import brentq  # takes a fifth of a second

    if not len(scores):
        return Estimate(math.nan, None, None)
    weights = np.ones(len(scores)) if weights is None else weights
    mean, tests = float(scores @ weights / weights.sum()), mean_tests(scores, weights)

    def end(sign: int) -> float:
        worst = 0.0 if sign > 0 else 100.0
        if sign * (100 * mean - worst) <= 0 or (scores.round(4) == worst / 100).all():  # nothing is left when rounded
            return worst
        return float(brentq(lambda null: tests(null, sign) - _TAIL, worst, 100 * mean, xtol=1e-5))

    return Estimate(100 * mean, [end(1), end(-1)], min(1.0, 2 * min(tests(50.0, 1), tests(50.0, -1))), tests)


def mean_tests(scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> OneSided:
    """The one-sided tests of the weighted mean of scores in percent, see `mean_test`."""
    weights = np.ones(len(scores)) if weights is None else weights
    # Rounded, so that time does not grow with the number of grades: by a two-hundredth of a point at most.
    kinds, counts = np.unique(np.stack([scores.round(4), weights.round(4)]), axis=1, return_counts=True)
    counts = np.append(counts, 1)
    heights = np.append(kinds[1], weights.max())

    def tests(percent: float, sign: int) -> float:
        points, least = (kinds[0], percent / 100) if sign > 0 else (1 - kinds[0], 1 - percent / 100)
        return _chance_below(heights * (np.append(points, 0.0) - least), counts)

    return tests


def _chance_below(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """P(sum of the values, each times a Gamma variable of shape `counts`, <= 0), for values of both signs or above 0.

    The moment generating function's inverse, integrated over the vertical line through its saddlepoint.

    Source: Rice, SIAM Journal on Scientific and Statistical Computing 1 (1980).
    """
    if values.min() >= 0 or values.max() <= 0:
        return float(values.max() <= 0)
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


MOST_FLIPPED = 50_000
# 2 ** 13 flips are fewer than 10,000 resamples: all are enumerated.
_ALL_FLIPS = RESAMPLES.bit_length() - 1


def sign_test(wins: int, losses: int) -> float | None:
    """The two-sided p-value of the exact sign test, ties dropped; None if only ties are left.

    The hypothesis: a pair that is not a tie is as likely won as lost. With n such pairs, m of them on the side that has
    fewer, p = min(1, 2 P(X <= m)) for X ~ Binomial(n, 1/2).

    Source: Dixon and Mood, Journal of the American Statistical Association 41 (1946).
    """
    n, fewer = int(wins + losses), int(min(wins, losses))  # 2 ** n overflows in numpy's integers
    if not n:
        return None
    # P(X <= m) as a multiple of P(X = m): each term is the one before it times k / (n - k + 1).
    total, term = 1.0, 1.0
    for k in range(fewer, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < 1e-18:
            break
    return min(1.0, 2 * total * (math.comb(n, fewer) / 2**n))


def sign_flip_test(differences: NDArray[np.float64]) -> float | None:
    """The two-sided p-value of the paired permutation test of mean(differences) = 0; None without any.

    Within each pair the two sides are swapped, which flips the sign of the difference: all 2 ** n ways if these are
    fewer than 10,000, else 10,000 drawn with a fixed seed and p = (1 + as extreme) / (1 + 10,000), so that p is
    never 0 (Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010). For one system
    against its baseline the differences are scores - 1/2.

    Of more than MOST_FLIPPED differences of many sizes the sum is taken for normal (`flips_are_normal`).

    Source: Fisher, The Design of Experiments (1935), section 21; scipy.stats.permutation_test with
    permutation_type="samples" gives the same up to the draw.
    """
    if not len(differences):
        return None
    sizes = np.abs(differences[differences != 0])  # flipping a zero changes nothing
    if flips_are_normal(differences):
        return math.erfc(abs(float(differences.sum())) / math.sqrt(2 * float((sizes**2).sum())))
    # Sums in another order differ in their last digits; an equally extreme sum must not be missed for that.
    observed = abs(float(differences.sum())) - 1e-9 * float(sizes.sum())
    if len(sizes) <= _ALL_FLIPS:
        ways = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float(np.mean(np.abs((2 * ways - 1) @ sizes) >= observed))
    rng = np.random.default_rng(SEED)
    distinct, counts = np.unique(sizes, return_counts=True)
    extreme = 0
    # Equal differences are flipped together: the number that flip is binomial.
    for rows in chunks(len(distinct)):
        if len(distinct) < len(sizes) / 4:
            sums = (2 * rng.binomial(counts, 0.5, size=(rows, len(counts))) - counts) @ distinct
        else:
            bits = np.unpackbits(rng.integers(256, size=(rows, -(-len(sizes) // 8)), dtype=np.uint8), axis=1)
            sums = 2 * (bits[:, : len(sizes)] @ sizes) - sizes.sum()
        extreme += int((np.abs(sums) >= observed).sum())
    return (1 + extreme) / (1 + RESAMPLES)


def flips_are_normal(differences: NDArray[np.float64]) -> bool:
    """Whether `sign_flip_test` takes the sum of flipped differences for normal: so many, of many sizes, have that sum
    by the central limit theorem, and drawing it takes minutes."""
    sizes = np.abs(differences[differences != 0])
    return len(sizes) > MOST_FLIPPED and len(np.unique(sizes)) >= len(sizes) / 4


def agree(estimate: Estimate, null: float = 0.0) -> Estimate:
    """The estimate with an interval that excludes `null` where p is at most 5 %, and includes it elsewhere.

    Both keep its coverage: a longer interval covers more, and a test at 5 % that rejects `null` for one side rejects
    every value on the other one.
    """
    value, interval, p, _ = estimate
    if interval is None:
        return estimate
    low, high = interval
    if p is None or p > _LEVEL or value == null:
        agreeing = [min(low, null), max(high, null)]
    elif value > null:
        agreeing = [max(low, null + _BESIDE), max(high, null + _BESIDE)]
    else:
        agreeing = [min(low, null - _BESIDE), min(high, null - _BESIDE)]
    return estimate._replace(interval=agreeing)


def share(counts: NDArray[Any]) -> NDArray[np.float64]:
    """The part of a whole; NaN if the whole is 0. `counts`: part and whole, shape (..., 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        part: NDArray[np.float64] = counts[..., 0] / counts[..., 1]
    return part


def clustered_interval(
    figure: Callable[[NDArray[Any]], NDArray[np.float64]],
    counts: NDArray[Any],
    clusters: NDArray[np.intp],
    least: float = 0.0,
) -> list[float] | None:
    """The 95 % interval of a figure of summed counts, in percent, for pairs that are independent between clusters only.

    `score_interval` of the figure's jackknife pseudo-values, one per cluster; with one pair in each, a share's are the
    pairs themselves. With several pairs in some cluster, the quantile is Student's, with as many degrees of freedom as
    clusters of equal size would leave (Kish). None with fewer than two clusters, or if the figure of some of the
    clusters is not defined.

    Args:
        figure: from sums of counts, shape (..., *k), to values from `least` to 1.
        counts: of each pair, shape (pairs, *k); pairs without any count are left out.
        clusters: the cluster of each pair, from 0, shape (pairs,).

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 11; Korn and Graubard, Survey
    Methodology 24 (1998), for the degrees of freedom; Kish, Survey Sampling (1965).
    """
    used = counts.reshape(len(counts), -1).any(axis=1)
    names, places = np.unique(clusters[used], return_inverse=True)
    n = len(names)
    if n < 2:
        return None
    sums = np.zeros((n, *counts.shape[1:]))
    np.add.at(sums, places, counts[used])
    total = sums.sum(axis=0)
    values = n * figure(total) - (n - 1) * figure(total - sums)
    if not np.isfinite(values).all():
        return None
    values += figure(total) - values.mean()
    sizes, level = np.bincount(places), 0.95
    if sizes.max() > 1:
        from scipy.special import stdtrit  # takes half a second

        level = min(2 * NormalDist().cdf(float(stdtrit(_freedom(sizes), 0.975))) - 1, 1 - 1e-12)
    interval = score_interval((values - least) / (1 - least), level)
    return interval and [100 * least + (1 - least) * end for end in interval]


def _freedom(sizes: NDArray[Any]) -> float:
    """Of so many pairs in each cluster: as many degrees of freedom as clusters of equal size would leave (Kish)."""
    return max(1.0, float(sizes.sum() ** 2 / (sizes**2).sum()) - 1)


def paired_test(differences: NDArray[Any], clusters: NDArray[np.intp]) -> float | None:
    """The two-sided p-value of a mean difference of 0; None without any difference.

    That of the clusters' sums: the sign test if all that are not 0 are of one size (McNemar's exact test, of rows that
    are right or wrong and clusters of their own), else the paired permutation test.

    Args:
        differences: of each row, shape (rows,). clusters: the cluster of each, from 0, shape (rows,).
    """
    sums = np.bincount(clusters, differences).astype(np.float64)
    if len(np.unique(np.abs(sums[sums != 0]))) < 2:
        return sign_test(int((sums > 0).sum()), int((sums < 0).sum()))
    return sign_flip_test(sums)


def paired_test_name(differences: NDArray[np.float64], clusters: NDArray[np.intp]) -> str:
    """What `paired_test` of these is called in claims."""
    if len(np.unique(clusters)) == len(differences) and np.isin(differences, (-1.0, 0.0, 1.0)).all():
        return "McNemar"
    normal = len(differences) > 0 and flips_are_normal(np.bincount(clusters, differences).astype(np.float64))
    return "permutation, normal approximation" if normal else "permutation"


def unit_values(differences: NDArray[np.float64], clusters: NDArray[np.intp]) -> NDArray[np.float64]:
    """What is drawn at random: a value for each cluster, whose mean is that of all rows and varies as it does (the
    ratio estimator); rows that are clusters of their own are that themselves.

    Source: Cochran, Sampling Techniques (1977), section 9.2.
    """
    sizes, mean = np.bincount(clusters), differences.mean()
    if sizes.max() == 1:
        return differences
    values: NDArray[np.float64] = mean + (np.bincount(clusters, differences) - mean * sizes) / sizes.mean()
    return values


def paired_difference(differences: NDArray[np.float64], clusters: NDArray[np.intp] | None = None) -> Estimate:
    """The mean of what a system's scores have more than another's, row by row, in points: 100 times that of the scores.

    A prompt that is easy for one system is easy for the other too, so the difference of paired scores is more certain
    than two separate intervals suggest. p is that of `paired_test`. The interval agrees with it. It is Student's, or
    None if all differences are the same. Where rows are right or wrong, or won, tied or lost, it is that of a win rate
    (`score_interval`), with each difference as the first system's win, tie or loss: Student's covers too little where
    few rows differ (benchmarks/claims.py). Rows of a cluster are not independent: its sum is tested, and intervals are
    of clusters (`clustered_interval`).

    Args:
        differences: shape (rows,).
        clusters: the cluster of each row; None: each is one of its own.
    """
    if not len(differences):
        return Estimate(math.nan, None, None)
    places = numbered((np.arange(len(differences)) if clusters is None else clusters).tolist())
    mean, values, sizes = float(differences.mean()), unit_values(differences, places), np.bincount(places)
    p = paired_test(differences, places)
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if np.ptp(values) else 0.0
    estimate = student(100 * mean, 100 * error, _freedom(sizes))
    if error and np.isin(differences, _COUNTED).all():
        if sizes.max() > 1:
            counts = np.stack([differences, np.ones(len(differences))], axis=1)
            interval = clustered_interval(share, counts, places, -1.0)
        else:
            interval = [2 * end - 100 for end in score_interval((1 + differences) / 2) or [0.0, 100.0]]
        rate = mean_tests((1 + np.bincount(places, differences) / sizes) / 2, sizes.astype(np.float64))
        estimate = Estimate(100 * mean, interval, p, lambda null, sign: rate((null + 100) / 2, sign))
    return agree(estimate._replace(p=p))


def mean_of_groups(
    differences: Sequence[NDArray[np.float64]],
    clusters: Sequence[NDArray[np.intp]] | None = None,
    weights: Sequence[float] | None = None,
) -> Estimate:
    """The mean of groups' means, such as tasks', each of paired differences in -1 to 1 of at least one row.

    Rows, or clusters of rows, are drawn within their group: the 95 % interval is the normal one, with the variance of
    each group after one more at each end of the scale, so that a group without differences does not count as certain.
    p is that of the paired permutation test over all of them, each row weighing what it weighs in the mean. Interval
    and p are None if no row differs.

    Args:
        clusters: of each group, the cluster of each row, from 0; None: each row is one of its own.
        weights: of the groups, of the sum 1; None: equal ones.

    Source: Cochran, Sampling Techniques (1977), section 5.4, for strata; Agresti and Caffo, The
    American Statistician 54 (2000), for the added rows.
    """
    clusters = clusters or [np.arange(len(own)) for own in differences]
    shares = np.full(len(differences), 1 / len(differences)) if weights is None else np.asarray(weights)
    mean = float(shares @ [own.mean() for own in differences])
    if not any(own.any() for own in differences):
        return Estimate(mean, None, None)
    units = map(unit_values, differences, clusters)
    variances = [np.append(values, [-1.0, 1.0]).var() / len(values) for values in units]
    error = NormalDist(0.0, math.sqrt(float(shares**2 @ variances)))
    half = error.inv_cdf(0.975)
    weighed = zip(shares, differences, clusters, strict=True)
    sums = [share * np.bincount(of, own) / len(own) for share, own, of in weighed]
    interval, p = [max(mean - half, -1.0), min(mean + half, 1.0)], sign_flip_test(np.concatenate(sums))
    return agree(Estimate(mean, interval, p, lambda null, sign: error.cdf(sign * (null - mean))))


# 80 % power adds so many standard errors to those of the test.
_FOR_POWER = NormalDist().inv_cdf(0.8)


def smallest_difference(error: float | None, n: int, claims: int = 1, half_width: float | None = None) -> float | None:
    """The minimum detectable difference of a win rate from 50, in points: found in four of five cases by a two-sided
    test at 5 % / `claims`, so whatever the other claims of the family are.

    With z the normal quantiles of the test and of 80 % it is (z + 0.842) standard errors, which the observed scores
    give; it does not depend on the difference that was found. A test whose interval is wider than the normal one finds
    less: then z standard errors are those of its interval.

    Args:
        error: the win rate's standard error, in points.
        n: number of independent pairs.
        half_width: of the test's own 95 % interval, in points; None: the normal one's.

    Returns:
        None where the scores hardly differ, where no win rate differs that much from 50, and with an interval of the
        test's own for fewer than 20 pairs, whose width says too little: too few pairs.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapter 2, in the normal
    approximation; statsmodels.stats.power.zt_ind_solve_power with ratio=0 gives the same.
    """
    if error is None or (half_width is not None and n < FEW_PAIRS):
        return None
    z = NormalDist().inv_cdf(1 - _LEVEL / 2 / max(1, claims))
    smallest = z * max(error, (half_width or 0.0) / _Z) + _FOR_POWER * error
    return smallest if 50 / n <= smallest < 50 else None  # below the least that one tie more or less changes
