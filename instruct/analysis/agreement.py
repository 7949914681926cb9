"""Agreement of two raters, or of several judges, on the same pairs, and Cohen's kappa."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instruct.analysis.inference import figure_interval
from instruct.analysis.outcomes import Outcome
from instruct.analysis.results import PairAgreement, rounded

Array = NDArray[np.float64]
READABLE = ("win", "tie", "loss")

# A judge's outcome of each pair, by what identifies the pair.
Outcomes = Mapping[str, Outcome]


def tables(one: ArrayLike, other: ArrayLike, classes: Sequence[str]) -> NDArray[np.bool_]:
    """Of each pair where it stands in the table of two raters' labels, shape (pairs, k, k): nowhere with a label that
    is none of the classes."""
    ours, theirs = (np.array(labels, dtype=str)[:, None] == np.array(classes) for labels in (one, other))
    return ours[:, :, None] & theirs[:, None, :]


def defined(figure: Any) -> float | None:
    """The figure as a number; None: it is not defined."""
    value = float(figure)
    return value if math.isfinite(value) else None


def accuracy(table: NDArray[Any]) -> Array:
    """The share of the pairs that both raters label alike; NaN without pairs. `table`: shape (..., k, k)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        alike: Array = np.trace(table, axis1=-2, axis2=-1) / table.sum((-2, -1))
    return alike


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
    """The 95 % interval of Cohen's kappa of each pair's table, shape (pairs, k, k); None as `figure_interval`."""
    total = tables.sum(axis=0)
    interval = figure_interval(kappa, tables, clusters, -1.0)
    if interval and min(np.count_nonzero(total.sum(axis)) for axis in (0, 1)) == 1:
        return [0.0, 0.0]  # who always says the same has a kappa of 0, whatever the labels are
    return interval and [end / 100 for end in interval]


def agreements(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> list[PairAgreement]:
    """For every two judges: agreement in percent and Cohen's kappa, over the pairs that both read; ties are a class.

    Args:
        identical: the pairs whose two answers are the same, which no judge reads.
    """
    rows = []
    for (one, ours), (other, theirs) in itertools.combinations(judges.items(), 2):
        asked = [pair for pair in ours if pair not in identical]
        first, second = ([judge.get(pair, "failed") for pair in asked] for judge in (ours, theirs))
        table = tables(first, second, READABLE).sum(axis=0)
        rows.append(
            PairAgreement(
                judges=[one, other],
                n=int(table.sum()),
                agreement=rounded(defined(100 * accuracy(table))),
                kappa=rounded(defined(kappa(table))),
            )
        )
    return rows
