"""From verdicts in the order shown to one result a pair, as the candidate sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instruct.analysis.outcomes import PREFERENCES, Outcome, Policy, ShownVerdict, candidate_is_second, outcomes

_POINTS: dict[Outcome, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


@dataclass(frozen=True)
class PairResult:
    """What a policy makes of one pair's verdicts.

    `score`: 1 the candidate is better, 0 the baseline, 1/2 a draw, and a weighted judge's shades between; None without
    a verdict.
    """

    instruction: str
    dataset: str
    outcome: Outcome
    score: float | None


def is_weighted(judgments: Sequence[ShownVerdict]) -> bool:
    """Whether the judge said how sure it was: a preference that is no plain win, draw or loss."""
    return any(judgment.preference not in (None, *PREFERENCES.values()) for judgment in judgments)


def pair_results(judgments: Sequence[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> list[PairResult]:
    """Each pair's result, in the order of the judgments; `judge_rule` as in policies.outcomes.

    A weighted judge's score is its preference for the candidate, and the mean of the two where the policy takes both
    orders: that is what a tie for disagreement is to a judge without shades.
    """
    weighted = is_weighted(judgments)
    pairs: dict[str, dict[str, ShownVerdict]] = {}
    for judgment in judgments:
        pairs.setdefault(judgment.instruction, {})[judgment.position] = judgment
    found = []
    for instruction, outcome in outcomes(judgments, policy, judge_rule).items():
        orders = pairs[instruction]
        score = _POINTS.get(outcome)
        if weighted and score is not None:
            if policy == "single" and len(orders) == 2:
                orders = {drawn: orders[drawn] for drawn in ["second" if candidate_is_second(instruction) else "first"]}
            score = sum(map(_score, orders.values())) / len(orders)
            outcome = "tie" if score == 0.5 else "win" if score > 0.5 else "loss"
        found.append(PairResult(instruction, next(iter(orders.values())).dataset, outcome, score))
    return found


def _score(judgment: ShownVerdict) -> float:
    """A readable verdict's preference for the candidate, 0 to 1."""
    # A pair that needed no request, such as two equal answers, has a verdict alone.
    preference = PREFERENCES[judgment.verdict] if judgment.preference is None else judgment.preference
    return 2.0 - preference if judgment.position == "first" else preference - 1.0
