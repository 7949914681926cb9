"""From verdicts in the order shown to an outcome for the candidate."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal, Protocol, cast

Policy = Literal["single", "strict", "upstream"]
Outcome = Literal["win", "tie", "loss", "unparsed", "failed"]

# AlpacaEval's coding of a verdict, in the order shown.
PREFERENCES = {"first": 1.0, "tie": 1.5, "second": 2.0}
# The verdict if the answers were swapped; any other verdict stays the same.
EXCHANGED = {"first": "second", "second": "first"}


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
    def preference(self) -> float | None: ...


def candidate_is_second(instruction: str, seed: int = 0) -> bool:
    """AlpacaEval's rule for one order per pair: whether the candidate is shown second.

    The package calls the baseline output_1 and the candidate output_2, and switches them when this draw is True
    (alpaca_eval.annotators, `is_switched_outputs`).
    """
    return not random.Random(f"is_switched_outputs{instruction}{seed}").choices([False, True], k=1)[0]


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
