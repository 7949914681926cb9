"""Several judges of the same pairs: their agreement and majority."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence

from instruct.analysis.agreement import cohen_kappa
from instruct.analysis.outcomes import POINTS, Outcome, PairResult, TieKind
from instruct.analysis.results import PairAgreement, rounded

READABLE = ("win", "tie", "loss")

# A judge's outcome of each pair, by what identifies the pair.
Outcomes = Mapping[str, Outcome]


def votes(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> dict[str, int]:
    """How many verdicts each judge of the panel gave on two different answers."""
    return {
        judge: sum(outcome in READABLE and pair not in identical for pair, outcome in outcomes.items())
        for judge, outcomes in judges.items()
    }


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


def majority(judges: Mapping[str, Outcomes], identical: Container[str] = ()) -> list[PairResult]:
    """The outcome that most judges gave each pair; a tie between outcomes is a tie.

    A pair has a verdict of the panel only if more than half of its judges gave one. Else it is `unparsed` if a judge's
    reply was and none `failed` or is missing, and `failed` otherwise.

    Args:
        judges: the whole panel, whether a judge gave a verdict or not.
        identical: the pairs whose two answers are the same.
    """
    pairs = dict.fromkeys(pair for outcomes in judges.values() for pair in outcomes)
    results = []
    for pair in pairs:
        outcome = _majority([outcomes.get(pair, "failed") for outcomes in judges.values()])
        tie: TieKind = "identical" if pair in identical else "called"
        results.append(PairResult(pair, "", outcome, POINTS.get(outcome), tie if outcome == "tie" else None))
    return results


def _majority(votes: Sequence[Outcome]) -> Outcome:
    counts = Counter(vote for vote in votes if vote in READABLE)
    if 2 * counts.total() <= len(votes):
        return "failed" if "failed" in votes else "unparsed"
    most = max(counts.values())
    leaders = [outcome for outcome, count in counts.items() if count == most]
    return leaders[0] if len(leaders) == 1 else "tie"
