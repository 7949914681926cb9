"""Counts of verdicts on labelled pairs: rates and Cohen's kappa, with bootstrap intervals over pairs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypedDict

import numpy as np
from scipy import stats
from sklearn.metrics import cohen_kappa_score

CLASSES = ("tie", "first", "second")  # PandaLM's 0, 1 and 2
CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0

TIE, FIRST, SECOND, NO_VERDICT = range(4)
_CODES = {"tie": TIE, "first": FIRST, "second": SECOND, "unparsed": NO_VERDICT, "failed": NO_VERDICT}


# Figures by name, as agreement.json has them.
Record = dict[str, Any]


class Rate(TypedDict):
    """`count` of `n`, in percent, with its 95 % interval; both are None if `n` is 0."""

    count: int
    n: int
    percent: float | None
    interval: list[float] | None


def codes(labels: Iterable[str]) -> np.ndarray:
    """TIE, FIRST, SECOND or NO_VERDICT for each label or verdict: shape (pairs,)."""
    return np.array([_CODES[label] for label in labels], dtype=np.int8)


def accuracy(gold: np.ndarray, said: np.ndarray) -> Rate:
    """The verdicts that equal the labels, of all pairs."""
    return rate(gold == said, np.ones_like(gold))


def rate(counted: np.ndarray, of: np.ndarray) -> Rate:
    """`counted` and `of`: what each pair adds to the numerator and to the denominator."""
    count, n = int(counted.sum()), int(of.sum())
    if not n:
        return {"count": 0, "n": 0, "percent": None, "interval": None}
    return {"count": count, "n": n, "percent": 100 * count / n, "interval": interval(ratio, counted, of)}


def kappa(one: np.ndarray, other: np.ndarray) -> float | None:
    """Cohen's kappa, with ties and missing verdicts as classes; None if both give only one and the same label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # then it is 0 / 0
        value = float(cohen_kappa_score(one, other))
    return None if math.isnan(value) else value


def interval(statistic: Callable[..., Any], *columns: np.ndarray) -> list[float] | None:
    """The 95 % percentile bootstrap interval, pairs drawn with replacement; None if it is not defined."""
    if len(columns[0]) < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if all pairs are alike, the interval is a point or not defined
        low, high = stats.bootstrap(
            columns,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(SEED),
        ).confidence_interval
    return None if math.isnan(low) or math.isnan(high) else [float(low), float(high)]


# The bootstrap's statistics, over all resamples at once: scikit-learn takes milliseconds for each.


def ratio(counted: np.ndarray, of: np.ndarray, axis: int) -> Any:
    """100 * the sum of `counted` over the sum of `of`."""
    return 100 * counted.sum(axis) / of.sum(axis)


def kappas(one: np.ndarray, other: np.ndarray, axis: int) -> Any:
    """Cohen's kappa of each resample."""
    chance = sum((one == code).mean(axis) * (other == code).mean(axis) for code in range(len(CLASSES) + 1))
    return ((one == other).mean(axis) - chance) / (1 - chance)


def macro_f1(gold: np.ndarray, said: np.ndarray, axis: int) -> Any:
    """Percent: the mean F1 of the classes that have a label."""
    f1, classes = 0, 0
    for code in range(len(CLASSES)):
        labelled = (gold == code).sum(axis)
        both = 2 * ((gold == code) & (said == code)).sum(axis)
        f1 = f1 + both / np.maximum(labelled + (said == code).sum(axis), 1)
        classes = classes + (labelled > 0)
    # A class without a label has no true positives, so it adds nothing to the sum.
    return 100 * f1 / classes
