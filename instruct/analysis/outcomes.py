"""From verdicts in the order shown to the outcome and the score of each pair, as the candidate sees it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

Policy = Literal["single", "strict", "upstream"]
Outcome = Literal["win", "tie", "loss", "unparsed", "failed"]

# AlpacaEval's coding of a verdict, in the order shown.
PREFERENCES = {"first": 1.0, "tie": 1.5, "second": 2.0}
# The verdict if the answers were swapped; any other verdict stays the same.
EXCHANGED = {"first": "second", "second": "first"}
# The reason of a tie that no judge was asked about: both answers are the same.
IDENTICAL = "identical outputs"


class ShownVerdict(Protocol):
    """A verdict in the order shown: `position` is the candidate's, `verdict` says which answer is better.

    `preference` is a weighted judge's, in AlpacaEval's coding: 1 the answer shown first, 2 the second, 1.5 a tie.
    """

    @property
    def instruction(self) -> str: ...
    @property
    def dataset(self) -> str: ...
    @property
    def position(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def preference(self) -> float | None: ...


def candidate_is_second(instruction: str, seed: int = 0) -> bool:
    """AlpacaEval's rule for one order per pair: whether the candidate is shown second.

    The package calls the baseline output_1 and the candidate output_2, and switches them when this draw is True
    (alpaca_eval.annotators, `is_switched_outputs`).
    """
    return not random.Random(f"is_switched_outputs{instruction}{seed}").choices([False, True], k=1)[0]


def is_identical(judgment: ShownVerdict) -> bool:
    """Whether the verdict is the tie of two identical answers, which no judge is asked about."""
    return judgment.verdict == "tie" and judgment.reason == IDENTICAL


def outcome_of(judgment: ShownVerdict) -> Outcome:
    """One verdict, as seen by the candidate."""
    if judgment.verdict in ("tie", "unparsed", "failed"):
        return judgment.verdict  # type: ignore[return-value]
    return "win" if judgment.verdict == judgment.position else "loss"


def outcomes(judgments: Iterable[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> dict[str, Outcome]:
    """The candidate's outcome for each instruction.

    `single`: one order per pair, drawn from a seed. `strict`: both orders; a tie if they disagree. `upstream`: what the
    judge's authors do (`judge_rule`, the parser's name): PandaLM takes the first order's verdict unless the swap shows
    that it preferred a position; for all other judges `upstream` is `strict` if both orders were asked.

    A missing verdict is never a tie: `failed` before `unparsed`.
    """
    pairs: dict[str, dict[str, ShownVerdict]] = {}
    for judgment in judgments:
        pairs.setdefault(judgment.instruction, {})[judgment.position] = judgment
    return {instruction: _outcome(orders, policy, judge_rule) for instruction, orders in pairs.items()}


def _outcome(orders: dict[str, ShownVerdict], policy: Policy, judge_rule: str | None) -> Outcome:
    if policy == "single" or len(orders) == 1:
        if len(orders) == 1:
            return outcome_of(next(iter(orders.values())))
        instruction = next(iter(orders.values())).instruction
        return outcome_of(orders["second" if candidate_is_second(instruction) else "first"])
    first, second = outcome_of(orders["first"]), outcome_of(orders["second"])
    both = cast(Outcome, strict(first, second))
    if policy == "upstream" and judge_rule == "pandalm" and both not in ("failed", "unparsed"):
        same_label = orders["first"].verdict == orders["second"].verdict
        return "tie" if same_label else first
    return both


def strict(one: str, other: str) -> str:
    """The outcome of a pair in two orders: a tie if they disagree.

    A verdict that is missing is never a tie: `failed` before `unparsed`.
    """
    for missing in ("failed", "unparsed"):
        if missing in (one, other):
            return missing
    return one if one == other else "tie"


_POINTS: dict[Outcome, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


@dataclass(frozen=True)
class PairResult:
    """The result of one pair under a policy.

    `score`: 1 the candidate is better, 0 the baseline, 1/2 a tie, and a weighted judge's grades in between; None
    without a verdict. `identical`: a tie because both answers are the same.
    """

    instruction: str
    dataset: str
    outcome: Outcome
    score: float | None
    identical: bool = False


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
        judge_rule: as in outcomes.
    """
    times = Counter(judgment.instruction for judgment in judgments)
    found: dict[Policy, list[PairResult]] = {"single": pair_results(judgments, "single", judge_rule)}
    if max(times.values(), default=0) > 1:
        both = [judgment for judgment in judgments if times[judgment.instruction] == 2]
        for policy in get_args(Policy):
            if policy != "single":
                found[policy] = pair_results(both, policy, judge_rule)
    return found


def leading_policy(by_policy: Collection[Policy], wanted: Policy) -> Policy:
    """The policy whose figures lead: the one wanted, if the pairs were shown in the orders it needs."""
    return wanted if wanted in by_policy else "single"


def pair_results(judgments: Sequence[ShownVerdict], policy: Policy, judge_rule: str | None = None) -> list[PairResult]:
    """Each pair's result, in the order of the judgments; `judge_rule` as in outcomes.

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
        same = all(map(is_identical, orders.values()))
        found.append(PairResult(instruction, next(iter(orders.values())).dataset, outcome, score, same))
    return found


def _score(judgment: ShownVerdict) -> float:
    """A readable verdict's preference for the candidate, 0 to 1."""
    # A pair that needed no request, such as two equal answers, has a verdict but no preference.
    preference = PREFERENCES[judgment.verdict] if judgment.preference is None else judgment.preference
    return 2.0 - preference if judgment.position == "first" else preference - 1.0
