"""Outcomes of pairs by instruction, and counts of outcomes, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from instruct.analysis.outcomes import Outcome, PairResult, Policy, ShownVerdict, pair_results
from instruct.analysis.results import WIN_RATE, Claim
from instruct.analysis.statistics import Tally, tally_pairs
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import match


def outcomes(judgments: Iterable[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> dict[str, Outcome]:
    return {pair.instruction: pair.outcome for pair in pair_results(list(judgments), policy, judge_rule)}


def tally(found: Iterable[str], scores: Sequence[float] | None = None, identical: int = 0) -> Tally:
    if scores is None:
        return Tally(**Counter(found), identical=identical)
    outcomes = list(found)
    values = [*scores, *[None] * (len(outcomes) - len(scores))]
    pairs = [PairResult(str(n), "d", *pair) for n, pair in enumerate(zip(outcomes, values, strict=True))]
    return tally_pairs(pairs)


def claimed(counts: Tally) -> Claim:
    """What is said of the counts alone."""
    claim = claim_of(match(counts), measure=WIN_RATE, candidate="emo", baseline="mle")
    settle([claim])
    return claim
