"""A judge's agreement with human labels: rates, kappas and confusion, with bootstrap intervals over pairs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from instruct.analysis.outcomes import EXCHANGED, strict
from instruct.validation import rates
from instruct.validation.human_sets import HumanPair, HumanSet
from instruct.validation.win_rates import compare_win_rates
from instruct.validation.yardsticks import (
    LENGTH_YARDSTICKS,
    compare_with_yardsticks,
    longer_answers,
    yardstick_verdicts,
)


def measure_agreement(
    human: HumanSet,
    listed: Sequence[str],
    swapped: Sequence[str] | None = None,
    positions_known: bool = True,
    averaged: Sequence[str] | None = None,
) -> rates.Record:
    """Compare a judge's verdicts with human labels; agreement.json holds the result.

    listed, swapped: the figures of each order alone, the swapped verdicts mapped back. strict: of both orders, a
    disagreement being a tie. averaged: of both orders, by the mean of their log-odds or ratings. The yardsticks are
    compared with each of these. both_orders: pairs that are right in both orders, of all (Auto-J's agreement).
    consistency: the same verdict in both orders, of the pairs read in both. first_position_rate: verdicts for the
    answer shown first, of those that are not ties. longer_rate: verdicts for the longer answer (characters), of those
    that are not ties on answers of different length. win_rates: if a judge made the labels, those of its models. What
    takes both orders is None if only one was judged.

    Args:
        human: the set.
        listed: for each pair the verdict with the answers shown in the set's order: `first`, `second`, `tie`,
            `unparsed` or `failed`.
        swapped: the verdicts with the second answer shown first, in the order shown; None if that was not asked.
        positions_known: whether the verdicts tell which answer was shown first; AlpacaEval's annotations do not.
        averaged: the verdicts under the policy `averaged`, of the answers in the set's order; None for a judge without
            log-probabilities or ratings.

    Raises:
        ValueError: there are no pairs, or not exactly one verdict per pair.
    """
    pairs = human.pairs
    if not pairs or len(listed) != len(pairs) or (swapped is not None and len(swapped) != len(pairs)):
        raise ValueError("needs pairs, and one verdict for each of them")
    back = None if swapped is None else [EXCHANGED.get(verdict, verdict) for verdict in swapped]
    both = None if back is None else [strict(*verdicts) for verdicts in zip(listed, back, strict=True)]
    gold = rates.codes(pair.label for pair in pairs)
    ours, theirs = rates.codes(listed), None if back is None else rates.codes(back)
    in_set = [ours] if theirs is None else [ours, theirs]
    shown = [ours] if swapped is None else [ours, rates.codes(swapped)]
    ways = {"listed": listed, "swapped": back, "strict": both, "averaged": averaged}
    taken = {name: verdicts for name, verdicts in ways.items() if verdicts is not None}
    agreement: rates.Record = {
        "pairs": len(pairs),
        "people": _people(human, gold),
        "yardsticks": compare_with_yardsticks(pairs, taken),
        "listed": _figures(human, gold, listed),
        "swapped": None if back is None else _figures(human, gold, back),
        "strict": None if both is None else _figures(human, gold, both),
        "averaged": None if averaged is None else _figures(human, gold, averaged),
        **{name: share for name, share in _order_rates(gold, ours, theirs).items() if name != "accuracy"},
        "first_position_rate": _share_of_decided(shown, np.full_like(gold, rates.FIRST)) if positions_known else None,
        "longer_rate": _share_of_decided(in_set, rates.codes(longer_answers(pairs))),
        "groups": _groups(human, gold, ours, theirs),
    }
    if not human.by_people:
        free = {name: some for name, some in yardstick_verdicts(pairs).items() if name in LENGTH_YARDSTICKS}
        agreement["win_rates"] = compare_win_rates(pairs, {**taken, **free})
    return agreement


def _figures(human: HumanSet, gold: np.ndarray, verdicts: Sequence[str]) -> rates.Record:
    """One verdict per pair compared with the annotators' majority, in percent except for the kappas.

    accuracy: an unparsed or failed verdict counts as wrong. bounds: worst- and best-case accuracy (all of those wrong,
    all right). macro_*: means over those of tie, first and second that occur as a label. kappa: against the majority,
    with ties and missing verdicts as classes; kappa_annotators: against each annotator. confusion: rows are the human
    tie, first, second; columns the judge's tie, first, second, no verdict.
    """
    said = rates.codes(verdicts)
    precision, recall, f1, _ = precision_recall_fscore_support(
        gold, said, labels=np.unique(gold), average="macro", zero_division=0
    )
    correct = rates.accuracy(gold, said)
    counts = Counter(verdicts)
    best = correct["count"] + counts["unparsed"] + counts["failed"]
    return {
        "accuracy": correct,
        "bounds": [100 * count / len(gold) for count in (correct["count"], best)],
        "unparsed": counts["unparsed"],
        "failed": counts["failed"],
        "macro_precision": 100 * float(precision),
        "macro_recall": 100 * float(recall),
        "macro_f1": 100 * float(f1),
        "macro_f1_interval": rates.interval(rates.macro_f1, gold, said),
        "kappa": rates.kappa(gold, said),
        "kappa_interval": rates.interval(rates.kappas, gold, said),
        "kappa_annotators": [rates.kappa(labels, said) for labels in _by_annotator(human.pairs)],
        "confusion": confusion_matrix(gold, said, labels=range(len(rates.CLASSES) + 1))[: len(rates.CLASSES)].tolist(),
    }


def _people(human: HumanSet, gold: np.ndarray) -> rates.Record:
    """The annotators: majority `labels`, the kappa of every two, their preference for the first or longer answer."""
    labelled = list(zip(human.annotators, _by_annotator(human.pairs), strict=True))
    return {
        "annotators": list(human.annotators),
        "labels": {label: int((gold == code).sum()) for code, label in enumerate(rates.CLASSES)},
        "unanimous": sum(len(set(pair.labels)) == 1 for pair in human.pairs),
        "split": sum(pair.split for pair in human.pairs),
        "kappas": [
            (one, other, rates.kappa(ours, theirs))
            for (one, ours), (other, theirs) in itertools.combinations(labelled, 2)
        ],
        "first_rate": _share_of_decided([gold], np.full_like(gold, rates.FIRST)),
        "longer_rate": _share_of_decided([gold], rates.codes(longer_answers(human.pairs))),
    }


def _groups(human: HumanSet, gold: np.ndarray, ours: np.ndarray, theirs: np.ndarray | None) -> list[rates.Record]:
    """The figures of each group, in the order of the set's card, if there is more than one group."""
    group_of = np.array([pair.group or "" for pair in human.pairs])
    present = dict.fromkeys(pair.group for pair in human.pairs if pair.group is not None)
    names = [name for name in dict.fromkeys((*human.groups, *present)) if name in present]
    if len(names) < 2:
        return []
    parts = {name: group_of == name for name in names}
    return [
        {
            "group": name,
            "pairs": int(part.sum()),
            **_order_rates(gold[part], ours[part], None if theirs is None else theirs[part]),
        }
        for name, part in parts.items()
    ]


def _order_rates(gold: np.ndarray, ours: np.ndarray, theirs: np.ndarray | None) -> rates.Record:
    """Accuracy in the set's order; of both orders, the pairs that are right and those with the same verdict."""
    correct = rates.accuracy(gold, ours)
    if theirs is None:
        return {"accuracy": correct, "both_orders": None, "consistency": None}
    readable = (ours != rates.NO_VERDICT) & (theirs != rates.NO_VERDICT)
    return {
        "accuracy": correct,
        "both_orders": rates.rate((gold == ours) & (gold == theirs), np.ones_like(gold)),
        "consistency": rates.rate(readable & (ours == theirs), readable),
    }


def _share_of_decided(orders: Sequence[np.ndarray], choice: np.ndarray) -> rates.Rate:
    """Verdicts for each pair's `choice`, where neither is a tie; a pair's verdicts are resampled together."""
    verdicts = np.stack(orders)
    decided = np.isin(verdicts, (rates.FIRST, rates.SECOND)) & (choice != rates.TIE)
    return rates.rate((decided & (verdicts == choice)).sum(0), decided.sum(0))


def _by_annotator(pairs: Sequence[HumanPair]) -> list[np.ndarray]:
    return [rates.codes(labels) for labels in zip(*(pair.labels for pair in pairs), strict=True)]
