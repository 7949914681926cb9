"""A win rate from people's labels on some pairs and a cheap judge's verdicts on all of them.

The judge's mean over all pairs is precise but biased; people's labels are unbiased but few. The labels measure the
judge's bias, which is then subtracted. The interval is valid however bad the judge is; a good one makes it narrower.

Source: Angelopoulos, Duchi and Zrnic, PPI++: Efficient Prediction-Powered Inference, arXiv 2311.01453; the package
ppi-python gives the same estimate (ppi_mean_pointestimate). Its interval (ppi_mean_ci) covers 46 to 85 % with 30 to 100
labels at rates of 90 % and more, because few labels do not show how they vary. Here the variances are of the labels and
four more, one for each way in which person and judge agree or differ (benchmarks/claims.py).
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from instruct.analysis.inference import student
from instruct.analysis.outcomes import PairResult, outcome_of_score
from instruct.analysis.results import PredictionPowered, rounded
from instruct.scores.claims import claim_of
from instruct.scores.samples import Array, Sample, match

MEASURE = "win rate with labels"
# With fewer labels on the side that has fewer of them, nothing is found.
LEAST_ON_A_SIDE = 20
# The half-width, in points, that `labels_needed` plans for.
PRECISION = 2.0
_Z = NormalDist().inv_cdf(0.975)


def prediction_powered(labels: Array, judged: Array, unlabeled: Array, **names: Any) -> PredictionPowered:
    """The candidate's win rate as people would see it, in percent, with a 95 % interval.

    Where people labeled all pairs, it is their own win rate, which needs no judge.

    Args:
        labels: people's scores (1 win, 1/2 tie, 0 loss) of n pairs drawn at random, shape (n,).
        judged: the judge's scores of the same pairs, shape (n,).
        unlabeled: the judge's scores of the other pairs, shape (m,).
        names: of the claim: judge, candidate, baseline, policy.

    Raises:
        ValueError: fewer than two labels.
    """
    n, m = len(labels), len(unlabeled)
    if n < 2 or len(judged) != n:
        raise ValueError(f"{n} labels, {len(judged)} verdicts on them, {m} pairs without a label")
    sides = int((labels > 0.5).sum()), int((labels < 0.5).sum())
    by_people = match([PairResult(str(row), "", outcome_of_score(score), score) for row, score in enumerate(labels)])
    if m:
        weight = float(_weight(_moments(labels, judged, unlabeled), n, m))
        seen = _moments(np.append(labels, [1.0, 0.0, 1.0, 0.0]), np.append(judged, [1.0, 0.0, 0.0, 1.0]), unlabeled)
        rate = weight * float(unlabeled.mean()) + float((labels - weight * judged).mean())
        error = math.sqrt(_variance(seen, weight, n, m))
        estimate = student(100 * rate, 100 * error, n - 1, 50.0, least=0.0, most=100.0, test="prediction-powered")
        sample = Sample("rate", lambda missing: estimate, n + m, enough=min(sides) >= LEAST_ON_A_SIDE)
        effective = round(seen.labels / error**2, 1) if error else None
    else:
        # The counts are people's, not the comparison's.
        sample = replace(by_people, counts=None, params={"decided": sum(sides)})
        weight, seen, effective = 0.0, _moments(labels, judged, judged), float(n)
    return PredictionPowered(
        claim=claim_of(sample, measure=MEASURE, **{"candidate": "", "baseline": ""} | names),
        labels=n,
        pairs=n + m,
        weight=round(weight, 6),
        labels_only=round(100 * float(labels.mean()), 6),
        labels_only_interval=rounded(by_people.at(math.nan).interval) or [0.0, 100.0],
        judge_only=round(100 * float(np.concatenate([judged, unlabeled]).mean()), 6),
        effective_labels=effective,
        precision=PRECISION,
        labels_needed=_labels_needed(seen, n + m),
    )


class _Moments(NamedTuple):
    """Variances of the labels, of the verdicts on labeled, on unlabeled and on all pairs; their covariance."""

    labels: float
    judged: float
    unlabeled: float
    verdicts: float
    covariance: float


def _moments(labels: Array, judged: Array, unlabeled: Array) -> _Moments:
    return _Moments(
        labels=float(labels.var()),
        judged=float(judged.var()),
        unlabeled=float(unlabeled.var()),
        verdicts=float(np.concatenate([judged, unlabeled]).var(ddof=1)),
        covariance=float(((labels - labels.mean()) * (judged - judged.mean())).mean()),
    )


def _weight(seen: _Moments, n: Any, m: Any) -> Any:
    """How much the judge counts, 0 to 1: the weight with the smallest variance (PPI++, section 6)."""
    return np.clip(seen.covariance / ((1 + n / m) * seen.verdicts), 0, 1) if seen.verdicts else 0.0 * n


def _variance(seen: _Moments, weight: Any, n: Any, m: Any) -> Any:
    """The squared standard error with n labels and m pairs without; n, m and the judge's weight may be arrays."""
    rectifier = seen.labels - 2 * weight * seen.covariance + weight**2 * seen.judged
    return np.maximum(rectifier, 0) / n + weight**2 * seen.unlabeled / m


def _labels_needed(seen: _Moments, pairs: int) -> int | None:
    """How many of the pairs people must label for +-PRECISION points; None if all of them are not enough."""
    n = np.arange(2, pairs)
    variances = np.append(_variance(seen, _weight(seen, n, pairs - n), n, pairs - n), seen.labels / pairs)
    enough = np.flatnonzero(100 * _Z * np.sqrt(variances) <= PRECISION)
    return int(enough[0]) + 2 if len(enough) else None
