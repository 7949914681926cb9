"""Agreement with labels as tables, for agreement.md and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability
from instruct.validation.agreement import CLASSES, LENGTHS, NO_VERDICT, ORDERS, YARDSTICKS, Agreement

_VERDICTS = {
    "correct": "count",
    "accuracy, %": "accuracy",
    "macro precision, %": "macro_precision",
    "macro recall, %": "macro_recall",
    "macro F1, %": "macro_f1",
    "kappa with the majority": "kappa",
}
_MISSING = {
    "unparsed": "unparsed",
    "failed": "failed",
    "best-case accuracy (all of these correct), %": "best_case",
}
_PREFERENCES = {
    "correct in both orders": "both_orders",
    "same verdict in both orders": "consistency",
    "prefers the answer shown first": "first_position",
    "prefers the longer answer": "longer",
}
_CORRELATIONS = {
    "Spearman": "spearman",
    "Kendall's tau-b": "kendall",
    "mean absolute difference, points": "mean_difference",
}
_WHOLE = ("unparsed", "failed", "confusion", "unanimous", "split")
_FOUR_DIGITS = ("kappa", "spearman", "kendall")


def agreement_tables(agreement: Agreement) -> Iterator[Table]:
    """All tables; some may have no rows."""
    names, value, people = agreement.names, agreement.value, agreement.names["people"]
    orders = [name for name in ORDERS if name in names]

    def cell(rater: str, metric: str, about: str = "") -> str | None:
        if metric == "count":
            return agreement.count(rater, "accuracy", about)
        measured = agreement.get(rater, metric, about)
        if measured is None:
            return None
        if measured.value is None:
            return "-"
        if metric in _WHOLE:
            return f"{measured.value:.0f}"
        digits = 4 if metric in _FOUR_DIGITS else 2
        missing = getattr(measured.details, "missing", 0)
        return f"{measured.value:.{digits}f}{_span(measured.interval, min(digits, 3))}" + f" / {missing}" * bool(
            missing
        )

    def by_order(title: str, first: str, rows: Iterable[tuple[str, str, str]], note: str = "") -> Table:
        """Rows of what they are called, the metric, and what it is about."""
        cells = [[words, *(cell(order, metric, about) for order in orders)] for words, metric, about in rows]
        return Table(title, [first, *(names[order] for order in orders)], cells, note=note)

    shown = [(words, metric, "") for words, metric in _VERDICTS.items()]
    shown += [(f"kappa with {annotator}", "kappa", annotator) for annotator in agreement.annotators]
    if any(value(order, metric) for order in orders for metric in ("unparsed", "failed")):
        shown += [(words, metric, "") for words, metric in _MISSING.items()]
    labels = "the annotators' majority" if people == "people" else "the labels"
    yield by_order(f"Verdicts compared with {labels}", "order shown", shown)

    decided = agreement.measurements["listed", "decided", ""].n
    yield Table(
        "The judge and its yardsticks",
        ["verdicts", "correct", "accuracy, %", "kappa", f"of {decided} decided pairs, %"],
        [
            [
                "the judge, " * (name in ORDERS) + names[name],
                *(cell(name, metric) for metric in ("count", "accuracy", "kappa", "decided")),
            ]
            for name in (*orders, *YARDSTICKS)
        ],
        note="Verdicts that cost nothing, on the same pairs. Longer and shorter go by characters, and equal lengths "
        "are a tie; first and second are the set's own order. Decided pairs: those whose label is not a tie; a tie is "
        "half right.",
    )
    lengths = {length: agreement.measurements["listed", f"{length}_better", ""].n for length in LENGTHS}
    yield by_order(
        "Accuracy in % by which answer is better",
        "better by the label",
        [(f"the {length} answer, of {n} pairs", f"{length}_better", "") for length, n in lengths.items() if n],
        "Decided pairs with answers of different length. Who goes by length is right on the longer ones alone.",
    )
    columns = [
        Column("order shown", "candidate", text=True),
        Column("difference, points", lambda claim: f"{claim.value:+.2f}{_span(claim.interval, 2)}"),
        Column("only the judge right", "params.candidate_above"),
        Column("only the yardstick right", "params.baseline_above"),
        Column("p", lambda claim: probability(claim.p)),
    ]
    title = f"The judge minus the best yardstick ({names[agreement.best]})"
    note = "The best yardstick was chosen on these pairs, which favors it slightly."
    yield columns_table(title, agreement.claims, columns, f"{agreement.claims[0].test}, two-sided. {note}")

    models = sorted(agreement.about("people", "win_rate"), key=lambda model: -(value("people", "win_rate", model) or 0))
    raters = ("people", *orders, *LENGTHS)
    yield Table(
        "Win rates of the models",
        ["model, pairs", *(names[name] for name in raters)],
        [
            [
                f"{model}, {agreement.measurements['people', 'win_rate', model].n}",
                *(cell(name, "win_rate", model) for name in raters),
            ]
            for model in models
        ],
        note="Against the baseline, in percent. Pairs without a verdict (their number follows the slash) are left out.",
    )
    yield Table(
        f"Win rates of {len(models)} models, compared with those by {people}",
        ["verdicts", *_CORRELATIONS],
        [[names[name], *(cell(name, metric) for metric in _CORRELATIONS.values())] for name in raters],
    )
    rates = []
    for words, metric in _PREFERENCES.items():
        if count := agreement.count("judge", metric):
            # Over both orders every answer is shown first once, so the annotators' rate has nothing to compare with.
            compared = metric != "first_position" or "swapped" not in names
            rates.append([words, count, cell("judge", metric), (cell("people", metric) or "") if compared else ""])
    yield Table("Order, position and length", ["judge", "verdicts", "%", "annotators, %"], rates)

    between = {f"kappa of {two}": cell("people", "kappa", two) for two in agreement.about("people", "kappa")}
    if between:
        between[f"unanimous, of {agreement.pairs}"] = cell("people", "unanimous")
    if value("people", "split"):
        between["no majority (the first annotator's label counts)"] = cell("people", "split")
    yield Table("Agreement between annotators", ["", "value"], list(map(list, between.items())))

    verdicts, who = (*CLASSES, NO_VERDICT), "human" if people == "people" else "label"
    for order in orders:
        rows = [
            [f"{who}: {label}", *(cell(order, "confusion", f"{label}, {said}") for said in verdicts)]
            for label in CLASSES
        ]
        yield Table(f"Confusion matrix, {names[order]}", ["", *verdicts], rows)

    groups = {
        group: agreement.measurements["listed", "accuracy", group].n for group in agreement.about("listed", "accuracy")
    }
    yield Table(
        "By group",
        ["group, pairs", "accuracy as listed, %", "correct in both orders, %", "consistency, %"],
        [
            [
                f"{group}, {n}",
                cell("listed", "accuracy", group),
                cell("judge", "both_orders", group),
                cell("judge", "consistency", group),
            ]
            for group, n in groups.items()
        ],
    )


def _span(interval: Sequence[float] | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
