"""Two systems that were judged against the same baseline on the same prompts: which of them is better?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from instruct.analysis.outcomes import Policy
from instruct.analysis.results import Paired
from instruct.judging.cards import JudgeCard
from instruct.judging.comparison import Comparison
from instruct.judging.store import Judgment
from instruct.reporting.comparison import leading_policy, results_under, rounded
from instruct.reporting.intervals import bootstrap_interval, rounded_interval
from instruct.reporting.significance import sign_flip_test


def paired_comparisons(
    judged: Mapping[Comparison, Sequence[Judgment]], cards: Mapping[str, JudgeCard | None]
) -> list[Paired]:
    """For every two candidates that a judge compared with one baseline, the difference of their win rates.

    Over the prompts with a verdict on both, under the policy that leads for both, or `single` where another leads for
    each. What makes a prompt easy for the one makes it easy for the other too: the difference of paired scores is surer
    than that of two intervals.

    Args:
        judged: verdicts by judge, candidate and baseline.
        cards: the judges', None where one is gone.
    """
    found = []
    for (one, ours), (other, theirs) in itertools.combinations(judged.items(), 2):
        (judge, first, baseline), (another, second, other_baseline) = one, other
        if (judge, baseline) != (another, other_baseline):
            continue
        card = cards[judge]
        leading = {leading_policy(card, ours), leading_policy(card, theirs)}
        policy: Policy = leading.pop() if len(leading) == 1 else "single"
        scores, others = (_scores(card, judgments, policy) for judgments in (ours, theirs))
        differences = np.array([scores[prompt] - others[prompt] for prompt in scores if prompt in others])
        n = len(differences)
        found.append(
            Paired(
                judge=judge,
                policy=policy,
                first=first,
                second=second,
                baseline=baseline,
                n=n,
                difference=rounded(100 * float(differences.mean())) if n else None,
                interval=rounded_interval(bootstrap_interval(differences)),
                p=sign_flip_test(differences)[0],
            )
        )
    return found


def _scores(card: JudgeCard | None, judgments: Sequence[Judgment], policy: Policy) -> dict[str, float]:
    return {pair.instruction: pair.score for pair in results_under(card, judgments, policy) if pair.score is not None}
