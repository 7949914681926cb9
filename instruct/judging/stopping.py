"""When enough pairs have been judged: the judge's stopping rule, applied to the verdicts so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from instruct.analysis.outcomes import leading_policy, results_by_policy
from instruct.analysis.sequential import StopRule, enough, random_order
from instruct.base.replies import Completion
from instruct.judging.asking import Judge
from instruct.judging.presentations import Plan
from instruct.judging.store import Judgment
from instruct.judging.verdicts import margins


class Stopping:
    """The stopping rule of one comparison.

    Args:
        judge: one whose options have `stop_when`.
        plan: its pairs; those with identical answers count as ties.
    """

    def __init__(self, judge: Judge, plan: Plan) -> None:
        self._card, self._order = judge.card, random_order(plan.identities())
        self._rule = StopRule.parse(str(judge.options.stop_when))

    def met(
        self, judgments: Sequence[Judgment], unjudged: Collection[str], completions: Mapping[str, Completion]
    ) -> bool:
        """Whether the rule is met by the pairs with a verdict in every order.

        Args:
            judgments: of the comparison so far.
            unjudged: the pairs that still need a verdict.
            completions: by key, those that the verdicts were read from.
        """
        done = [judgment for judgment in judgments if judgment.instruction not in unjudged]
        by_policy = results_by_policy(done, self._card.verdict.parser, margins(self._card, done, completions))
        leading = leading_policy(by_policy, self._card.leading_policy)
        return enough(by_policy[leading], self._order, self._rule)
