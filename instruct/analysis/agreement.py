"""Agreement of two raters on the same pairs: counts of labels, Cohen's kappa, and intervals over clusters of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import score_interval, sign_flip_test, sign_test

Array = NDArray[np.float64]


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa of two raters' labels of the same pairs; None if `kappa` is not defined."""
    labels = sorted({label for both in pairs for label in both})
    table = np.zeros((len(labels), len(labels)))
    for one, other in pairs:
        table[labels.index(one), labels.index(other)] += 1
    value = float(kappa(table))
    return value if math.isfinite(value) else None


def kappa(table: NDArray[Any]) -> Array:
    """(p_o - p_e) / (1 - p_e), p_e from each rater's rates (Cohen 1960); NaN if p_e is 1, or without pairs.

    Equal to sklearn.metrics.cohen_kappa_score, whose import takes too long for a report.

    Args:
        table: the pairs by the labels of both raters, shape (..., k, k).
    """
    n = table.sum((-2, -1))
    # In whole numbers up to the division: a kappa of 0 or 1 is exactly that.
    observed = n * np.trace(table, axis1=-2, axis2=-1)
    expected = (table.sum(-1) * table.sum(-2)).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        corrected: Array = (observed - expected) / (n * n - expected)
    return corrected


def kappa_interval(tables: NDArray[Any], clusters: NDArray[np.intp]) -> list[float] | None:
    """The 95 % interval of Cohen's kappa of each pair's table, shape (pairs, k, k); None as `clustered_interval`."""
    total = tables.sum(axis=0)
    interval = clustered_interval(kappa, tables, clusters, -1.0)
    if interval and min(np.count_nonzero(total.sum(axis)) for axis in (0, 1)) == 1:
        return [0.0, 0.0]  # who always says the same has a kappa of 0, whatever the labels are
    return interval and [end / 100 for end in interval]


def share(counts: NDArray[Any]) -> Array:
    """The part of a whole; NaN if the whole is 0. `counts`: part and whole, shape (..., 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        part: Array = counts[..., 0] / counts[..., 1]
    return part


def macro(table: NDArray[Any]) -> Array:
    """Mean precision, recall and F1 of the classes that have a label, as scikit-learn's; shape (3,).

    Args:
        table: the pairs by label and verdict, shape (k, k).
    """
    right, labels, verdicts = np.diagonal(table), table.sum(axis=1), table.sum(axis=0)
    occurs = labels > 0
    figures = [right / np.maximum(whole, 1) for whole in (verdicts, labels, (labels + verdicts) / 2)]
    means: Array = np.stack(figures)[:, occurs].mean(axis=1)
    return means


def clustered_interval(
    figure: Callable[[NDArray[Any]], Array], counts: NDArray[Any], clusters: NDArray[np.intp], least: float = 0.0
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

        freedom = max(1.0, sizes.sum() ** 2 / (sizes**2).sum() - 1)
        level = min(2 * NormalDist().cdf(float(stdtrit(freedom, 0.975))) - 1, 1 - 1e-12)
    interval = score_interval((values - least) / (1 - least), level)
    return interval and [100 * least + (1 - least) * end for end in interval]


def paired_test(differences: NDArray[Any], clusters: NDArray[np.intp]) -> float | None:
    """The two-sided p-value of two raters being right equally often; None if they are right on the same pairs.

    McNemar's exact test, which is the sign test over the pairs on which one of them is right; with several pairs in a
    cluster, the sign-flip test of the clusters' sums.

    Args:
        differences: of each pair, 1 if the first rater alone is right, -1 the second alone, else 0; shape (pairs,).
    """
    if np.bincount(clusters).max(initial=0) <= 1:
        return sign_test(int((differences > 0).sum()), int((differences < 0).sum()))
    if not differences.any():
        return None
    return sign_flip_test(np.bincount(clusters, differences).astype(np.float64))[0]
