"""From verdicts in the order shown to one result per pair, as the candidate sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from instruct.analysis.outcomes import PREFERENCES, Outcome, Policy, ShownVerdict, candidate_is_second, outcomes
from instruct.analysis.statistics import Tally, tally

_POINTS: dict[Outcome, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


@dataclass(frozen=True)
class PairResult:
    """The result of one pair under a policy.

    `score`: 1 the candidate is better, 0 the baseline, 1/2 a tie, and a weighted judge's grades in between; None
    without a verdict.
    """

    instruction: str
    dataset: str
    outcome: Outcome
    score: float | None


def is_weighted(judgments: Sequence[ShownVerdict]) -> bool:
    """Whether the judge graded its preferences: one of them is not a plain win, tie or loss."""
    return any(judgment.preference not in (None, *PREFERENCES.values()) for judgment in judgments)


def results_by_policy(
    judgments: Sequence[ShownVerdict], judge_rule: str | None = None
) -> dict[Policy, list[PairResult]]:
    """Each pair's result under every policy that the judgments allow.

    Without a pair shown in both orders this is `single` alone. Under a policy for both orders, pairs shown in only one
    are left out.

    Args:
        judge_rule: as in outcomes.outcomes.
    """
    times = Counter(judgment.instruction for judgment in judgments)
    found: dict[Policy, list[PairResult]] = {"single": pair_results(judgments, "single", judge_rule)}
    if max(times.values(), default=0) > 1:
        both = [judgment for judgment in judgments if times[judgment.instruction] == 2]
        for policy in get_args(Policy):
            if policy != "single":
                found[policy] = pair_results(both, policy, judge_rule)
    return found


def pair_results(judgments: Sequence[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> list[PairResult]:
    """Each pair's result, in the order of the judgments; `judge_rule` as in outcomes.outcomes.

    A weighted judge's score is its preference for the candidate, or the mean of the two if the policy takes both
    orders: this is to graded preferences what a tie for disagreement is to counted ones.
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


def tally_pairs(pairs: Sequence[PairResult]) -> Tally:
    """The pairs' outcomes, and their scores if these are graded."""
    scores = [pair.score for pair in pairs if pair.score is not None]
    return tally(
        (pair.outcome for pair in pairs), scores if any(score not in (0, 0.5, 1) for score in scores) else None
    )


def _score(judgment: ShownVerdict) -> float:
    """A readable verdict's preference for the candidate, 0 to 1."""
    # A pair that needed no request, such as two equal answers, has a verdict but no preference.
    preference = PREFERENCES[judgment.verdict] if judgment.preference is None else judgment.preference
    return 2.0 - preference if judgment.position == "first" else preference - 1.0
