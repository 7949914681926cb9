"""Verdicts and style: the win rate at equal length and markdown, by the style control of lmarena/arena-hard-auto.

Arena-Hard's score is a rate at the mean style of all battles that are fitted together. With a single candidate that is
the candidate's own style, and the score stays close to the plain win rate: the rate at equal style is another figure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.lengths import fractional_logit, logistic

STYLE_TERMS = ("length", "headers", "lists", "bold")
LEAST_PAIRS = 20
_CODE = re.compile(r"```([^`]*)```")
_HEADERS = (re.compile(r"^#{1,6}\s", re.MULTILINE),)
_LISTS = (re.compile(r"^\s*\d+\.\s", re.MULTILINE), re.compile(r"^\s*[-*+]\s", re.MULTILINE))
_BOLD = (re.compile(r"\*\*[^*\n]+\*\*"), re.compile(r"__[^_\n]+__"))


class StyleControl(NamedTuple):
    """Figures of one comparison; None, with a `note` that says why, where they cannot be estimated.

    `score` (at the mean style) and `equal_style` (where both answers have the same) are percentages. `coefficients` are
    per standard deviation of a feature, in the order of STYLE_TERMS. Intervals: 95 %, robust (HC0) covariance.
    """

    score: float | None
    score_interval: list[float] | None
    equal_style: float | None
    equal_style_interval: list[float] | None
    coefficients: list[float] | None
    coefficient_intervals: list[list[float]] | None
    note: str | None


def style_counts(answer: str) -> tuple[int, int, int]:
    """Headers, list items and bold passages of an answer, without those in its code blocks."""
    for block in _CODE.findall(answer):
        answer = answer.replace(block, "")  # wherever it stands, as Arena-Hard does
    headers, lists, bold = (
        sum(len(pattern.findall(answer)) for pattern in patterns) for patterns in (_HEADERS, _LISTS, _BOLD)
    )
    return headers, lists, bold


def style_features(candidate: NDArray[np.float64], baseline: NDArray[np.float64]) -> NDArray[np.float64]:
    """How the answers of each pair differ in style, 0 where they do not; shape (pairs, 4), as STYLE_TERMS.

    Args:
        candidate, baseline: shape (pairs, 4): the length, above 0 and in the same unit, and the style_counts.
    """
    length = (candidate[:, :1] - baseline[:, :1]) / (candidate[:, :1] + baseline[:, :1])
    ours, theirs = (side[:, 1:] / side[:, :1] for side in (candidate, baseline))
    return np.hstack([length, (ours - theirs) / (ours + theirs + 1)])


def style_control(scores: NDArray[np.float64], features: NDArray[np.float64]) -> StyleControl:
    """Arena-Hard's model of one candidate's verdicts: logit E[score] = a + b z, z the standardized features.

    Where the official script prints medians of 100 bootstrap fits, this gives the fit itself and its intervals.

    Args:
        scores: shape (pairs,), 0 to 1, 1 the candidate is better; one row per prompt, as the
            covariance takes rows for independent.
        features: shape (pairs, 4), of style_features.
    """
    note = None
    spread = features.std(axis=0, ddof=1) if len(scores) > 1 else np.zeros(features.shape[1])
    if len(scores) < LEAST_PAIRS:
        note = f"fewer than {LEAST_PAIRS} pairs"
    elif not spread.all():
        same = ", ".join(term for term, width in zip(STYLE_TERMS, spread, strict=True) if not width)
        note = f"all pairs differ by the same {same}"
    else:
        mean = features.mean(axis=0)
        fit = fractional_logit(scores, np.column_stack([np.ones(len(scores)), (features - mean) / spread]))
        if fit is not None:
            return _figures(*fit, equal=np.concatenate([[1.0], -mean / spread]))
        note = "the regression does not converge: all verdicts are the same, or style separates wins from losses"
    return StyleControl(None, None, None, None, None, None, f"not estimable: {note}")


def _figures(beta: NDArray[np.float64], covariance: NDArray[np.float64], equal: NDArray[np.float64]) -> StyleControl:
    def rate(place: NDArray[np.float64]) -> tuple[float, list[float]]:
        # On the scale of the logit, so that the interval stays within 0 and 100.
        level, error = place @ beta, np.sqrt(place @ covariance @ place)
        low, middle, high = 100 * logistic(level + 1.96 * error * np.array([-1, 0, 1]))
        return round(float(middle), 6), [round(float(low), 6), round(float(high), 6)]

    errors = 1.96 * np.sqrt(np.diag(covariance))
    return StyleControl(
        *rate(np.eye(len(beta))[0]),
        *rate(equal),
        [round(float(each), 6) for each in beta[1:]],
        [[round(float(b - e), 6), round(float(b + e), 6)] for b, e in zip(beta[1:], errors[1:], strict=True)],
        None,
    )
