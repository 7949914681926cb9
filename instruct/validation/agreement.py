"""A judge's agreement with labels: rates, kappas and confusion, with bootstrap intervals over pairs; what it must beat
to be worth asking; and whether both rank many models alike.

Yardsticks are verdicts that cost nothing. `the longer answer` and `the shorter answer` go by characters; equal lengths
are a tie. `always first` and `always second` are the set's own order, whatever the judge was shown. `the majority
label` is the one that most pairs have. `a coin` is a fair draw between the two answers: its agreement is the expected
one, half of the pairs whose label is not a tie.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from instruct.analysis.inference import sign_test
from instruct.analysis.outcomes import EXCHANGED, strict
from instruct.judging.human_agreement import SIGNIFICANT
from instruct.validation import rates
from instruct.validation.human_sets import HumanPair, HumanSet
from instruct.validation.rates import NO_VERDICT, TIE, Record, accuracy, codes, interval, kappa

COIN = "a coin"
# The only ones by which models have different win rates.
LENGTH_YARDSTICKS = ("the longer answer", "the shorter answer")
# With fewer models a resample is often a few models repeated, and the interval means nothing.
LEAST_MODELS = 5

_SCORES = {"first": 0.0, "tie": 0.5, "second": 1.0}


def measure_agreement(
    human: HumanSet,
    listed: Sequence[str],
    swapped: Sequence[str] | None = None,
    positions_known: bool = True,
    averaged: Sequence[str] | None = None,
) -> Record:
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
    ways = {"listed": listed, "swapped": back, "strict": both, "averaged": averaged}
    taken = {way: verdicts for way, verdicts in ways.items() if verdicts is not None}
    gold, longer = codes(pair.label for pair in pairs), codes(longer_answers(pairs))
    in_set = [codes(verdicts) for verdicts in (listed, back) if verdicts is not None]
    shown = [codes(verdicts) for verdicts in (listed, swapped) if verdicts is not None]
    agreement: Record = {
        "pairs": len(pairs),
        "people": _people(human, gold, longer),
        "yardsticks": compare_with_yardsticks(pairs, taken),
        **{way: None if verdicts is None else _figures(human, gold, verdicts) for way, verdicts in ways.items()},
        **_of_both_orders(gold, in_set),
        "first_position_rate": _share_of_decided(shown, np.full_like(gold, rates.FIRST)) if positions_known else None,
        "longer_rate": _share_of_decided(in_set, longer),
        "groups": _groups(human, gold, in_set),
    }
    if not human.by_people:
        free = {name: some for name, some in yardstick_verdicts(pairs).items() if name in LENGTH_YARDSTICKS}
        agreement["win_rates"] = compare_win_rates(pairs, {**taken, **free})
    return agreement


def _figures(human: HumanSet, gold: np.ndarray, verdicts: Sequence[str]) -> Record:
    """One verdict per pair compared with the annotators' majority, in percent except for the kappas.

    accuracy: an unparsed or failed verdict counts as wrong. bounds: worst- and best-case accuracy (all of those wrong,
    all right). macro_*: means over those of tie, first and second that occur as a label. kappa: against the majority,
    with ties and missing verdicts as classes; kappa_annotators: against each annotator. confusion: rows are the human
    tie, first, second; columns the judge's tie, first, second, no verdict.
    """
    said = codes(verdicts)
    precision, recall, f1, _ = precision_recall_fscore_support(
        gold, said, labels=np.unique(gold), average="macro", zero_division=0
    )
    correct = accuracy(gold, said)
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
        "macro_f1_interval": interval(rates.macro_f1, gold, said),
        "kappa": kappa(gold, said),
        "kappa_interval": interval(rates.kappas, gold, said),
        "kappa_annotators": [_kappa_of_labels(labels, said) for labels in _by_annotator(human.pairs)],
        "confusion": confusion_matrix(gold, said, labels=range(len(rates.CLASSES) + 1))[: len(rates.CLASSES)].tolist(),
    }


def _people(human: HumanSet, gold: np.ndarray, longer: np.ndarray) -> Record:
    """The annotators: majority `labels`, the kappa of every two, their preference for the first or longer answer."""
    labelled = list(zip(human.annotators, _by_annotator(human.pairs), strict=True))
    return {
        "annotators": list(human.annotators),
        "labels": {label: int((gold == code).sum()) for code, label in enumerate(rates.CLASSES)},
        "unanimous": sum(len({*pair.labels} - {None}) == 1 for pair in human.pairs),
        "split": sum(pair.split for pair in human.pairs),
        "kappas": [
            (one, other, _kappa_of_labels(ours, theirs, theirs != NO_VERDICT))
            for (one, ours), (other, theirs) in itertools.combinations(labelled, 2)
        ],
        "first_rate": _share_of_decided([gold], np.full_like(gold, rates.FIRST)),
        "longer_rate": _share_of_decided([gold], longer),
    }


def _groups(human: HumanSet, gold: np.ndarray, orders: Sequence[np.ndarray]) -> list[Record]:
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
            "accuracy": accuracy(gold[part], orders[0][part]),
            **_of_both_orders(gold[part], [verdicts[part] for verdicts in orders]),
        }
        for name, part in parts.items()
    ]


def _of_both_orders(gold: np.ndarray, orders: Sequence[np.ndarray]) -> Record:
    """The pairs that are right in both orders, and those with the same verdict; None if only one was judged."""
    if len(orders) < 2:
        return {"both_orders": None, "consistency": None}
    ours, theirs = orders
    readable = (ours != NO_VERDICT) & (theirs != NO_VERDICT)
    return {
        "both_orders": rates.rate((gold == ours) & (gold == theirs), np.ones_like(gold)),
        "consistency": rates.rate(readable & (ours == theirs), readable),
    }


def _share_of_decided(orders: Sequence[np.ndarray], choice: np.ndarray) -> rates.Rate:
    """Verdicts for each pair's `choice`, where neither is a tie; a pair's verdicts are resampled together."""
    verdicts = np.stack(orders)
    decided = np.isin(verdicts, (rates.FIRST, rates.SECOND)) & (choice != TIE)
    return rates.rate((decided & (verdicts == choice)).sum(0), decided.sum(0))


def _by_annotator(pairs: Sequence[HumanPair]) -> list[np.ndarray]:
    """Each annotator's labels; NO_VERDICT where one is missing."""
    return [codes(label or "failed" for label in labels) for labels in zip(*(p.labels for p in pairs), strict=True)]


def _kappa_of_labels(labels: np.ndarray, said: np.ndarray, where: np.ndarray | bool = True) -> float | None:
    """The kappa with an annotator's labels, over the pairs that have one; None if there are none."""
    has = (labels != NO_VERDICT) & where
    return kappa(labels[has], said[has]) if has.any() else None


def yardstick_verdicts(pairs: Sequence[HumanPair]) -> dict[str, list[str]]:
    """The verdicts of every yardstick but the coin, by its name: `first`, `second` or `tie` for each pair."""
    longer = longer_answers(pairs)
    majority = Counter(pair.label for pair in pairs).most_common(1)[0][0]
    return {
        "the longer answer": longer,
        "the shorter answer": [EXCHANGED.get(verdict, verdict) for verdict in longer],
        "always first": ["first"] * len(pairs),
        "always second": ["second"] * len(pairs),
        f"the majority label, {majority}": [majority] * len(pairs),
    }


def compare_with_yardsticks(pairs: Sequence[HumanPair], judge: Mapping[str, Sequence[str]]) -> Record:
    """A judge's verdicts and the yardsticks', compared with the labels of the pairs.

    decided_pairs: those whose label is not a tie. best: of the yardsticks other than the coin, the one that is right
    most often; it is chosen on the same pairs, which favors it slightly. judge, paired: for each way to take the
    judge's verdicts, these alone and next to the best yardstick. by_length: the accuracy on the decided pairs whose
    label is the shorter answer, and on those whose label is the longer one: what follows length alone is right on none
    of the former.

    Args:
        judge: one verdict per pair (`first`, `second`, `tie`, `unparsed` or `failed`, of the answers in the set's
            order), for each way to take the judge's verdicts, such as each order alone.

    Raises:
        ValueError: there are no pairs, or not exactly one verdict per pair.
    """
    if not pairs or any(len(verdicts) != len(pairs) for verdicts in judge.values()):
        raise ValueError("needs pairs, and one verdict for each of them")
    gold = codes(pair.label for pair in pairs)
    free = {name: codes(verdicts) for name, verdicts in yardstick_verdicts(pairs).items()}
    best = max(free, key=lambda name: (free[name] == gold).sum())
    asked = {name: codes(verdicts) for name, verdicts in judge.items()}
    return {
        "decided_pairs": int((gold != TIE).sum()),
        "yardsticks": {**{name: _agreeing(gold, said) for name, said in free.items()}, COIN: _coin(gold)},
        "best": best,
        "judge": {name: _agreeing(gold, said) for name, said in asked.items()},
        "paired": {name: _paired(gold == said, gold == free[best]) for name, said in asked.items()},
        "by_length": {
            better: {name: accuracy(gold[among], said[among]) for name, said in asked.items()}
            for better, among in _better_answers(pairs, gold).items()
        },
    }


def longer_answers(pairs: Sequence[HumanPair]) -> list[str]:
    """Of each pair the answer with more characters; `tie` for equal lengths."""
    differences = (len(pair.first) - len(pair.second) for pair in pairs)
    return ["first" if gap > 0 else "second" if gap < 0 else "tie" for gap in differences]


def _better_answers(pairs: Sequence[HumanPair], gold: np.ndarray) -> dict[str, np.ndarray]:
    """The decided pairs whose label is the shorter answer, and those whose label is the longer one."""
    longer = codes(longer_answers(pairs))
    decided = (gold != TIE) & (longer != TIE)
    return {"shorter": decided & (gold != longer), "longer": decided & (gold == longer)}


def _agreeing(gold: np.ndarray, said: np.ndarray) -> Record:
    """One way to give verdicts, compared with the labels of all pairs.

    decided: the verdicts equal to the label in percent of the pairs whose label is not a tie, a tie counting as half,
    so that guessing earns as much as abstaining.
    """
    decided = gold != TIE
    points = np.where(said == TIE, 0.5, (said == gold) & (said != NO_VERDICT)) * decided
    return {
        "accuracy": accuracy(gold, said),
        "decided": 100 * float(points.sum()) / int(decided.sum()) if decided.any() else None,
        "decided_interval": interval(rates.ratio, points, decided) if decided.any() else None,
        "kappa": kappa(gold, said),
    }


def _coin(gold: np.ndarray) -> Record:
    """The expected agreement; without an interval, since it is not one draw."""
    decided = int((gold != TIE).sum())
    expected = {"count": decided // 2, "n": len(gold), "percent": 50 * decided / len(gold), "interval": None}
    return {"accuracy": expected, "decided": 50.0 if decided else None, "decided_interval": None, "kappa": 0.0}


def _paired(judge: np.ndarray, yardstick: np.ndarray) -> Record:
    """A judge and a yardstick on the same pairs.

    difference: of their accuracies, in points. p: McNemar's exact test, two-sided, which is the sign test over the
    pairs on which only one of the two is right; None if there are none. beats: p is below 0.05 for the judge.
    """
    alone, other = int((judge & ~yardstick).sum()), int((yardstick & ~judge).sum())
    p = sign_test(alone, other)
    difference = judge.astype(int) - yardstick.astype(int)
    return {
        "difference": 100 * float(difference.mean()),
        "interval": interval(rates.ratio, difference, np.ones_like(difference)),
        "judge_alone": alone,
        "yardstick_alone": other,
        "p": p,
        "beats": alone > other and p is not None and p < SIGNIFICANT,
    }


def compare_win_rates(pairs: Sequence[HumanPair], verdicts: Mapping[str, Sequence[str]]) -> Record:
    """The win rates of the pairs' groups, which are models; the second answer of a pair is the model's.

    models: by falling win rate against the baseline, in percent by the labels and by each way to take the verdicts. A
    pair without a verdict is left out of the rate, as in AlpacaEval; `no_verdict` counts them. correlations: for each
    way, how alike both sides rank the models.

    Args:
        pairs: with the labels' `preference`, from 1 (the baseline) to 2 (the model).
        verdicts: one per pair, of the answers in the set's order, for each way to take them.
    """
    group_of = np.array([pair.group or "" for pair in pairs])
    labels = np.array([np.nan if pair.preference is None else pair.preference - 1 for pair in pairs])
    scores = {name: np.array([_SCORES.get(verdict, np.nan) for verdict in some]) for name, some in verdicts.items()}
    parts = {name: group_of == name for name in dict.fromkeys(group_of.tolist())}
    models: list[Record] = [
        {
            "model": name,
            "pairs": int(part.sum()),
            "labels": 100 * float(labels[part].mean()),
            "verdicts": {way: _mean(some[part]) for way, some in scores.items()},
            "no_verdict": {way: int(np.isnan(some[part]).sum()) for way, some in scores.items()},
        }
        for name, part in parts.items()
    ]
    models.sort(key=lambda model: -model["labels"])
    correlations = {}
    for way in scores:
        both = [(model["labels"], rate) for model in models if (rate := model["verdicts"][way]) is not None]
        if len(both) > 2:
            correlations[way] = _correlation(*np.array(both).T)
    return {"models": models, "correlations": correlations}


def _mean(scores: np.ndarray) -> float | None:
    return None if np.isnan(scores).all() else 100 * float(np.nanmean(scores))


def _correlation(labels: np.ndarray, judge: np.ndarray) -> Record:
    """How alike two lists of win rates are, each figure with its 95 % bootstrap interval over models.

    spearman, kendall: rank correlations (Kendall's tau-b); None if all models have the same rate. difference: the mean
    absolute difference of a model's two rates, in points.
    """
    figures: Record = {}
    for name, statistic in {"spearman": spearman, "kendall": kendall, "difference": _difference}.items():
        value = float(statistic(labels, judge))
        figures[name] = None if np.isnan(value) else value
        figures[f"{name}_interval"] = _interval_over_models(statistic, labels, judge)
    return figures


def _interval_over_models(
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray], one: np.ndarray, other: np.ndarray
) -> list[float] | None:
    """The percentile interval over models drawn with replacement; a resample without two different rates is skipped."""
    if len(one) < LEAST_MODELS:
        return None
    drawn = np.random.default_rng(rates.SEED).integers(len(one), size=(rates.RESAMPLES, len(one)))
    values = statistic(one[drawn], other[drawn])
    values = values[~np.isnan(values)]
    tail = 100 * (1 - rates.CONFIDENCE) / 2
    return np.percentile(values, [tail, 100 - tail]).tolist() if len(values) else None


def _difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    absolute: np.ndarray = np.abs(one - other).mean(-1)
    return absolute


def spearman(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation along the last axis, equal values at their mean rank. NaN if a side is constant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        ranks = [stats.rankdata(side, axis=-1) for side in (one, other)]
        correlation: np.ndarray = stats.pearsonr(*ranks, axis=-1).statistic
    return correlation


def kendall(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Kendall's tau-b along the last axis. NaN if a side is constant."""
    concordance = np.zeros(one.shape[:-1])
    untied = np.zeros((2, *one.shape[:-1]))
    for index in range(one.shape[-1] - 1):  # memory stays that of the resamples
        signs = [np.sign(side[..., index + 1 :] - side[..., index, None]) for side in (one, other)]
        concordance += (signs[0] * signs[1]).sum(-1)
        untied += [np.abs(sign).sum(-1) for sign in signs]
    with np.errstate(invalid="ignore"):
        tau: np.ndarray = concordance / np.sqrt(untied[0] * untied[1])
    return tau
