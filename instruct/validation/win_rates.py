"""Many models' win rates by the labels of a set and by a judge: do both rank the models alike?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats

from instruct.validation.human_sets import HumanPair
from instruct.validation.rates import CONFIDENCE, RESAMPLES, SEED, Record

# With fewer models a resample is often a few models repeated, and the interval means nothing.
LEAST_MODELS = 5

_SCORES = {"first": 0.0, "tie": 0.5, "second": 1.0}


def compare_win_rates(pairs: Sequence[HumanPair], verdicts: Mapping[str, Sequence[str]]) -> Record:
    """The win rates of the pairs' groups, which are models; the second answer of a pair is the model's.

    models: by falling win rate against the baseline, in percent by the labels and by each way to take the verdicts. A
    pair without a verdict is left out of the rate, as in AlpacaEval; `no_verdict` counts them. correlations: for each
    way, how alike both sides rank the models.

    Args:
        pairs: with the labels' `preference`, from 1 (the baseline) to 2 (the model).
        verdicts: one per pair, of the answers in the set's order, for each way to take them.
    """
    group_of = np.array([pair.group or "" for pair in pairs])
    labels = np.array([np.nan if pair.preference is None else pair.preference - 1 for pair in pairs])
    scores = {name: np.array([_SCORES.get(verdict, np.nan) for verdict in some]) for name, some in verdicts.items()}
    parts = {name: group_of == name for name in dict.fromkeys(group_of.tolist())}
    models: list[Record] = [
        {
            "model": name,
            "pairs": int(part.sum()),
            "labels": 100 * float(labels[part].mean()),
            "verdicts": {way: _mean(some[part]) for way, some in scores.items()},
            "no_verdict": {way: int(np.isnan(some[part]).sum()) for way, some in scores.items()},
        }
        for name, part in parts.items()
    ]
    models.sort(key=lambda model: -model["labels"])
    correlations = {}
    for way in scores:
        both = [(model["labels"], rate) for model in models if (rate := model["verdicts"][way]) is not None]
        if len(both) > 2:
            correlations[way] = _correlation(*np.array(both).T)
    return {"models": models, "correlations": correlations}


def _mean(scores: np.ndarray) -> float | None:
    return None if np.isnan(scores).all() else 100 * float(np.nanmean(scores))


def _correlation(labels: np.ndarray, judge: np.ndarray) -> Record:
    """How alike two lists of win rates are, each figure with its 95 % bootstrap interval over models.

    spearman, kendall: rank correlations (Kendall's tau-b); None if all models have the same rate. difference: the mean
    absolute difference of a model's two rates, in points.
    """
    return {
        "spearman": _number(spearman(labels, judge)),
        "spearman_interval": _interval(spearman, labels, judge),
        "kendall": _number(kendall(labels, judge)),
        "kendall_interval": _interval(kendall, labels, judge),
        "difference": float(np.abs(labels - judge).mean()),
        "difference_interval": _interval(lambda one, other: np.abs(one - other).mean(-1), labels, judge),
    }


def _number(value: np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray], one: np.ndarray, other: np.ndarray
) -> list[float] | None:
    """The percentile interval over models drawn with replacement; a resample without two different rates is skipped."""
    if len(one) < LEAST_MODELS:
        return None
    drawn = np.random.default_rng(SEED).integers(len(one), size=(RESAMPLES, len(one)))
    values = statistic(one[drawn], other[drawn])
    values = values[~np.isnan(values)]
    tail = 100 * (1 - CONFIDENCE) / 2
    return np.percentile(values, [tail, 100 - tail]).tolist() if len(values) else None


def spearman(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation along the last axis, equal values at their mean rank. NaN if a side is constant."""
    ranks = [stats.rankdata(rates, axis=-1) for rates in (one, other)]
    centered = [rank - rank.mean(-1, keepdims=True) for rank in ranks]
    with np.errstate(invalid="ignore"):
        product: np.ndarray = (centered[0] * centered[1]).sum(-1) / np.sqrt(
            (centered[0] ** 2).sum(-1) * (centered[1] ** 2).sum(-1)
        )
    return product


def kendall(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Kendall's tau-b along the last axis. NaN if a side is constant."""
    concordance = np.zeros(one.shape[:-1])
    untied = np.zeros((2, *one.shape[:-1]))
    for index in range(one.shape[-1] - 1):  # memory stays that of the resamples
        signs = [np.sign(rates[..., index + 1 :] - rates[..., index, None]) for rates in (one, other)]
        concordance += (signs[0] * signs[1]).sum(-1)
        untied += [np.abs(sign).sum(-1) for sign in signs]
    with np.errstate(invalid="ignore"):
        tau: np.ndarray = concordance / np.sqrt(untied[0] * untied[1])
    return tau
