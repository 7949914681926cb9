"""Verdicts and answer length: whether the verdicts follow how much longer an answer is than the other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.results import LengthFigures
from instruct.analysis.style import SEPARATED, Scored, style_terms

# Verdicts follow length if a standard deviation of it multiplies the odds of the longer answer, or of the shorter one,
# by this factor.
LEAST_FACTOR = 1.5
_SIGNIFICANT = 0.01


def length_figures(pairs: Scored, candidate: NDArray[np.int64], baseline: NDArray[np.int64]) -> LengthFigures | None:
    """The figures over pairs with a verdict and both answers, in their order; None without any.

    Args:
        candidate, baseline: the answers' lengths in characters.
    """
    if not len(pairs.scores):
        return None
    terms, note, _ = style_terms(pairs, length_term(candidate - baseline), ["length"])
    return LengthFigures(
        candidate_mean=round(float(candidate.mean()), 6),
        baseline_mean=round(float(baseline.mean()), 6),
        term=terms[0] if terms else None,
        note=note,
    )


def length_term(difference: NDArray[np.int64]) -> NDArray[np.float64]:
    """AlpacaEval's length term, tanh(d / std(d)), as the only feature of style; shape (pairs, 1).

    Source: Dubois et al., Length-Controlled AlpacaEval (arXiv 2404.04475), equation 2.
    """
    spread = difference.std(ddof=1) if len(difference) > 1 else 0.0
    return np.tanh(difference / (spread or 1.0))[:, None]


def length_warning(figures: LengthFigures) -> str | None:
    """That the verdicts follow the answers' lengths, which a judge may reward by themselves; None if they do not."""
    if SEPARATED in (figures.note or ""):
        return f"the verdicts follow length: it alone {SEPARATED}"
    term = figures.term
    if term is None or term.p is None or term.p >= _SIGNIFICANT or abs(term.coefficient) < math.log(LEAST_FACTOR):
        return None
    side = "longer" if term.coefficient > 0 else "shorter"
    return (
        f"the verdicts follow length: a standard deviation more of it multiplies the odds of the {side} answer by "
        f"{math.exp(abs(term.coefficient)):.1f}"
    )
