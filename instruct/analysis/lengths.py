"""Verdicts and answer length: the win rate by length difference, and at equal length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import score_interval
from instruct.analysis.outcomes import scores_of_units
from instruct.analysis.results import LengthBin, LengthFigures, rounded
from instruct.analysis.style import SEPARATED, Scored, equal_style

# A group of fewer pairs has no rate of its own.
LEAST_GROUP = 5
# Verdicts follow length if the win rate differs by this many points between the first and the last fifth.
LEAST_TREND = 30.0
_SIGNIFICANT = 0.01
_BINS = 5


def length_figures(pairs: Scored, candidate: NDArray[np.int64], baseline: NDArray[np.int64]) -> LengthFigures | None:
    """The figures over pairs with a verdict and both answers, in their order; None without any.

    Args:
        candidate, baseline: the answers' lengths in characters.
    """
    if not len(pairs.scores):
        return None
    difference = candidate - baseline
    return LengthFigures(
        candidate_mean=round(float(candidate.mean()), 6),
        baseline_mean=round(float(baseline.mean()), 6),
        by_difference=by_difference(pairs, difference),
        adjusted=equal_style(pairs, length_term(difference), ["length"])[0],
    )


def by_difference(pairs: Scored, difference: NDArray[np.int64]) -> list[LengthBin]:
    """Five bins with about the same number of pairs, cut at the quintiles of the difference; fewer if these coincide,
    or if a bin had too few pairs, and none of too few pairs in all.

    The intervals are by the rule of the win rate (inference.score_interval).
    """
    for bins in range(_BINS, 0, -1):
        cuts = np.unique(np.quantile(difference, np.arange(1, bins) / bins)) if bins > 1 else np.array([])
        place = np.searchsorted(cuts, difference)  # a difference at a cut is below it
        if np.unique(place, return_counts=True)[1].min() >= LEAST_GROUP:
            break
    else:
        return []
    units = np.arange(len(pairs.scores)) if pairs.units is None else pairs.units
    columns, groups = (units, pairs.scores, pairs.counts), []
    for number in np.unique(place):
        inside = place == number
        rows = zip(*(column[inside].tolist() for column in columns), strict=True)
        values = np.array(list(scores_of_units(rows).values()))
        groups.append(
            LengthBin(
                low=int(difference[inside].min()),
                high=int(difference[inside].max()),
                n=int(inside.sum()),
                win_rate=round(100 * float(values.mean()), 6),
                interval=rounded(score_interval(values)),
            )
        )
    return groups


def length_term(difference: NDArray[np.int64]) -> NDArray[np.float64]:
    """AlpacaEval's length term, tanh(d / std(d)), as the only feature of style; shape (pairs, 1).

    Without AlpacaEval's instruction difficulties and its regularization the rate at equal length is not the
    leaderboard's length-controlled rate.

    Source: Dubois et al., Length-Controlled AlpacaEval (arXiv 2404.04475), equation 2.
    """
    spread = difference.std(ddof=1) if len(difference) > 1 else 0.0
    return np.tanh(difference / (spread or 1.0))[:, None]


def length_warning(figures: LengthFigures) -> str | None:
    """That the verdicts follow the answers' lengths, which a judge may reward by themselves; None if they do not."""
    bins, adjusted = figures.by_difference, figures.adjusted
    if not bins:
        return None
    shortest, longest = bins[0], bins[-1]
    p = adjusted.terms[0].p if adjusted.terms else None
    sure = SEPARATED in (adjusted.note or "") or (p is not None and p < _SIGNIFICANT)
    if not sure or abs(longest.win_rate - shortest.win_rate) < LEAST_TREND:
        return None
    return (
        f"the verdicts follow length: the candidate's win rate is {shortest.win_rate:.1f} % where its answer is "
        f"shortest ({_range(shortest)} than the other's) and "
        f"{longest.win_rate:.1f} % where it is longest ({_range(longest)})"
    )


def _range(part: LengthBin) -> str:
    """How much longer or shorter the answers of a bin are."""
    if part.low >= 0:
        return f"{part.low} to {part.high} characters longer"
    if part.high <= 0:
        return f"{-part.high} to {-part.low} characters shorter"
    return f"{-part.low} characters shorter to {part.high} longer"
