"""Agreement with labels as tables: agreement.md, and plain text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instruct.base.errors import one_line
from instruct.reporting.render.lines import escape_markdown, markdown_section, terminal_table
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability
from instruct.validation.agreement import CLASSES, LENGTHS, ORDERS, YARDSTICKS, Agreement

# A row of a table: its name, and the measurements in it by rater, metric and what they are about.
Row = tuple[str, list[tuple[str, str, str]]]
_WHOLE = ("unparsed", "failed", "confusion", "unanimous", "split")
_FOUR_DIGITS = ("kappa", "spearman", "kendall")


def render_terminal(head: Sequence[str], agreement: Agreement) -> str:
    """`head`, then the tables, as plain text without control characters."""
    lines = [one_line(line, 1000) for line in head]
    for table in agreement_tables(agreement):
        lines += ["", table.title, *terminal_table(table, 80, indent=2)]
    return "\n".join(lines) + "\n"


def render_markdown(title: str, head: Sequence[str], agreement: Agreement) -> str:
    """agreement.md."""
    lines = [f"# {escape_markdown(title)}", ""]
    for line in head:
        lines += [escape_markdown(line, 1000), ""]
    for table in agreement_tables(agreement):
        lines += markdown_section(table, 2)
    return "\n".join(lines).rstrip() + "\n"


def agreement_tables(agreement: Agreement) -> Iterator[Table]:
    """All tables that have rows."""
    names, annotators = agreement.names, agreement.annotators
    orders = [name for name in ORDERS if name in names]
    by_people = names["people"] == "people"

    def cell(rater: str, metric: str, about: str) -> str:
        of_count = metric == "count"
        measured = agreement.get(rater, "accuracy" if of_count else metric, about)
        if measured is None:
            return ""
        if of_count:
            return f"{measured.details.count:g} of {measured.n}"  # type: ignore[attr-defined]
        if measured.value is None:
            return "-"
        if metric in _WHOLE:
            return f"{measured.value:.0f}"
        digits = 4 if metric in _FOUR_DIGITS else 2
        missing = getattr(measured.details, "missing", 0)
        return f"{measured.value:.{digits}f}{_span(measured.interval, min(digits, 3))}" + (
            f" / {missing}" * bool(missing)
        )

    def table(title: str, header: Sequence[str], rows: Sequence[Row], note: str = "") -> Table:
        return Table(title, header, [[words, *(cell(*key) for key in keys)] for words, keys in rows], note=note)

    def by_order(words: str, metric: str, about: str = "") -> Row:
        return words, [(order, metric, about) for order in orders]

    header = ["order shown", *(names[order] for order in orders)]
    rows = [
        by_order("correct", "count"),
        by_order("accuracy, %", "accuracy"),
        by_order("macro precision, %", "macro_precision"),
        by_order("macro recall, %", "macro_recall"),
        by_order("macro F1, %", "macro_f1"),
        by_order("kappa with the majority", "kappa"),
    ]
    if len(annotators) > 1:
        rows += [by_order(f"kappa with {annotator}", "kappa", annotator) for annotator in annotators]
    if any(agreement.value(order, metric) for order in orders for metric in ("unparsed", "failed")):
        rows += [by_order("unparsed", "unparsed"), by_order("failed", "failed")]
        rows.append(by_order("best-case accuracy (all of these correct), %", "best_case"))
    labels = "the annotators' majority" if by_people else "the labels"
    yield table(f"Verdicts compared with {labels}", header, rows)

    decided = agreement.measurements["listed", "decided", ""].n
    everyone = {order: f"the judge, {names[order]}" for order in orders}
    everyone |= {yardstick: names[yardstick] for yardstick in YARDSTICKS}
    metrics = ("count", "accuracy", "kappa", "decided")
    yield table(
        "The judge and its yardsticks",
        ["verdicts", "correct", "accuracy, %", "kappa", f"of {decided} decided pairs, %"],
        [(words, [(name, metric, "") for metric in metrics]) for name, words in everyone.items()],
        "Verdicts that cost nothing, on the same pairs. Longer and shorter go by characters, and equal lengths are a "
        "tie; first and second are the set's own order. Decided pairs: those whose label is not a tie; a tie is half "
        "right.",
    )

    rows = []
    for length in LENGTHS:
        if n := agreement.measurements["listed", f"{length}_better", ""].n:
            rows.append(by_order(f"the {length} answer, of {n} pairs", f"{length}_better"))
    if rows:
        note = "Decided pairs with answers of different length. Who goes by length is right on the longer ones alone."
        yield table("Accuracy in % by which answer is better", ["better by the label", *header[1:]], rows, note)

    columns = [
        Column("order shown", "candidate", text=True),
        Column("difference, points", lambda claim: f"{claim.value:+.2f}{_span(claim.interval, 2)}"),
        Column("only the judge right", lambda claim: claim.params["candidate_alone"]),
        Column("only the yardstick right", lambda claim: claim.params["baseline_alone"]),
        Column("p", lambda claim: probability(claim.p)),
    ]
    title = f"The judge minus the best yardstick ({names[agreement.best]})"
    note = "The best yardstick was chosen on these pairs, which favors it slightly."
    yield columns_table(title, agreement.claims, columns, f"{agreement.claim().test}, two-sided. {note}")

    if models := agreement.about("people", "win_rate"):
        models.sort(key=lambda model: -(agreement.value("people", "win_rate", model) or 0.0))
        raters = [name for name in ("people", *orders, *LENGTHS) if agreement.get(name, "win_rate", models[0])]
        yield table(
            "Win rates of the models",
            ["model, pairs", *(names[name] for name in raters)],
            [
                (
                    f"{model}, {agreement.measurements['people', 'win_rate', model].n}",
                    [(name, "win_rate", model) for name in raters],
                )
                for model in models
            ],
            "Against the baseline, in percent. Pairs without a verdict (their number follows the slash) are left out.",
        )
        correlations = ("spearman", "kendall", "mean_difference")
        ranked = [name for name in raters if agreement.get(name, "spearman")]
        if ranked:
            yield table(
                f"Win rates of {len(models)} models, compared with those by {names['people']}",
                ["verdicts", "Spearman", "Kendall's tau-b", "mean absolute difference, points"],
                [(names[name], [(name, metric, "") for metric in correlations]) for name in ranked],
            )

    preferences = {
        "correct in both orders": "both_orders",
        "same verdict in both orders": "consistency",
        "prefers the answer shown first": "first_position",
        "prefers the longer answer": "longer",
    }
    rates = []
    for words, metric in preferences.items():
        if measured := agreement.get("judge", metric):
            # Over both orders every answer is shown first once, so the annotators' rate has nothing to compare with.
            compared = metric != "first_position" or "swapped" not in names
            count = f"{measured.details.count:g} of {measured.n}"  # type: ignore[attr-defined]
            rates.append([words, count, cell("judge", metric, ""), cell("people", metric, "") if compared else ""])
    yield Table("Order, position and length", ["judge", "verdicts", "%", "annotators, %"], rates)

    rows = [(f"kappa of {two}", [("people", "kappa", two)]) for two in agreement.about("people", "kappa")]
    if rows:
        rows.append((f"unanimous, of {agreement.pairs}", [("people", "unanimous", "")]))
    if agreement.value("people", "split"):
        rows.append(("no majority (the first annotator's label counts)", [("people", "split", "")]))
    if rows:
        yield table("Agreement between annotators", ["", "value"], rows)

    verdicts = [*CLASSES, "no verdict"]
    who = "human" if by_people else "label"
    for order in orders:
        rows = [(f"{who}: {each}", [(order, "confusion", f"{each}, {said}") for said in verdicts]) for each in CLASSES]
        yield table(f"Confusion matrix, {names[order]}", ["", *verdicts], rows)

    header = ["group, pairs", "accuracy as listed, %", "correct in both orders, %", "consistency, %"]
    by_group = [("listed", "accuracy"), ("judge", "both_orders"), ("judge", "consistency")]
    by_group = by_group if "swapped" in names else by_group[:1]
    rows = []
    for group in agreement.about("listed", "accuracy"):
        n = agreement.measurements["listed", "accuracy", group].n
        rows.append((f"{group}, {n}", [(rater, metric, group) for rater, metric in by_group]))
    if rows:
        yield table("By group", header[: len(by_group) + 1], rows)


def _span(interval: Sequence[float] | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
