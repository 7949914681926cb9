"""How far a judge's verdicts agree with people's: rates, kappas and confusion, with bootstrap intervals over pairs."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

import numpy as np
from scipy import stats
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_recall_fscore_support

from instruct.analysis.outcomes import EXCHANGED, strict
from instruct.validation.human_sets import HumanPair, HumanSet

CLASSES = ("tie", "first", "second")  # PandaLM's 0, 1 and 2
CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0

_CODES = {"tie": 0, "first": 1, "second": 2, "unparsed": 3, "failed": 3}


class Rate(TypedDict):
    """`count` of `n`, in percent, with its 95 % interval; None where there is nothing to count."""

    count: int
    n: int
    percent: float | None
    interval: list[float] | None


class Figures(TypedDict):
    """One verdict a pair against the people's majority, in percent but for the kappas.

    accuracy: a verdict that is unparsed or failed counts as wrong. bounds: accuracy had all of those been wrong, and
    had they all been right. macro_*: means over tie, first and second. kappa: against the majority, a tie and a missing
    verdict being classes; kappa_annotators: against each annotator. confusion: rows the people's tie, first, second,
    columns the judge's tie, first, second, unread.
    """

    accuracy: Rate
    bounds: list[float]
    unparsed: int
    failed: int
    macro_precision: float
    macro_recall: float
    macro_f1: float
    macro_f1_interval: list[float] | None
    kappa: float | None
    kappa_interval: list[float] | None
    kappa_annotators: list[float | None]
    confusion: list[list[int]]


class Group(TypedDict):
    """The pairs of one group; what needs both orders is None where one was asked."""

    group: str
    pairs: int
    accuracy: Rate
    both_orders: Rate | None
    consistency: Rate | None


class People(TypedDict):
    """What the annotators did: `labels` by majority, kappas of each two, and how often they took the longer answer."""

    annotators: list[str]
    labels: dict[str, int]
    unanimous: int
    split: int
    kappas: list[tuple[str, str, float | None]]
    first_rate: Rate
    longer_rate: Rate


class Agreement(TypedDict):
    """All figures of a judge on a set.

    listed, swapped: each order by itself, the swapped one's verdicts mapped back. strict: both, where they disagree a
    tie. both_orders: right in both (Auto-J's agreement), of all pairs. consistency: the same verdict in both, of the
    pairs that were readable in both. first_position_rate: of the verdicts that are no tie, those for the answer shown
    first. longer_rate: of those on answers of different length in characters, those for the longer one.
    """

    pairs: int
    people: People
    listed: Figures
    swapped: Figures | None
    strict: Figures | None
    both_orders: Rate | None
    consistency: Rate | None
    first_position_rate: Rate | None
    longer_rate: Rate
    groups: list[Group]


def measure_agreement(
    human: HumanSet,
    listed: Sequence[str],
    swapped: Sequence[str] | None = None,
    positions_known: bool = True,
) -> Agreement:
    """Hold a judge's verdicts against people's.

    Args:
        human: the set.
        listed: for each pair the verdict with the answers shown as the set lists them: `first`, `second`, `tie`,
            `unparsed` or `failed`.
        swapped: the verdicts with the second answer shown first, in that order; None where it was not asked.
        positions_known: whether verdicts tell where an answer was shown; AlpacaEval's annotations do not.

    Raises:
        ValueError: not one verdict a pair, or no pair.
    """
    pairs = human.pairs
    if not pairs or len(listed) != len(pairs) or (swapped is not None and len(swapped) != len(pairs)):
        raise ValueError("needs pairs, and one verdict for each of them")
    back = None if swapped is None else [EXCHANGED.get(verdict, verdict) for verdict in swapped]
    both = None if back is None else [strict(*pair) for pair in zip(listed, back, strict=True)]
    agreement: Agreement = {
        "pairs": len(pairs),
        "people": _people(pairs, human.annotators),
        "listed": _figures(pairs, listed),
        "swapped": None if back is None else _figures(pairs, back),
        "strict": None if both is None else _figures(pairs, both),
        "both_orders": None if back is None else _both_orders(pairs, listed, back),
        "consistency": None if back is None else _consistency(listed, back),
        "first_position_rate": _first_position(listed, swapped) if positions_known else None,
        "longer_rate": _longer(pairs, [listed] if back is None else [listed, back]),
        "groups": [],
    }
    present = dict.fromkeys(pair.group for pair in pairs if pair.group is not None)
    names = [name for name in (*human.groups, *present) if name in present]
    for name in dict.fromkeys(names) if len(present) > 1 else ():
        chosen = [index for index, pair in enumerate(pairs) if pair.group == name]
        ours, said = [pairs[i] for i in chosen], [listed[i] for i in chosen]
        other = None if back is None else [back[i] for i in chosen]
        agreement["groups"].append(
            {
                "group": name,
                "pairs": len(ours),
                "accuracy": _accuracy(ours, said),
                "both_orders": None if other is None else _both_orders(ours, said, other),
                "consistency": None if other is None else _consistency(said, other),
            }
        )
    return agreement


def _figures(pairs: Sequence[HumanPair], verdicts: Sequence[str]) -> Figures:
    gold, said = _codes(pair.label for pair in pairs), _codes(verdicts)
    precision, recall, f1, _ = precision_recall_fscore_support(
        gold, said, labels=range(len(CLASSES)), average="macro", zero_division=0
    )
    accuracy = _accuracy(pairs, verdicts)
    counts = Counter(verdicts)
    unread = counts["unparsed"] + counts["failed"]
    return {
        "accuracy": accuracy,
        "bounds": [100 * (accuracy["count"] + extra) / len(pairs) for extra in (0, unread)],
        "unparsed": counts["unparsed"],
        "failed": counts["failed"],
        "macro_precision": 100 * float(precision),
        "macro_recall": 100 * float(recall),
        "macro_f1": 100 * float(f1),
        "macro_f1_interval": _interval(_macro_f1, gold, said),
        "kappa": _kappa(gold, said),
        "kappa_interval": _interval(_kappas, gold, said),
        "kappa_annotators": [_kappa(_codes(labels), said) for labels in zip(*(p.labels for p in pairs), strict=True)],
        "confusion": confusion_matrix(gold, said, labels=range(len(CLASSES) + 1))[: len(CLASSES)].tolist(),
    }


def _people(pairs: Sequence[HumanPair], annotators: Sequence[str]) -> People:
    majority = [pair.label for pair in pairs]
    by_annotator = [_codes(labels) for labels in zip(*(pair.labels for pair in pairs), strict=True)]
    counts = Counter(majority)
    return {
        "annotators": list(annotators),
        "labels": {label: counts[label] for label in CLASSES},
        "unanimous": sum(len(set(pair.labels)) == 1 for pair in pairs),
        "split": sum(pair.split for pair in pairs),
        "kappas": [
            (annotators[one], annotators[other], _kappa(by_annotator[one], by_annotator[other]))
            for one, other in itertools.combinations(range(len(annotators)), 2)
        ],
        "first_rate": _first_position(majority, None),
        "longer_rate": _longer(pairs, [majority]),
    }


def _accuracy(pairs: Sequence[HumanPair], verdicts: Sequence[str]) -> Rate:
    return _rate([pair.label == verdict for pair, verdict in zip(pairs, verdicts, strict=True)], [1] * len(pairs))


def _both_orders(pairs: Sequence[HumanPair], listed: Sequence[str], back: Sequence[str]) -> Rate:
    right = [pair.label == one == other for pair, one, other in zip(pairs, listed, back, strict=True)]
    return _rate(right, [1] * len(pairs))


def _consistency(listed: Sequence[str], back: Sequence[str]) -> Rate:
    readable = [one in CLASSES and other in CLASSES for one, other in zip(listed, back, strict=True)]
    same = [read and one == other for read, one, other in zip(readable, listed, back, strict=True)]
    return _rate(same, readable)


def _first_position(listed: Sequence[str], swapped: Sequence[str] | None) -> Rate:
    """Of all verdicts in the order shown that are no tie; a pair's two verdicts are resampled together."""
    shown = list(zip(listed, *([] if swapped is None else [swapped]), strict=True))
    first = [sum(verdict == "first" for verdict in verdicts) for verdicts in shown]
    return _rate(first, [sum(verdict in EXCHANGED for verdict in verdicts) for verdicts in shown])


def _longer(pairs: Sequence[HumanPair], orders: Sequence[Sequence[str]]) -> Rate:
    longer, decided = [], []
    for pair, *verdicts in zip(pairs, *orders, strict=True):
        difference = len(pair.first) - len(pair.second)
        choice = "first" if difference > 0 else "second"
        longer.append(sum(verdict == choice for verdict in verdicts) if difference else 0)
        decided.append(sum(verdict in EXCHANGED for verdict in verdicts) if difference else 0)
    return _rate(longer, decided)


def _codes(labels: Iterable[str]) -> np.ndarray:
    return np.array([_CODES[label] for label in labels], dtype=np.int8)


def _kappa(one: np.ndarray, other: np.ndarray) -> float | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where both give one label only, kappa is not defined, and None here
        value = float(cohen_kappa_score(one, other))
    return None if math.isnan(value) else value


def _rate(counted: Sequence[int], of: Sequence[int]) -> Rate:
    """`counted` and `of`: what each pair adds to the numerator and to the denominator."""
    count, n = int(sum(counted)), int(sum(of))
    if not n:
        return {"count": 0, "n": 0, "percent": None, "interval": None}
    return {
        "count": count,
        "n": n,
        "percent": 100 * count / n,
        "interval": _interval(_ratio, np.array(counted, dtype=np.int32), np.array(of, dtype=np.int32)),
    }


def _interval(statistic: Callable[..., Any], *columns: np.ndarray) -> list[float] | None:
    """The percentile bootstrap's 95 % interval, pairs drawn with replacement; None where it is not defined."""
    if len(columns[0]) < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where all pairs are alike, the interval is a point, or not defined
        low, high = stats.bootstrap(
            columns, statistic, paired=True, vectorized=True, n_resamples=RESAMPLES, confidence_level=CONFIDENCE,
            method="percentile", rng=np.random.default_rng(SEED),
        ).confidence_interval  # fmt: skip
    return None if math.isnan(low) or math.isnan(high) else [float(low), float(high)]


# The bootstrap's statistics, over all resamples at once: scikit-learn takes milliseconds for each.


def _ratio(counted: np.ndarray, of: np.ndarray, axis: int) -> Any:
    return 100 * counted.sum(axis) / of.sum(axis)


def _kappas(one: np.ndarray, other: np.ndarray, axis: int) -> Any:
    chance = sum((one == code).mean(axis) * (other == code).mean(axis) for code in range(len(CLASSES) + 1))
    return ((one == other).mean(axis) - chance) / (1 - chance)


def _macro_f1(gold: np.ndarray, said: np.ndarray, axis: int) -> Any:
    f1 = 0
    for code in range(len(CLASSES)):
        both = 2 * ((gold == code) & (said == code)).sum(axis)
        f1 = f1 + both / np.maximum((gold == code).sum(axis) + (said == code).sum(axis), 1)
    return 100 * f1 / len(CLASSES)
