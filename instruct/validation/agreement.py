"""A judge's agreement with labels: measurements of raters of the same pairs, and claims about the judge.

Raters are the judge, in each order and in both; people; and yardsticks, which are verdicts that cost nothing. `the
longer answer` and `the shorter answer` go by characters; equal lengths are a tie. `always first` and `always second`
are the set's own order, whatever the judge was shown. `the majority label` is the one that most pairs have.

Pairs of one instruction are not independent: intervals and tests are of instructions.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.agreement import kappa, kappa_interval, macro
from instruct.analysis.inference import Estimate, clustered_interval, paired_test, share
from instruct.analysis.outcomes import EXCHANGED, strict
from instruct.analysis.results import Claim, rounded
from instruct.run.measurements import Details, Measurement
from instruct.scores.claims import agreeing_interval, claim_of, settle
from instruct.scores.samples import Sample, enough_decided, fixed
from instruct.validation.human_sets import HumanPair, HumanSet

CLASSES = ("tie", "first", "second")  # PandaLM's 0, 1 and 2
TIE, FIRST, SECOND, NO_VERDICT = range(4)
ORDERS = {
    "listed": "as listed",
    "swapped": "swapped",
    "strict": "both orders, else tie",
    "averaged": "both orders, averaged",
}
YARDSTICKS = {
    "longer": "the longer answer",
    "shorter": "the shorter answer",
    "always_first": "always first",
    "always_second": "always second",
    "majority_label": "the majority label",
}
LENGTHS = ("shorter", "longer")
PART = "agreement"
_CODES = {"tie": TIE, "first": FIRST, "second": SECOND, "unparsed": NO_VERDICT, "failed": NO_VERDICT}
_SCORES = np.array([0.5, 0.0, 1.0, np.nan])
Codes = NDArray[np.int8]


@dataclass
class Agreement:
    """Figures of raters of one set of pairs. `names`: of the raters, by their `system` in the measurements.

    A measurement of a part of the pairs, or of two raters, says which in its details as `about`: a group's name, an
    annotator's, a label.
    """

    pairs: int
    clusters: NDArray[np.intp]
    names: dict[str, str]
    best: str
    annotators: Sequence[str]
    measurements: dict[tuple[str, str, str], Measurement] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def get(self, system: str, metric: str, about: str = "") -> Measurement | None:
        """A figure; None: it was not measured."""
        return self.measurements.get((system, metric, about))

    def value(self, system: str, metric: str, about: str = "") -> float | None:
        """Its value; None: it was not measured, or is not defined."""
        measured = self.get(system, metric, about)
        return measured.value if measured else None

    def about(self, system: str, metric: str) -> list[str]:
        """The parts of the pairs, or other raters, that a rater's figure is about."""
        return [about for *figure, about in self.measurements if figure == [system, metric] and about]

    def claim(self, order: str = "listed") -> Claim:
        """The judge in an order against the best yardstick."""
        return next(claim for claim in self.claims if claim.candidate == self.names[order])

    def content(self) -> dict[str, Any]:
        """As agreement.json has it."""
        return {
            "pairs": self.pairs,
            "instructions": int(self.clusters.max()) + 1,
            "raters": self.names,
            "measurements": [measured.content() for measured in self.measurements.values()],
            "claims": [claim.model_dump() for claim in self.claims],
        }

    def add(self, system: str, metric: str, value: Any, n: int, about: str = "", **more: Any) -> None:
        """A figure; `more`: of the measurement, or of its details."""
        number = float(value)
        self.measurements[system, metric, about] = Measurement(
            system=system,
            part=PART,
            metric=metric,
            value=rounded(number) if math.isfinite(number) else None,
            interval=rounded(more.pop("interval", None)),
            n=n,
            details=Details(**more | ({"about": about} if about else {})),
        )

    def rate(self, system: str, metric: str, part: NDArray[Any], whole: NDArray[Any], about: str = "") -> None:
        """What each pair adds to a part and to the whole, in percent."""
        counts = np.stack([part, whole], axis=1).astype(np.float64)
        count, n = counts.sum(axis=0)
        interval = clustered_interval(share, counts, self.clusters)
        self.add(system, metric, 100 * share(counts.sum(axis=0)), int(n), about, interval=interval, count=float(count))


def measure_agreement(
    human: HumanSet,
    listed: Sequence[str],
    swapped: Sequence[str] | None = None,
    positions_known: bool = True,
    averaged: Sequence[str] | None = None,
) -> Agreement:
    """Compare a judge's verdicts and the yardsticks' with labels.

    Of each rater: `accuracy`, to which a missing verdict is wrong; `decided`, of the pairs whose label is not a tie, a
    tie counting as half, so that guessing earns as much as abstaining; `kappa` with the majority and, about an
    annotator, with each; macro figures over the labels that occur; `best_case`, all missing verdicts right;
    `shorter_better` and `longer_better`, the accuracy where the shorter or the longer answer is better: what follows
    length alone is right on none of the former. Of the judge: `both_orders`, right in both (Auto-J's agreement);
    `consistency`, the same verdict in both, of the pairs read in both; `first_position`, verdicts for the answer shown
    first, and `longer`, for the longer answer, of those that are not ties. If a judge made the labels, win rates and
    rank correlations. Each claim is that of the judge in one order against the best yardstick, which is chosen on the
    same pairs; that favors it slightly.

    Args:
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
    if not pairs or any(each is not None and len(each) != len(pairs) for each in (listed, swapped, averaged)):
        raise ValueError("needs pairs, and one verdict for each of them")
    back = None if swapped is None else [EXCHANGED.get(verdict, verdict) for verdict in swapped]
    both = None if back is None else [strict(*verdicts) for verdicts in zip(listed, back, strict=True)]
    orders = {"listed": listed, "swapped": back, "strict": both, "averaged": averaged}
    judge = {name: verdicts for name, verdicts in orders.items() if verdicts is not None}
    raters = judge | yardstick_verdicts(pairs)
    gold, longer = codes(pair.label for pair in pairs), codes(longer_answers(pairs))
    majority = f"{YARDSTICKS['majority_label']}, {raters['majority_label'][0]}"
    given = {name: codes(verdicts) for name, verdicts in raters.items()}
    best = max(YARDSTICKS, key=lambda name: (given[name] == gold).sum())
    places: dict[str, int] = {}
    instructions = np.array([places.setdefault(p.prompt.cluster or p.prompt.whole, len(places)) for p in pairs])
    names = {name: words for name, words in (ORDERS | YARDSTICKS).items() if name in raters}
    names |= {"majority_label": majority, "judge": "the judge", "people": human.labels_by}
    found = Agreement(len(pairs), instructions, names, best, human.annotators)
    annotators = {
        name: codes(label or "failed" for label in labels)
        for name, labels in zip(human.annotators, zip(*(pair.labels for pair in pairs), strict=True), strict=True)
    }
    for name, verdicts in raters.items():
        _compare(found, name, gold, given[name], longer, Counter(verdicts))
        if name in judge and len(annotators) > 1:
            for annotator, labels in annotators.items():
                _kappa(found, name, labels, given[name], annotator)
    _measure_people(found, pairs, gold, longer, annotators)
    every = np.ones(len(pairs), dtype=bool)
    _measure_orders(found, gold, [given[name] for name in ("listed", "swapped") if name in judge], every)
    shown = np.stack([given["listed"], *([codes(swapped)] if swapped else [])])
    in_set = np.stack([given[name] for name in ("listed", "swapped") if name in judge])
    if positions_known:
        _measure_choice(found, "judge", "first_position", shown, np.full_like(gold, FIRST))
    _measure_choice(found, "judge", "longer", in_set, longer)
    group_of = np.array([pair.group or "" for pair in pairs])
    groups = {}
    for group in dict.fromkeys([*human.groups, *(pair.group for pair in pairs if pair.group is not None)]):
        if (group_of == group).any():
            groups[group] = group_of == group
    if len(groups) > 1:
        for group, part in groups.items():
            found.rate("listed", "accuracy", part & (gold == given["listed"]), part, group)
            _measure_orders(found, gold, list(in_set), part, group)
    by_instruction = len(places) < len(pairs)
    for name in judge:
        # The pairs on which only one of the two is right.
        differences = (gold == given[name]).astype(int) - (gold == given[best])
        alone, other = int((differences > 0).sum()), int((differences < 0).sum())
        apart = len(set(instructions[differences != 0]))
        counts = np.stack([differences, np.ones_like(differences)], axis=1)
        interval = clustered_interval(share, counts, instructions, -1.0)
        estimate = Estimate(100 * float(differences.mean()), interval, paired_test(differences, instructions))
        sample = Sample(
            kind="points",
            at=fixed(estimate),
            test="sign-flip test of instructions" if by_instruction else "McNemar's test",
            n=len(pairs),
            enough=enough_decided(alone, other, apart),
            params={"candidate_alone": alone, "baseline_alone": other, "instructions": apart},
        )
        claim = claim_of(sample, measure="accuracy", candidate=names[name], baseline=names[best])
        settle([claim])
        if claim.interval and claim.finding:  # the interval includes 0 unless the test claims a difference
            halved = agreeing_interval([50 + end / 2 for end in claim.interval], claim.finding) or []
            claim.interval = rounded([2 * end - 100 for end in halved])
        found.claims.append(claim)
    if not human.by_people:
        _compare_win_rates(found, pairs, groups, {name: given[name] for name in (*judge, *LENGTHS)})
    return found


def codes(labels: Iterable[str]) -> Codes:
    """TIE, FIRST, SECOND or NO_VERDICT for each label or verdict: shape (pairs,)."""
    return np.array([_CODES[label] for label in labels], dtype=np.int8)


def longer_answers(pairs: Sequence[HumanPair]) -> list[str]:
    """Of each pair the answer with more characters; `tie` for equal lengths."""
    differences = (len(pair.first) - len(pair.second) for pair in pairs)
    return ["first" if gap > 0 else "second" if gap < 0 else "tie" for gap in differences]


def yardstick_verdicts(pairs: Sequence[HumanPair]) -> dict[str, list[str]]:
    """The verdicts of every yardstick: `first`, `second` or `tie` for each pair."""
    longer = longer_answers(pairs)
    majority = Counter(pair.label for pair in pairs).most_common(1)[0][0]
    return {
        "longer": longer,
        "shorter": [EXCHANGED.get(verdict, verdict) for verdict in longer],
        "always_first": ["first"] * len(pairs),
        "always_second": ["second"] * len(pairs),
        "majority_label": [majority] * len(pairs),
    }


def _compare(found: Agreement, name: str, gold: Codes, given: Codes, longer: Codes, counts: Counter[str]) -> None:
    right, decided, missing = gold == given, gold != TIE, given == NO_VERDICT
    every = np.ones(len(gold), dtype=bool)
    found.rate(name, "accuracy", right, every)
    found.add(name, "best_case", 100 * (right | missing).mean(), len(gold))
    found.add(name, "unparsed", counts["unparsed"], len(gold))
    found.add(name, "failed", counts["failed"], len(gold))
    found.rate(name, "decided", np.where(given == TIE, 0.5, right) * decided, decided)
    table = _kappa(found, name, gold, given)
    for metric, value in zip(("macro_precision", "macro_recall", "macro_f1"), macro(table), strict=True):
        found.add(name, metric, 100 * value, len(gold))
    for label, row in zip(CLASSES, table, strict=False):
        for verdict, count in zip((*CLASSES, "no verdict"), row, strict=True):
            found.add(name, "confusion", count, int(row.sum()), f"{label}, {verdict}")
    apart = decided & (longer != TIE)
    for better, among in {"shorter": apart & (gold != longer), "longer": apart & (gold == longer)}.items():
        found.rate(name, f"{better}_better", among & right, among)


def _kappa(found: Agreement, name: str, labels: Codes, given: Codes, about: str = "") -> NDArray[Any]:
    """Cohen's kappa over the pairs that have a label, ties and missing verdicts being classes. Returns the table."""
    tables = np.zeros((len(labels), len(CLASSES) + 1, len(CLASSES) + 1))
    tables[np.arange(len(labels)), labels, given] = labels != NO_VERDICT
    total = tables.sum(axis=0)
    interval = kappa_interval(tables, found.clusters)
    found.add(name, "kappa", kappa(total), int(total.sum()), about, interval=interval)
    return total


def _measure_people(
    found: Agreement, pairs: Sequence[HumanPair], gold: Codes, longer: Codes, annotators: dict[str, Codes]
) -> None:
    """How often people prefer the first or the longer answer, and how far annotators agree."""
    for label, code in zip(CLASSES, range(3), strict=True):
        found.add("people", "labels", (gold == code).sum(), len(pairs), label)
    _measure_choice(found, "people", "first_position", gold[None], np.full_like(gold, FIRST))
    _measure_choice(found, "people", "longer", gold[None], longer)
    found.add("people", "unanimous", sum(len({*pair.labels} - {None}) == 1 for pair in pairs), len(pairs))
    found.add("people", "split", sum(pair.split for pair in pairs), len(pairs))
    for (one, ours), (other, theirs) in itertools.combinations(annotators.items(), 2):
        _kappa(found, "people", np.where(theirs == NO_VERDICT, NO_VERDICT, ours), theirs, f"{one} and {other}")


def _measure_orders(
    found: Agreement, gold: Codes, orders: Sequence[Codes], part: NDArray[np.bool_], about: str = ""
) -> None:
    if len(orders) == 2:
        one, other = orders
        read = part & (one != NO_VERDICT) & (other != NO_VERDICT)
        found.rate("judge", "both_orders", part & (gold == one) & (gold == other), part, about)
        found.rate("judge", "consistency", read & (one == other), read, about)


def _measure_choice(found: Agreement, name: str, metric: str, verdicts: NDArray[np.int8], choice: Codes) -> None:
    """Verdicts for each pair's `choice`, where neither is a tie; `verdicts`: shape (orders, pairs)."""
    decided = np.isin(verdicts, (FIRST, SECOND)) & (choice != TIE)
    found.rate(name, metric, (decided & (verdicts == choice)).sum(0), decided.sum(0))


def _compare_win_rates(
    found: Agreement, pairs: Sequence[HumanPair], groups: dict[str, NDArray[np.bool_]], given: dict[str, Codes]
) -> None:
    """The win rates of the pairs' groups, which are models, by the labels and by each rater, and how alike they rank.

    The second answer of a pair is the model's, and a label's `preference` is from 1 (the baseline) to 2 (the model). A
    pair without a verdict is left out of the rate, as in AlpacaEval, and is `missing`.
    """
    from scipy import stats  # takes half a second

    scores = {name: _SCORES[verdicts] for name, verdicts in given.items()}
    scores["people"] = np.array([np.nan if pair.preference is None else pair.preference - 1 for pair in pairs])
    for (model, part), (name, each) in itertools.product(groups.items(), scores.items()):
        read = each[part & ~np.isnan(each)]
        found.add(
            name,
            "win_rate",
            100 * read.mean() if len(read) else math.nan,
            int(part.sum()),
            model,
            missing=int(part.sum()) - len(read),
        )
    for name in given:
        rates = [[found.value(side, "win_rate", model) for side in ("people", name)] for model in groups]
        both = np.array([each for each in rates if None not in each], dtype=float).T
        if both.size <= 4:  # of two models any two ranks agree or do not
            continue
        correlations: dict[str, Callable[..., Any]] = {"spearman": stats.spearmanr, "kendall": stats.kendalltau}
        varied = bool(np.ptp(both, axis=1).all())
        for metric, correlate in correlations.items():
            found.add(name, metric, correlate(*both).statistic if varied else math.nan, both.shape[1])
        found.add(name, "mean_difference", np.abs(both[0] - both[1]).mean(), both.shape[1])
