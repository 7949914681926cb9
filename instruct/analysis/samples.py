"""A judge asked several times about each pair: one result a pair, and how much of the win rate's error is its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from instruct.analysis.outcomes import PairResult, outcome_of_score
from instruct.analysis.results import JudgeNoise


def mean_of_samples(samples: Sequence[Sequence[PairResult]]) -> list[PairResult]:
    """The result of each pair over all samples: the mean score of those with a verdict, if more than half have one.

    Args:
        samples: the pairs' results in each sample, the first one's order and outcomes leading.
    """
    further = [{pair.instruction: pair for pair in one} for one in samples[1:]]
    return [
        _mean([pair, *(one[pair.instruction] for one in further if pair.instruction in one)]) for pair in samples[0]
    ]


def _mean(pairs: Sequence[PairResult]) -> PairResult:
    first, read = pairs[0], [pair for pair in pairs if pair.score is not None]
    if 2 * len(read) <= len(pairs):
        missing = next(pair for pair in pairs if pair.score is None)
        return PairResult(first.instruction, first.dataset, missing.outcome, None)
    weights = math.fsum(pair.weight for pair in read)
    score = math.fsum(pair.weight * (pair.score or 0.0) for pair in read) / weights
    outcome = outcome_of_score(score)
    kinds = {pair.tie or "contradicted" for pair in read}
    tie = None if outcome != "tie" else kinds.pop() if len(kinds) == 1 else "contradicted"
    return PairResult(first.instruction, first.dataset, outcome, score, tie, weights / len(read))


def judge_noise(samples: Sequence[Sequence[PairResult]]) -> JudgeNoise | None:
    """How much a judge's verdicts vary when it is asked again; None without pairs that have two verdicts or more.

    The win rate is a mean over prompts of means over samples. Of the variance of the prompts' means, the mean of s² / k
    is the judge's, with s² the variance of a pair's k scores: a nested design with prompts as the unit.

    Source: Cochran, Sampling Techniques (1977), section 10.3 (two-stage sampling).
    """
    scores: dict[str, list[float]] = {}
    for one in samples:
        for pair in one:
            if pair.score is not None and pair.tie != "identical":
                scores.setdefault(pair.instruction, []).append(pair.score)
    several = [np.array(each) for each in scores.values() if len(each) > 1]
    if len(several) < 2:
        return None
    within = np.array([each.var(ddof=1) for each in several])
    of_means = float(np.mean(within / [len(each) for each in several]))
    total = float(np.var([each.mean() for each in several], ddof=1))
    return JudgeNoise(
        samples=len(samples),
        n=len(several),
        changed=int(sum(len(np.unique(each)) > 1 for each in several)),
        missing=sum(pair.score is None for one in samples for pair in one),
        standard_deviation=round(100 * math.sqrt(float(within.mean())), 6),
        half_width=round(196 * math.sqrt(of_means / len(several)), 6),
        share=round(min(100.0, 100 * of_means / total), 6) if total else None,
    )
