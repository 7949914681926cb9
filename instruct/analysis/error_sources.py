"""Where the error of a win rate comes from: the prompts, the answers to them, the judge, and the training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instruct.analysis.outcomes import PairResult, scores_of_units
from instruct.analysis.results import ErrorSource, ErrorSources

# With fewer the largest part is taken for another in more than 5 % of experiments (benchmarks/report_claims.py).
_LEAST_UNITS = 40
# With fewer, the part of the seeds has an error of half of it or more.
_LEAST_TRAININGS = 8
# What lowers each source's part.
_REMEDIES = {
    "prompts": "more prompts",
    "answers": "more answers to each prompt",
    "rows of clusters": "more rows in each cluster",
    "judge": "more samples of the judge",
    "seeds": "more training seeds",
    "prompts by seeds": "more prompts, or more training seeds",
}


@dataclass(frozen=True)
class _Rows:
    """A training's rows: the `scores` of the units by name, and the variance of the win rate due to the `judge` and
    `within` units; None: not known. `verdicts`: of a row, in the mean."""

    scores: dict[str, float]
    judge: float | None
    within: float | None
    verdicts: float
    rows: float


def error_sources(
    trainings: Sequence[Sequence[Sequence[PairResult]]], smoothing: float = 0.0, repeated: bool = True
) -> ErrorSources | None:
    """The parts of a win rate's squared error; None where only one source can be told.

    Nested analysis of variance: a judge's samples within rows, rows within units (`PairResult.unit`), units; with
    several trainings, these are crossed with the units, and what neither explains is theirs together. Parts that come
    out negative are 0. What is not repeated is part of what it is nested in: of prompts with one answer each, the
    answers' noise is that of the prompts.

    Args:
        trainings: of each, the pairs in each sample of the judge.
        smoothing: as in `mean_of_samples`.
        repeated: rows of a unit are answers to one prompt; otherwise they are different questions.

    Source: Cochran, Sampling Techniques (1977), section 10.3; Scheffe, The Analysis of Variance (1959), chapter 7.
    """
    if len(trainings) == 1 and len(trainings[0]) == 1:
        (pairs,) = trainings[0]
        if len({pair.unit for pair in pairs}) == len(pairs):  # nothing is repeated
            return None
    found = [_rows(samples, smoothing) for samples in trainings]
    shared = [unit for unit in found[0].scores if all(unit in rows.scores for rows in found)]
    count, units = len(found), len(shared)
    if units < 2:
        return None
    scores = np.array([[rows.scores[unit] for unit in shared] for rows in found])
    judge, within = (
        None if None in parts else float(np.sum(parts)) / count**2
        for parts in zip(*((rows.judge, rows.within) for rows in found), strict=True)
    )
    nested = within if within is not None else judge or 0.0
    of_units = float(scores.mean(axis=0).var(ddof=1)) / units
    variances: dict[str, tuple[float, float]] = {}  # with the number of each source
    if count > 1:
        rest = scores - scores.mean(axis=1, keepdims=True) - scores.mean(axis=0) + scores.mean()
        of_rest = float((rest**2).sum()) / ((count - 1) * (units - 1)) / scores.size
        variances["seeds"] = float(scores.mean(axis=1).var(ddof=1)) / count - of_rest, count
        variances["prompts"] = of_units - of_rest, units
        variances["prompts by seeds"] = of_rest - nested, scores.size
    else:
        variances["prompts"] = of_units - nested, units
    if within is not None:
        variances["answers" if repeated else "rows of clusters"] = within - (judge or 0.0), found[0].rows
    if judge is not None:
        variances["judge"] = judge, found[0].verdicts
    total = sum(max(variance, 0.0) for variance, _ in variances.values())
    if len(variances) < 2 or not total:
        return None
    sources = [
        ErrorSource(
            source=source,
            n=round(number, 2),
            half_width=round(196 * max(variance, 0.0) ** 0.5, 6),
            share=round(100 * max(variance, 0.0) / total, 6),
        )
        for source, (variance, number) in variances.items()
    ]
    return ErrorSources(sources=sources, text=_advice(sources, units, count))


def _advice(sources: Sequence[ErrorSource], units: int, trainings: int) -> str:
    """Which source to buy more of."""
    if units < _LEAST_UNITS:
        kind = "clusters" if any(one.source == "rows of clusters" for one in sources) else "prompts"
        return f"{units} {kind} are too few to say which part of the win rate's squared error is the largest"
    largest = max(sources, key=lambda one: one.share)
    text = f"Largest part of the win rate's squared error: {largest.source}, {largest.share:.0f} %; "
    text += f"{_REMEDIES[largest.source]} would lower it"
    few = 1 < trainings < _LEAST_TRAININGS
    return f"{text} (how much the seeds have is uncertain with {trainings} of them)" if few else text


def _rows(samples: Sequence[Sequence[PairResult]], smoothing: float) -> _Rows:
    by_row: dict[str, list[PairResult]] = {}
    for pair in (pair for one in samples for pair in one if pair.score is not None):
        by_row.setdefault(pair.instruction, []).append(pair)
    by_row = {row: pairs for row, pairs in by_row.items() if 2 * len(pairs) > len(samples)}
    verdicts = {row: np.array([pair.score or 0.0 for pair in pairs]) for row, pairs in by_row.items()}
    weights = np.array([np.mean([pair.weight for pair in pairs]) for pairs in by_row.values()])
    shares = weights / weights.sum() if len(weights) else weights
    means = np.array(
        [(values.sum() + smoothing) / (len(values) + 2 * smoothing) for values in verdicts.values()], dtype=float
    )
    names = [pairs[0].unit for pairs in by_row.values()]
    scores = scores_of_units(zip(names, means.tolist(), weights.tolist(), strict=True))
    judge = None
    of_row = {row: float(values.var(ddof=1)) for row, values in verdicts.items() if len(values) > 1}
    if len(of_row) > 1:
        shrunk = len(samples) / (len(samples) + 2 * smoothing)
        mean = float(np.mean(list(of_row.values())))
        each = [of_row.get(row, mean) / len(values) for row, values in verdicts.items()]
        judge = float(shares**2 @ np.array(each)) * shrunk**2
    inside: dict[str, list[float]] = {}
    for name, score in zip(names, means, strict=True):
        inside.setdefault(name, []).append(score)
    several = [np.array(values) for values in inside.values() if len(values) > 1]
    within = None
    if several:
        pooled = sum(float(((values - values.mean()) ** 2).sum()) for values in several)
        within = pooled / sum(len(values) - 1 for values in several) * float((shares**2).sum())
    numbers = (
        float(np.mean([len(each) for each in groups])) if groups else 0.0
        for groups in (verdicts.values(), inside.values())
    )
    return _Rows(scores, judge, within, *numbers)
