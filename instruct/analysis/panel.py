"""Several judges of the same pairs: their agreement."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping

from instruct.analysis.agreement import cohen_kappa
from instruct.analysis.outcomes import Outcome
from instruct.analysis.results import PairAgreement, rounded

READABLE = ("win", "tie", "loss")

# A judge's outcome of each pair, by what identifies the pair.
Outcomes = Mapping[str, Outcome]


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
