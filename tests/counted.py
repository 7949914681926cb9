"""Outcomes of pairs by instruction, and pairs by their outcomes, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instruct.analysis.outcomes import POINTS, Outcome, PairResult, Policy, ShownVerdict, pair_results
from instruct.analysis.results import WIN_RATE, Claim
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import match


def outcomes(judgments: Iterable[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> dict[str, Outcome]:
    return {pair.instruction: pair.outcome for pair in pair_results(list(judgments), policy, judge_rule)}


def pairs_of(found: Iterable[Outcome], scores: Sequence[float] = ()) -> list[PairResult]:
    """Pairs with these outcomes; `scores`: the grades of the first ones."""
    grades = dict(enumerate(scores))
    return [
        PairResult(str(number), "d", outcome, grades.get(number, POINTS.get(outcome)))
        for number, outcome in enumerate(found)
    ]


def counted(win: int = 0, tie: int = 0, loss: int = 0, failed: int = 0) -> list[PairResult]:
    return pairs_of(["win"] * win + ["tie"] * tie + ["loss"] * loss + ["failed"] * failed)


def claimed(pairs: Sequence[PairResult], **about: str) -> Claim:
    """What is said of the pairs alone."""
    claim = claim_of(match(pairs), measure=WIN_RATE, candidate="emo", baseline="mle", **about)
    settle([claim])
    return claim
