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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.agreement import defined, kappa, kappa_interval, tables
from instruct.analysis.clusters import numbered
from instruct.analysis.inference import mean_score
from instruct.analysis.outcomes import EXCHANGED
from instruct.analysis.results import Claim, rounded
from instruct.run.measurements import Details, Measurement
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import difference
from instruct.validation.human_sets import HumanPair, HumanSet

CLASSES = ("tie", "first", "second")  # PandaLM's 0, 1 and 2
NO_VERDICT = "no verdict"
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
_DECIDED = ("first", "second")
_SCORES = {"first": 0.0, "tie": 0.5, "second": 1.0}
# A rater's verdict on each pair: one of CLASSES, NO_VERDICT, or "" for a pair that is not the rater's.
Ratings = NDArray[np.str_]


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

    def count(self, system: str, metric: str, about: str = "") -> str | None:
        """Of a rate, how many pairs it is and of how many; None: it was not measured."""
        measured = self.get(system, metric, about)
        return f"{measured.details.count:g} of {measured.n}" if measured else None  # type: ignore[attr-defined]

    def about(self, system: str, metric: str) -> list[str]:
        """The parts of the pairs, or other raters, that a rater's figure is about."""
        return [about for *figure, about in self.measurements if figure == [system, metric] and about]

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
        self.measurements[system, metric, about] = Measurement(
            system=system,
            part=PART,
            metric=metric,
            value=rounded(defined(value)),
            interval=rounded(more.pop("interval", None)),
            n=n,
            details=Details(**more | ({"about": about} if about else {})),
        )

    def rate(self, system: str, metric: str, right: NDArray[Any], among: NDArray[np.bool_], about: str = "") -> None:
        """How much of some pairs is right, in percent; several verdicts on each pair: shape (verdicts, pairs)."""
        of_verdicts = np.stack([right * among, among + 0 * right]).astype(float).reshape(2, -1, self.pairs)
        points, counts = of_verdicts.sum(axis=1)
        n, read = int(counts.sum()), counts > 0
        estimate = mean_score((points[read] / counts[read])[None], self.clusters[read], counts[read])
        self.add(system, metric, estimate.value, n, about, interval=estimate.interval, count=float(points.sum()))

    def choice(self, system: str, metric: str, given: Ratings, choice: Ratings) -> None:
        """How often each pair's choice is given, where neither is a tie."""
        self.rate(system, metric, given == choice, np.isin(given, _DECIDED) & np.isin(choice, _DECIDED))

    def compare(self, system: str, labels: Ratings, given: Ratings, about: str = "") -> NDArray[Any]:
        """Cohen's kappa over the pairs with a label, ties and missing verdicts being classes; returns the table."""
        of_pairs = tables(labels, given, (*CLASSES, NO_VERDICT))
        table: NDArray[Any] = of_pairs.sum(axis=0)
        interval = kappa_interval(of_pairs, self.clusters)
        self.add(system, "kappa", kappa(table), int(table.sum()), about, interval=interval)
        return table


def measure_agreement(
    human: HumanSet, verdicts: Mapping[str, Sequence[str]], positions_known: bool = True
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
        verdicts: by one of ORDERS, `listed` at least; of each pair `first`, `second`, `tie`, `unparsed` or `failed`, of
            the answers in the set's order.
        positions_known: whether the verdicts tell which answer was shown first; AlpacaEval's annotations do not.

    Raises:
        ValueError: there are no pairs, or not exactly one verdict per pair.
    """
    pairs = human.pairs
    if not pairs or any(len(each) != len(pairs) for each in verdicts.values()):
        raise ValueError("needs pairs, and one verdict for each of them")
    raters = {**verdicts, **yardstick_verdicts(pairs)}
    given = {name: _ratings(each) for name, each in raters.items()}
    gold, longer = _ratings([pair.label for pair in pairs]), given["longer"]
    best = max(YARDSTICKS, key=lambda name: (given[name] == gold).sum())
    names = {name: words for name, words in (ORDERS | YARDSTICKS).items() if name in raters}
    names["majority_label"] += f", {raters['majority_label'][0]}"
    names |= {"judge": "the judge", "people": human.labels_by}
    clusters = numbered(pair.prompt.cluster or pair.prompt.whole for pair in pairs)
    found = Agreement(len(pairs), clusters, names, best, human.annotators)
    labels = np.array([[label or "" for label in pair.labels] for pair in pairs]).T
    annotators = dict(zip(human.annotators, labels, strict=True))
    for name, ratings in given.items():
        _measure_rater(found, name, gold, ratings, longer, Counter(raters[name]))
        if name in verdicts and len(annotators) > 1:
            for annotator, theirs in annotators.items():
                found.compare(name, theirs, ratings, annotator)
    for label in CLASSES:
        found.add("people", "labels", (gold == label).sum(), len(pairs), label)
    found.choice("people", "first_position", gold, np.array("first"))
    found.choice("people", "longer", gold, longer)
    found.add("people", "unanimous", sum(len({*pair.labels} - {None}) == 1 for pair in pairs), len(pairs))
    found.add("people", "split", sum(pair.split for pair in pairs), len(pairs))
    for (one, ours), (other, theirs) in itertools.combinations(annotators.items(), 2):
        found.compare("people", ours, theirs, f"{one} and {other}")
    in_set = np.stack([given[name] for name in ("listed", "swapped") if name in verdicts])
    _measure_orders(found, gold, in_set, np.ones(len(pairs), dtype=bool))
    if positions_known:
        found.choice("judge", "first_position", in_set, np.array([["first"], ["second"]])[: len(in_set)])
    found.choice("judge", "longer", in_set, longer)

    group_of = np.array([pair.group or "" for pair in pairs])
    known = dict.fromkeys([*human.groups, *(pair.group for pair in pairs if pair.group is not None)])
    groups = {group: group_of == group for group in known if (group_of == group).any()}
    for group, part in groups.items() if len(groups) > 1 else ():
        found.rate("listed", "accuracy", given["listed"] == gold, part, group)
        _measure_orders(found, gold, in_set, part, group)
    found.claims += [_claim(found, name, given[name] == gold, given[best] == gold) for name in verdicts]
    if not human.by_people:
        by_labels = np.array([math.nan if pair.score is None else pair.score for pair in pairs])
        _compare_win_rates(found, groups, by_labels, {name: given[name] for name in (*verdicts, *LENGTHS)})
    return found


def yardstick_verdicts(pairs: Sequence[HumanPair]) -> dict[str, list[str]]:
    """The verdicts of every yardstick: `first`, `second` or `tie` for each pair."""
    gaps = [len(pair.first) - len(pair.second) for pair in pairs]
    longer = ["first" if gap > 0 else "second" if gap < 0 else "tie" for gap in gaps]
    majority = Counter(pair.label for pair in pairs).most_common(1)[0][0]
    return {
        "longer": longer,
        "shorter": [EXCHANGED.get(verdict, verdict) for verdict in longer],
        "always_first": ["first"] * len(pairs),
        "always_second": ["second"] * len(pairs),
        "majority_label": [majority] * len(pairs),
    }


def _ratings(verdicts: Sequence[str]) -> Ratings:
    return np.array(
        [verdict if verdict in CLASSES else NO_VERDICT for verdict in verdicts], dtype=f"U{len(NO_VERDICT)}"
    )


def _measure_orders(found: Agreement, gold: Ratings, in_set: Ratings, part: NDArray[np.bool_], group: str = "") -> None:
    if len(in_set) == 2:
        found.rate("judge", "both_orders", (in_set == gold).all(axis=0), part, group)
        read = part & (in_set != NO_VERDICT).all(axis=0)
        found.rate("judge", "consistency", in_set[0] == in_set[1], read, group)


def _measure_rater(
    found: Agreement, name: str, gold: Ratings, given: Ratings, longer: Ratings, counts: Counter[str]
) -> None:
    from sklearn.metrics import precision_recall_fscore_support  # takes a second

    right, decided, missing = given == gold, np.isin(gold, _DECIDED), given == NO_VERDICT
    found.rate(name, "accuracy", right, np.ones(len(gold), dtype=bool))
    found.add(name, "best_case", 100 * (right | missing).mean(), len(gold))
    found.add(name, "unparsed", counts["unparsed"], len(gold))
    found.add(name, "failed", counts["failed"], len(gold))
    found.rate(name, "decided", np.where(given == "tie", 0.5, right), decided)
    table = found.compare(name, gold, given)
    macro = precision_recall_fscore_support(gold, given, labels=np.unique(gold), average="macro", zero_division=0)
    for metric, value in zip(("macro_precision", "macro_recall", "macro_f1"), macro, strict=False):
        found.add(name, metric, 100 * value, len(gold))
    for label, row in zip(CLASSES, table, strict=False):
        for verdict, count in zip((*CLASSES, NO_VERDICT), row, strict=True):
            found.add(name, "confusion", count, int(row.sum()), f"{label}, {verdict}")
    apart = decided & (longer != "tie")
    for better, among in {"shorter": apart & (gold != longer), "longer": apart & (gold == longer)}.items():
        found.rate(name, f"{better}_better", right, among)


def _claim(found: Agreement, name: str, right: NDArray[np.bool_], best: NDArray[np.bool_]) -> Claim:
    """How much more often a rater is right than the best yardstick."""
    sample = difference(lambda missing: (right[None].astype(float), best[None].astype(float)), found.clusters)
    claim = claim_of(sample, measure="accuracy", candidate=found.names[name], baseline=found.names[found.best])
    settle([claim])
    return claim


def _compare_win_rates(
    found: Agreement, models: dict[str, NDArray[np.bool_]], by_labels: NDArray[np.float64], given: dict[str, Ratings]
) -> None:
    """The win rates of models, which are the pairs' groups, by the labels and by each rater, and how alike they rank.

    The second answer of a pair is the model's. A pair without a verdict is left out of the rate, as in AlpacaEval, and
    is `missing`.
    """
    from scipy import stats  # takes half a second

    scores = {
        name: np.array([_SCORES.get(verdict, math.nan) for verdict in ratings]) for name, ratings in given.items()
    }
    scores["people"] = by_labels
    for (model, part), (name, each) in itertools.product(models.items(), scores.items()):
        read, n = each[part & ~np.isnan(each)], int(part.sum())
        rate = 100 * read.mean() if len(read) else math.nan
        found.add(name, "win_rate", rate, n, model, missing=n - len(read))
    for name in given:
        rates = [[found.value(side, "win_rate", model) for side in ("people", name)] for model in models]
        both = np.array([each for each in rates if None not in each], dtype=float).T
        if both.size <= 4:  # of two models any two ranks agree or do not
            continue
        varied = bool(np.ptp(both, axis=1).all())
        for metric, correlate in (("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
            found.add(name, metric, correlate(*both).statistic if varied else math.nan, both.shape[1])
        found.add(name, "mean_difference", np.abs(both[0] - both[1]).mean(), both.shape[1])
