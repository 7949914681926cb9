"""Several judges of the same pairs: their agreement."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping

from instruct.analysis.agreement import accuracy, defined, kappa, tables
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
        asked = [pair for pair in ours if pair not in identical]
        first, second = ([judge.get(pair, "failed") for pair in asked] for judge in (ours, theirs))
        table = tables(first, second, READABLE).sum(axis=0)
        rows.append(
            PairAgreement(
                judges=[one, other],
                n=int(table.sum()),
                agreement=rounded(defined(100 * accuracy(table))),
                kappa=rounded(defined(kappa(table))),
            )
        )
    return rows
