"""Outcomes of pairs by instruction, and counts of outcomes, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from instruct.analysis.outcomes import Outcome, Policy, ShownVerdict, pair_results
from instruct.analysis.statistics import Tally


def outcomes(judgments: Iterable[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> dict[str, Outcome]:
    return {pair.instruction: pair.outcome for pair in pair_results(list(judgments), policy, judge_rule)}


def tally(found: Iterable[str], scores: Sequence[float] | None = None, identical: int = 0) -> Tally:
    return Tally(**Counter(found), scores=None if scores is None else tuple(scores), identical=identical)
