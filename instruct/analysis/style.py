"""Verdicts and style: the win rate at equal length and markdown, by the style control of lmarena/arena-hard-auto.

Arena-Hard's score is a rate at the mean style of all battles that are fitted together. With a single candidate that is
the candidate's own style, and the score stays close to the plain win rate: the rate at equal style is another figure.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.lengths import LEAST_SHARE, Scored, fractional_logit, logistic
from instruct.analysis.results import StyleControl, StyleTerm, rounded

STYLE_TERMS = ("length", "headers", "lists", "bold")
LEAST_PAIRS = 50
LEAST_PAIRS_APART = 10
_CODE = re.compile(r"```([^`]*)```")
_HEADERS = (re.compile(r"^#{1,6}\s", re.MULTILINE),)
_LISTS = (re.compile(r"^\s*\d+\.\s", re.MULTILINE), re.compile(r"^\s*[-*+]\s", re.MULTILINE))
_BOLD = (re.compile(r"\*\*[^*\n]+\*\*"), re.compile(r"__[^_\n]+__"))


def style_counts(answer: str) -> tuple[int, int, int, int]:
    """Characters, headers, list items and bold passages of an answer; the last three without those in code blocks."""
    characters = len(answer)
    for block in _CODE.findall(answer):
        answer = answer.replace(block, "")  # wherever it stands, as Arena-Hard does
    headers, lists, bold = (
        sum(len(pattern.findall(answer)) for pattern in patterns) for patterns in (_HEADERS, _LISTS, _BOLD)
    )
    return characters, headers, lists, bold


def style_features(candidate: NDArray[np.float64], baseline: NDArray[np.float64]) -> NDArray[np.float64]:
    """How the answers of each pair differ in style, 0 where they do not; shape (pairs, 4), as STYLE_TERMS.

    Args:
        candidate, baseline: shape (pairs, 4), the style_counts; an empty answer counts as one character.
    """
    candidate, baseline = (np.hstack([np.maximum(side[:, :1], 1), side[:, 1:]]) for side in (candidate, baseline))
    length = (candidate[:, :1] - baseline[:, :1]) / (candidate[:, :1] + baseline[:, :1])
    ours, theirs = (side[:, 1:] / side[:, :1] for side in (candidate, baseline))
    return np.hstack([length, (ours - theirs) / (ours + theirs + 1)])


def style_control(pairs: Scored, features: NDArray[np.float64]) -> StyleControl:
    """Arena-Hard's model of one candidate's verdicts: logit E[score] = a + b z, z the standardized features.

    Where the official script prints medians of 100 bootstrap fits, this gives the fit itself and its intervals. A
    feature in which no pair differs is left out, and where there is no finite estimate (three answers with headers may
    all have lost), one in which fewer than LEAST_PAIRS_APART pairs differ.

    Args:
        pairs: one row per prompt, which averages its orders; its weight is how many battles it is.
        features: shape (pairs, 4), of style_features.
    """
    scores, weights = pairs.scores, pairs.counts
    apart = (features != 0).sum(axis=0)
    unfit = None
    for least in (1, LEAST_PAIRS_APART):
        used = np.flatnonzero(apart >= least)
        kept, terms = features[:, used], [STYLE_TERMS[place] for place in used]
        unfit = _unfit(kept, terms)
        if unfit:
            break
        mean = np.average(kept, axis=0, weights=weights)
        spread = np.sqrt(weights @ (kept - mean) ** 2 / (weights.sum() - 1))
        x = np.column_stack([np.ones(len(scores)), (kept - mean) / spread])
        fit = fractional_logit(pairs, x)
        if fit is not None:
            without = [term for term in STYLE_TERMS if term not in terms]
            left_out = [f"too few pairs differ in {' and '.join(without)}, which are left out"] if without else []
            note = "; ".join([*_extrapolated(kept, terms), *left_out]) or None
            figures = _figures(*fit, terms, np.concatenate([[1.0], -mean / spread]))
            return StyleControl(n=len(scores), **figures, note=note)
    note = f"not estimable: {unfit or 'all verdicts are the same, or style separates wins from losses'}"
    none = dict.fromkeys(("win_rate", "interval", "score", "score_interval"))
    return StyleControl(n=len(scores), **none, terms=[], note=note)


def _figures(
    beta: NDArray[np.float64], covariance: NDArray[np.float64], terms: list[str], equal: NDArray[np.float64]
) -> dict[str, Any]:
    """The figures of a fit; `equal`: where both answers have the same style."""

    def rate(place: NDArray[np.float64]) -> tuple[float, list[float] | None]:
        # On the scale of the logit, so that the interval stays within 0 and 100.
        level, error = place @ beta, np.sqrt(place @ covariance @ place)
        low, middle, high = 100 * logistic(level + 1.96 * error * np.array([-1, 0, 1]))
        return round(float(middle), 6), rounded([low, high])

    win_rate, interval = rate(equal)
    score, score_interval = rate(np.eye(len(beta))[0])
    errors = 1.96 * np.sqrt(np.diag(covariance))
    shown = [
        StyleTerm(name=term, coefficient=round(float(b), 6), interval=rounded([b - error, b + error]))
        for term, b, error in zip(terms, beta[1:], errors[1:], strict=True)
    ]
    rates = {"win_rate": win_rate, "interval": interval, "score": score, "score_interval": score_interval}
    return {**rates, "terms": shown}


def _unfit(features: NDArray[np.float64], terms: list[str]) -> str | None:
    """Why there is no rate at equal style; None if the model can be fitted."""
    if len(features) < LEAST_PAIRS:
        return f"fewer than {LEAST_PAIRS} pairs"
    if not terms:
        return "no pair differs in style"
    least, most = features.min(axis=0), features.max(axis=0)
    if same := [term for term, low, high in zip(terms, least, most, strict=True) if low == high]:
        return f"all pairs differ by the same {', '.join(same)}"
    if apart := [term for term, low, high in zip(terms, least, most, strict=True) if low > 0 or high < 0]:
        return f"every pair differs in the same direction in {', '.join(apart)}"
    return None


def _extrapolated(features: NDArray[np.float64], terms: list[str]) -> list[str]:
    """The terms for which few pairs are on one side of equal style."""
    sides = np.minimum((features >= 0).mean(axis=0), (features <= 0).mean(axis=0))
    few = [term for term, share in zip(terms, sides, strict=True) if share < LEAST_SHARE]
    return [f"extrapolated: few pairs are on one side of equal {' and '.join(few)}"] if few else []
