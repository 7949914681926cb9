"""Verdicts and style: one regression for length alone and for length and markdown together (the style control of
lmarena/arena-hard-auto).

Arena-Hard's score is a rate at the mean style of all battles that are fitted together. With a single candidate that is
the candidate's own style, and the score stays close to the plain win rate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import Estimate, student
from instruct.analysis.results import LengthFigures, StyleControl, StyleTerm, rounded

STYLE_TERMS = ("length", "headers", "lists", "bold")
# With fewer independent pairs for each coefficient there is no rate.
PAIRS_PER_COEFFICIENT = 10
SEPARATED = "separates wins from losses"
# Verdicts follow length if a standard deviation of it multiplies the odds of the longer answer, or of the shorter one,
# by this factor.
LEAST_FACTOR = 1.5
_SIGNIFICANT = 0.01
_MOST_STEPS = 100
# Fitted means as near to 0 or 1 have no finite estimate: the features separate these pairs.
_SEPARATED = 1e-9
_CODE = re.compile(r"```([^`]*)```")
_HEADERS = (re.compile(r"^#{1,6}\s", re.MULTILINE),)
# Arena-Hard's `^\s*` also takes the empty lines before: the same items, but time that grows as their square.
_LISTS = (re.compile(r"^[^\S\n]*\d+\.\s", re.MULTILINE), re.compile(r"^[^\S\n]*[-*+]\s", re.MULTILINE))
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


class Fit(NamedTuple):
    """Coefficients, their covariance (robust, and by the model), and Student's degrees of freedom."""

    beta: NDArray[np.float64]
    robust: NDArray[np.float64]
    modeled: NDArray[np.float64]
    freedom: int

    def at(self, place: NDArray[np.float64]) -> Estimate:
        """The log-odds at a place, with the larger of both standard errors."""
        variance = max(float(place @ covariance @ place) for covariance in (self.robust, self.modeled))
        return student(float(place @ self.beta), math.sqrt(variance), self.freedom)


def style_control(pairs: Scored, features: NDArray[np.float64]) -> StyleControl:
    """Arena-Hard's model of one candidate's verdicts: logit E[score] = a + b z, z the standardized features.

    Where the official script prints medians of 100 bootstrap fits, this gives the fit itself and its intervals.

    Args:
        pairs: one row per prompt, which averages its orders; its weight is how many battles it is.
        features: shape (pairs, 4), of style_features.
    """
    terms, note, fit = style_terms(pairs, features, STYLE_TERMS)
    score, interval = _rate(fit.at(np.eye(len(fit.beta))[0])) if fit else (None, None)
    return StyleControl(n=len(features), score=score, score_interval=interval, terms=terms, note=note)


def style_terms(
    pairs: Scored, features: NDArray[np.float64], names: Sequence[str]
) -> tuple[list[StyleTerm], str | None, Fit | None]:
    """A logistic regression on the standardized features: their terms, a note, and the fit.

    A feature in which no pair differs is left out, and where there is no finite estimate (three answers with headers
    may all have lost), one in which fewer than PAIRS_PER_COEFFICIENT pairs differ.

    Args:
        features: how the two answers of each pair differ, 0 where they do not; shape (pairs, features).
        names: of the features.
    """
    weights, apart = pairs.counts, (features != 0).sum(axis=0)
    why = None
    for least in (1, PAIRS_PER_COEFFICIENT):
        used = np.flatnonzero(apart >= least)
        kept, terms = features[:, used], [names[place] for place in used]
        if why and not terms:
            why = f"too few pairs differ in {' and '.join(names)}"
            break
        why = _unfit(pairs, kept, terms, names)
        if why:
            break
        mean = np.average(kept, axis=0, weights=weights)
        spread = np.sqrt(weights @ (kept - mean) ** 2 / (weights.sum() - 1))
        fit = fractional_logit(pairs, np.column_stack([np.ones(len(kept)), (kept - mean) / spread]))
        if fit is not None:
            without = [name for name in names if name not in terms]
            note = f"too few pairs differ in {' and '.join(without)}, which are left out" if without else None
            found = [
                StyleTerm(name=name, coefficient=rounded(term.value), interval=rounded(term.interval), p=term.p)
                for name, term in zip(terms, map(fit.at, np.eye(len(fit.beta))[1:]), strict=True)
            ]
            return found, note, fit
        why = f"{' and '.join(terms)} {SEPARATED}"
    return [], f"not estimable: {why}", None


def _rate(level: Estimate) -> tuple[float, list[float]]:
    """Log-odds and their interval as a rate in percent: within 0 and 100."""
    from scipy.special import expit  # takes half a second

    ends = level.interval or [level.value, level.value]
    middle, low, high = (100 * expit([level.value, *ends])).tolist()
    return rounded(middle), rounded([low, high])


def fractional_logit(pairs: Scored, x: NDArray[np.float64]) -> Fit | None:
    """A fractional logistic regression, by Newton's method. None if it does not converge.

    The robust (HC0) covariance, by unit, covers too little where few pairs are won or lost. So a quasi-binomial model
    has one, too: its dispersion is the units' variance relative to the binomial one, after one more unit won and one
    more lost, up to that of units that are won or lost as a whole (coverage: benchmarks/claims.py).

    Args:
        x: shape (pairs, terms), the intercept first.

    Source: Papke and Wooldridge, Journal of Applied Econometrics 11 (1996); Liang and Zeger, Biometrika 73 (1986), for
    the covariance with units of several pairs; McCullagh and Nelder, Generalized Linear Models (1989), section 4.5.
    """
    from scipy.special import expit

    beta, scores, weights = np.zeros(x.shape[1]), pairs.scores, pairs.counts / pairs.counts.mean()
    for _ in range(_MOST_STEPS):
        mean = expit(x @ beta)
        binomial = weights * mean * (1 - mean)
        try:
            inverse = np.linalg.inv(x.T @ (x * binomial[:, None]))
        except np.linalg.LinAlgError:
            return None
        step = inverse @ (x.T @ (weights * (scores - mean)))
        beta = beta + step
        if not np.isfinite(beta).all():
            return None
        if np.abs(step).max() < 1e-10:
            break
    else:
        return None
    if (mean * (1 - mean) < _SEPARATED).any():
        return None
    place = np.arange(len(x)) if pairs.units is None else np.unique(pairs.units, return_inverse=True)[1]
    residuals = np.zeros((place.max() + 1, x.shape[1]))  # of a unit; the intercept's come first
    np.add.at(residuals, place, x * (weights * (scores - mean))[:, None])
    varied, expected, size = float((residuals[:, 0] ** 2).sum()), float(binomial.sum()), len(x) / len(residuals)
    rate = float(np.average(scores, weights=weights))
    added = (varied + size**2 * (rate**2 + (1 - rate) ** 2)) / (expected + 2 * size * rate * (1 - rate))
    dispersion = max(varied / expected, min(size, added))
    robust: NDArray[np.float64] = inverse @ (residuals.T @ residuals) @ inverse
    return Fit(beta, robust, dispersion * inverse, max(1, len(residuals) - x.shape[1]))


def _unfit(pairs: Scored, features: NDArray[np.float64], terms: list[str], names: Sequence[str]) -> str | None:
    """Why there is no estimate; None if the model can be fitted."""
    units = len(features) if pairs.units is None else len(np.unique(pairs.units))
    if units < (least := PAIRS_PER_COEFFICIENT * (1 + len(names))):
        return f"fewer than {least} {'pairs' if units == len(features) else 'independent pairs'}"
    if not terms:
        return f"no pair differs in {' and '.join(names)}"
    if len(np.unique(pairs.scores)) == 1:
        return "all verdicts are the same"
    least_of, most_of = features.min(axis=0), features.max(axis=0)
    if same := [term for term, low, high in zip(terms, least_of, most_of, strict=True) if low == high]:
        return f"all pairs differ by the same {', '.join(same)}"
    if apart := [term for term, low, high in zip(terms, least_of, most_of, strict=True) if low > 0 or high < 0]:
        return f"every pair differs in the same direction in {', '.join(apart)}"
    return None


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
