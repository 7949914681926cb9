"""Verdicts and answer length: the win rate by length difference, and at equal length."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import score_interval
from instruct.analysis.outcomes import scores_of_units
from instruct.analysis.results import LengthAdjusted, LengthBin, LengthFigures, rounded

MODEL = (
    "fractional logistic regression: logit E[score] = a + b tanh(d / std(d)), d the candidate's characters minus the "
    "baseline's, a tie 1/2; the rate is at d = 0, its interval by the delta method from the robust (HC0) covariance"
)
LEAST_PAIRS = 20
# A group of fewer pairs has no rate of its own.
LEAST_GROUP = 5
# Below this share of pairs on one side of equal length, the rate at equal length is an extrapolation.
LEAST_SHARE = 0.1
# Verdicts follow length if the win rate differs by this many points between the first and the last fifth.
LEAST_TREND = 30.0
_SIGNIFICANT = 0.01
_SEPARATED = "the length difference separates wins from losses completely"
_BINS = 5
_MOST_STEPS = 100


class Scored(NamedTuple):
    """Pairs with a verdict, each shape (pairs,).

    Attributes:
        scores: 0 to 1, 1 the candidate is better.
        weights: how often each pair counts; None: once.
        units: the conversation that each pair is a turn of; None: all pairs are independent.
    """

    scores: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    units: NDArray[np.int64] | None = None

    @property
    def counts(self) -> NDArray[np.float64]:
        """How often each pair counts."""
        return np.ones(len(self.scores)) if self.weights is None else self.weights


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
        adjusted=length_adjusted(pairs, difference),
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


def length_adjusted(pairs: Scored, difference: NDArray[np.int64]) -> LengthAdjusted:
    """The win rate if both answers had the same length, by the MODEL.

    AlpacaEval's length term, for any judge and without its instruction difficulties and its regularisation: an
    unpenalized regression on this comparison only. It is not the leaderboard's length-controlled rate.

    Source: Dubois et al., Length-Controlled AlpacaEval (arXiv 2404.04475), equation 2, for the term; Papke and
    Wooldridge, Journal of Applied Econometrics 11 (1996), for scores between 0 and 1 and their covariance. Equal to
    statsmodels' GLM with Binomial family and cov_type="HC0".
    """
    note = _unfit(pairs.scores, difference)
    if note is None:
        term = np.tanh(difference / difference.std(ddof=1))
        fit = fractional_logit(pairs, np.column_stack([np.ones_like(term), term]))
        if fit is not None:
            beta, covariance = fit
            (level, slope), (error, slope_error) = beta, np.sqrt(np.diag(covariance))
            slope_p = math.erfc(abs(slope) / slope_error / math.sqrt(2))
            rate = float(logistic(np.array(level)))
            spread = 1.96 * rate * (1 - rate) * error  # the derivative of the logistic function is p (1 - p)
            return LengthAdjusted(
                win_rate=round(100 * rate, 6),
                interval=rounded([100 * max(0.0, rate - spread), 100 * min(1.0, rate + spread)]),
                slope_p=round(slope_p, 6),
                model=MODEL,
                note=_extrapolated(difference),
            )
        note = "the regression does not converge"
    return LengthAdjusted(win_rate=None, interval=None, slope_p=None, model=MODEL, note=note)


def length_warning(figures: LengthFigures) -> str | None:
    """That the verdicts follow the answers' lengths, which a judge may reward by themselves; None if they do not."""
    bins, adjusted = figures.by_difference, figures.adjusted
    if not bins:
        return None
    shortest, longest = bins[0], bins[-1]
    sure = adjusted.note == _SEPARATED or (adjusted.slope_p is not None and adjusted.slope_p < _SIGNIFICANT)
    if not sure or abs(longest.win_rate - shortest.win_rate) < LEAST_TREND:
        return None
    return (
        f"the verdicts follow length: the candidate's win rate is {shortest.win_rate:.1f} % where its answer is "
        f"shortest ({_range(shortest)} than the baseline's) and "
        f"{longest.win_rate:.1f} % where it is longest ({_range(longest)})"
    )


def _range(part: LengthBin) -> str:
    """How much longer or shorter the answers of a bin are."""
    if part.low >= 0:
        return f"{part.low} to {part.high} characters longer"
    if part.high <= 0:
        return f"{-part.high} to {-part.low} characters shorter"
    return f"{-part.low} characters shorter to {part.high} longer"


def fractional_logit(pairs: Scored, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The coefficients of a fractional logistic regression and their robust (HC0) covariance.

    Iteratively reweighted least squares, which for the logit link is Newton's method. None if it does not converge.

    Args:
        x: shape (pairs, terms), the intercept first.

    Source: Liang and Zeger, Biometrika 73 (1986), for the covariance with units of several pairs.
    """
    beta, scores, weights = np.zeros(x.shape[1]), pairs.scores, pairs.counts
    for _ in range(_MOST_STEPS):
        mean = logistic(x @ beta)
        information = x.T @ (x * (weights * mean * (1 - mean))[:, None])
        try:
            inverse = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            return None
        step = inverse @ (x.T @ (weights * (scores - mean)))
        beta = beta + step
        if not np.isfinite(beta).all():
            return None
        if np.abs(step).max() < 1e-10:
            residuals = x * (weights * (scores - mean))[:, None]
            if pairs.units is not None:
                place = np.unique(pairs.units, return_inverse=True)[1]
                turns, residuals = residuals, np.zeros((place.max() + 1, x.shape[1]))
                np.add.at(residuals, place, turns)
            covariance = inverse @ (residuals.T @ residuals) @ inverse
            return beta, covariance
    return None


def logistic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-x)), which is 0 for a large negative x."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _unfit(scores: NDArray[np.float64], difference: NDArray[np.int64]) -> str | None:
    """Why the model has no finite estimate; None if it has one."""
    if len(scores) < LEAST_PAIRS:
        return f"fewer than {LEAST_PAIRS} pairs"
    if len(np.unique(difference)) == 1:
        return "all pairs differ by the same length"
    won, lost = difference[scores > 0], difference[scores < 1]  # a tie is half of both
    if not len(won) or not len(lost) or len(np.unique(scores)) == 1:
        return "all verdicts are the same"
    if not (difference >= 0).any() or not (difference <= 0).any():
        return "not estimable: no pair has answers of equal length, nor are there longer and shorter ones"
    # With one term a maximum exists only if wins and losses overlap in length (Albert, Anderson 1984).
    if won.max() <= lost.min() or lost.max() <= won.min():
        return _SEPARATED
    return None


def _extrapolated(difference: NDArray[np.int64]) -> str | None:
    """That few pairs are on one side of equal length."""
    longer, shorter = int((difference >= 0).sum()), int((difference <= 0).sum())
    if min(longer, shorter) >= LEAST_SHARE * len(difference):
        return None
    few, side = (longer, "least") if longer < shorter else (shorter, "most")
    share = f"{f'only {few}' if few else 'none'} of {len(difference)} pairs"
    return f"extrapolated: the candidate's answer is at {side} as long as the baseline's for {share}"
