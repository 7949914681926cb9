"""Several verdicts on each pair: of several judges, their agreement and majority; of one judge, its mean and noise."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence

import numpy as np

from instruct.analysis.agreement import cohen_kappa
from instruct.analysis.outcomes import POINTS, Outcome, PairResult, TieKind, outcome_of_score
from instruct.analysis.results import JudgeNoise, PairAgreement, rounded

READABLE = ("win", "tie", "loss")

# A judge's outcome of each pair, by what identifies the pair.
Outcomes = Mapping[str, Outcome]


def votes(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> dict[str, int]:
    """How many verdicts each judge of the panel gave on two different answers."""
    return {
        judge: sum(outcome in READABLE and pair not in identical for pair, outcome in outcomes.items())
        for judge, outcomes in judges.items()
    }


def agreements(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> list[PairAgreement]:
    """For every two judges: agreement in percent and Cohen's kappa, over the pairs that both read; ties are a class.

    Args:
        identical: the pairs whose two answers are the same, which no judge reads.
    """
    rows = []
    for (one, ours), (other, theirs) in itertools.combinations(judges.items(), 2):
        both = [
            (ours[pair], theirs[pair])
            for pair in ours
            if pair not in identical and ours[pair] in READABLE and theirs.get(pair) in READABLE
        ]
        same = 100 * sum(first == second for first, second in both) / len(both) if both else None
        rows.append(
            PairAgreement(
                judges=[one, other],
                n=len(both),
                agreement=rounded(same),
                kappa=rounded(cohen_kappa(both)),
            )
        )
    return rows


def majority(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> list[PairResult]:
    """The outcome that most judges gave each pair; a tie between outcomes is a tie.

    A pair has a verdict of the panel only if more than half of its judges gave one. Else it is `unparsed` if a judge's
    reply was and none `failed` or is missing, and `failed` otherwise.

    Args:
        judges: the whole panel, whether a judge gave a verdict or not.
        identical: the pairs whose two answers are the same.
    """
    pairs = dict.fromkeys(pair for outcomes in judges.values() for pair in outcomes)
    results = []
    for pair in pairs:
        outcome = _majority([outcomes.get(pair, "failed") for outcomes in judges.values()])
        tie: TieKind = "identical" if pair in identical else "called"
        results.append(PairResult(pair, "", outcome, POINTS.get(outcome), tie if outcome == "tie" else None))
    return results


def _majority(votes: Sequence[Outcome]) -> Outcome:
    counts = Counter(vote for vote in votes if vote in READABLE)
    if 2 * counts.total() <= len(votes):
        return "failed" if "failed" in votes else "unparsed"
    most = max(counts.values())
    leaders = [outcome for outcome, count in counts.items() if count == most]
    return leaders[0] if len(leaders) == 1 else "tie"


def mean_of_samples(samples: Sequence[Sequence[PairResult]], smoothing: float = 0.0) -> list[PairResult]:
    """The result of each pair over all samples: the mean score of those with a verdict, if more than half have one.

    Args:
        samples: the pairs' results in each sample, the first one's order and outcomes leading.
        smoothing: a, so that the score of n verdicts with the sum s is (s + a) / (n + 2a): with a = 1/2 the estimate of
            Krichevsky and Trofimov (1981), which is never 0 or 1.
    """
    further = [{pair.instruction: pair for pair in one} for one in samples[1:]]
    return [
        _mean([pair, *(one[pair.instruction] for one in further if pair.instruction in one)], smoothing)
        for pair in samples[0]
    ]


def _mean(pairs: Sequence[PairResult], smoothing: float) -> PairResult:
    first, read = pairs[0], [pair for pair in pairs if pair.score is not None]
    if 2 * len(read) <= len(pairs):
        missing = next(pair for pair in pairs if pair.score is None)
        return PairResult(first.instruction, first.dataset, missing.outcome, None)
    weights = math.fsum(pair.weight for pair in read)
    score = math.fsum(pair.weight * (pair.score or 0.0) for pair in read) / weights
    score = (score * len(read) + smoothing) / (len(read) + 2 * smoothing)
    outcome = outcome_of_score(score)
    kinds = {pair.tie or "contradicted" for pair in read}
    tie = None if outcome != "tie" else kinds.pop() if len(kinds) == 1 else "contradicted"
    return PairResult(first.instruction, first.dataset, outcome, score, tie, weights / len(read))


def judge_noise(samples: Sequence[Sequence[PairResult]]) -> JudgeNoise | None:
    """How much a judge's verdicts vary when it is asked again; None without pairs that have two verdicts or more."""
    scores: dict[str, list[float]] = {}
    for one in samples:
        for pair in one:
            if pair.score is not None and pair.tie != "identical":
                scores.setdefault(pair.instruction, []).append(pair.score)
    several = [np.array(values) for values in scores.values() if len(values) > 1]
    if len(several) < 2:
        return None
    within = np.array([values.var(ddof=1) for values in several])
    return JudgeNoise(
        samples=len(samples),
        n=len(several),
        changed=int(sum(len(np.unique(values)) > 1 for values in several)),
        missing=sum(pair.score is None for one in samples for pair in one),
        standard_deviation=round(100 * math.sqrt(float(within.mean())), 6),
    )
