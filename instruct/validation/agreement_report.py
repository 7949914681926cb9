"""Agreement with labels as tables: agreement.md, and plain text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from instruct.base.errors import one_line
from instruct.reporting.render.lines import escape_markdown, markdown_section, terminal_table
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability
from instruct.run.measurements import Measurement
from instruct.validation.agreement import ACCURACY, CLASSES, ORDERS, YARDSTICKS, Agreement

# The key of a measurement: the rater, the metric, and what it is about.
Key = tuple[str, str, str]
_WHOLE = ("unparsed", "failed", "labels", "confusion", "unanimous", "split")
_FOUR_DIGITS = ("kappa", "spearman", "kendall")


def render_terminal(head: Sequence[str], agreement: Agreement) -> str:
    """`head`, then the tables, as plain text without control characters."""
    lines = [one_line(line, 1000) for line in head]
    for table in _tables(agreement):
        lines += ["", table.title, *terminal_table(table, 80, indent=2)]
    return "\n".join(lines) + "\n"


def render_markdown(title: str, head: Sequence[str], agreement: Agreement) -> str:
    """agreement.md."""
    lines = [f"# {escape_markdown(title)}", ""]
    for line in head:
        lines += [escape_markdown(line, 1000), ""]
    for table in _tables(agreement):
        lines += markdown_section(table, 2)
    return "\n".join(lines).rstrip() + "\n"


def _tables(agreement: Agreement) -> list[Table]:
    names, many = agreement.names, len(agreement.annotators) > 1
    orders = {name: words for name, words in ORDERS.items() if name in names}
    by_judge = names["people"] != "people"
    labels = "the labels" if by_judge else "the annotators' majority"
    metrics = {
        "correct": ("count", ""),
        "accuracy, %": (ACCURACY, ""),
        "macro precision, %": ("macro_precision", ""),
        "macro recall, %": ("macro_recall", ""),
        "macro F1, %": ("macro_f1", ""),
        "kappa with the majority": ("kappa", ""),
        **({f"kappa with {name}": ("kappa", name) for name in agreement.annotators} if many else {}),
    }
    if any(agreement.value(name, metric) for name in orders for metric in ("unparsed", "failed")):
        metrics |= {"unparsed": ("unparsed", ""), "failed": ("failed", "")}
        metrics |= {"best-case accuracy (all of these correct), %": ("best_case", "")}
    verdicts = _pivot(agreement, f"Verdicts compared with {labels}", "order shown", metrics, orders)
    everyone = {name: f"the judge, {words}" for name, words in orders.items()}
    everyone |= {name: names[name] for name in YARDSTICKS}
    decided = agreement.get("listed", "decided")
    yardsticks = _cells(
        agreement,
        "The judge and its yardsticks",
        ["verdicts", "correct", "accuracy, %", "kappa", f"of {decided.n if decided else 0} decided pairs, %"],
        {
            words: [(name, metric, "") for metric in ("count", ACCURACY, "kappa", "decided")]
            for name, words in everyone.items()
        },
        "Verdicts that cost nothing, on the same pairs. Longer and shorter go by characters, and equal lengths are a "
        "tie; first and second are the set's own order. Decided pairs: those whose label is not a tie; a tie is half "
        "right.",
    )
    better = {
        f"the {length} answer, of {counted.n} pairs": (metric, "")
        for length in ("shorter", "longer")
        if (counted := agreement.get("listed", metric := f"{length}_better")) and counted.n
    }
    by_length = _pivot(
        agreement, "Accuracy in % by which answer is better", "better by the label", better, orders,
        "Decided pairs with answers of different length. Who goes by length is right on the longer ones alone.",
    )  # fmt: skip
    return [
        table
        for table in (
            verdicts,
            yardsticks,
            by_length,
            _claims(agreement),
            *_win_rates(agreement),
            _preferences(agreement),
            _annotators(agreement),
            *_confusions(agreement, orders, "label" if by_judge else "human"),
            _groups(agreement),
        )
        if table.rows
    ]


def _pivot(
    agreement: Agreement,
    title: str,
    corner: str,
    rows: Mapping[str, tuple[str, str]],
    raters: Mapping[str, str],
    note: str = "",
) -> Table:
    """Metrics as rows, raters as columns."""
    keys = {words: [(rater, metric, about) for rater in raters] for words, (metric, about) in rows.items()}
    return _cells(agreement, title, [corner, *raters.values()], keys, note)


def _cells(
    agreement: Agreement, title: str, header: Sequence[str], rows: Mapping[str, Sequence[Key]], note: str = ""
) -> Table:
    """A table of figures by their keys; `count` is the count of an accuracy."""
    return Table(title, header, [[words, *(_cell(agreement, key) for key in keys)] for words, keys in rows.items()],
                 note=note)  # fmt: skip


def _cell(agreement: Agreement, key: Key) -> str:
    rater, metric, about = key
    measured = agreement.get(rater, ACCURACY if metric == "count" else metric, about)
    if measured is None:
        return ""
    if metric == "count":
        return _count(measured)
    if measured.value is None:
        return "-"
    if metric in _WHOLE:
        return f"{measured.value:.0f}"
    digits = 4 if metric in _FOUR_DIGITS else 2
    missing = getattr(measured.details, "missing", 0)
    return f"{measured.value:.{digits}f}{_span(measured.interval, min(digits, 3))}" + f" / {missing}" * bool(missing)


def _count(measured: Measurement) -> str:
    return f"{getattr(measured.details, 'count', 0):g} of {measured.n}"


def _span(interval: Sequence[float] | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"


def _claims(agreement: Agreement) -> Table:
    columns = [
        Column("order shown", "candidate", text=True),
        Column("difference, points", lambda claim: f"{claim.value:+.2f}{_span(claim.interval, 2)}"),
        Column("only the judge right", lambda claim: claim.params["candidate_alone"]),
        Column("only the yardstick right", lambda claim: claim.params["baseline_alone"]),
        Column("p", lambda claim: probability(claim.p)),
    ]
    title = f"The judge minus the best yardstick ({agreement.names[agreement.best]})"
    note = "The best yardstick was chosen on these pairs, which favors it slightly."
    return columns_table(title, agreement.claims, columns, f"{agreement.claim().test}, two-sided. {note}")


def _preferences(agreement: Agreement) -> Table:
    metrics = {
        "correct in both orders": "both_orders",
        "same verdict in both orders": "consistency",
        "prefers the answer shown first": "first_position",
        "prefers the longer answer": "longer",
    }
    rows = []
    for words, metric in metrics.items():
        if measured := agreement.get("judge", metric):
            # Over both orders every answer is shown first once, so the annotators' rate has nothing to compare with.
            compared = metric != "first_position" or "swapped" not in agreement.names
            people = _cell(agreement, ("people", metric, "")) if compared else ""
            rows.append([words, _count(measured), _cell(agreement, ("judge", metric, "")), people])
    return Table("Order, position and length", ["judge", "verdicts", "%", "annotators, %"], rows)


def _annotators(agreement: Agreement) -> Table:
    kappas = [about for rater, metric, about in agreement.measurements if (rater, metric) == ("people", "kappa")]
    rows: dict[str, list[Key]] = {f"kappa of {pair}": [("people", "kappa", pair)] for pair in kappas}
    if kappas:
        rows[f"unanimous, of {agreement.pairs}"] = [("people", "unanimous", "")]
    if agreement.value("people", "split"):
        rows["no majority (the first annotator's label counts)"] = [("people", "split", "")]
    return _cells(agreement, "Agreement between annotators", ["", "value"], rows)


def _confusions(agreement: Agreement, orders: Mapping[str, str], labels: str) -> Iterator[Table]:
    verdicts = [*CLASSES, "no verdict"]
    for name, words in orders.items():
        rows = {f"{labels}: {each}": [(name, "confusion", f"{each}, {v}") for v in verdicts] for each in CLASSES}
        yield _cells(agreement, f"Confusion matrix, {words}", ["", *verdicts], rows)


def _win_rates(agreement: Agreement) -> Iterator[Table]:
    """The models' win rates, and how alike both sides rank the models; nothing if people made the labels."""
    rates = {
        about: measured
        for (rater, metric, about), measured in agreement.measurements.items()
        if (rater, metric) == ("people", "win_rate")
    }
    models = sorted(rates, key=lambda model: -(rates[model].value or 0.0))
    raters = [name for name in agreement.names if models and agreement.get(name, "win_rate", models[0])]
    raters.sort(key="people".__ne__)
    names = [agreement.names[name] for name in raters]
    yield _cells(
        agreement,
        "Win rates of the models",
        ["model, pairs", *names],
        {f"{model}, {rates[model].n}": [(name, "win_rate", model) for name in raters] for model in models},
        "Against the baseline, in percent. Pairs without a verdict (their number follows the slash) are left out.",
    )
    measures = ("spearman", "kendall", "mean_difference")
    compared = {
        agreement.names[name]: [(name, metric, "") for metric in measures]
        for name in raters
        if agreement.get(name, "spearman")
    }
    title = f"Win rates of {len(models)} models, compared with those by {agreement.names['people']}"
    yield _cells(
        agreement, title, ["verdicts", "Spearman", "Kendall's tau-b", "mean absolute difference, points"], compared
    )


def _groups(agreement: Agreement) -> Table:
    keys = [("listed", ACCURACY), ("judge", "both_orders"), ("judge", "consistency")]
    header = ["group, pairs", "accuracy as listed, %", "correct in both orders, %", "consistency, %"]
    kept = keys if "swapped" in agreement.names else keys[:1]
    rows = {
        f"{about}, {measured.n}": [(*key, about) for key in kept]
        for (rater, metric, about), measured in agreement.measurements.items()
        if (rater, metric) == keys[0] and about
    }
    return _cells(agreement, "By group", header[: len(kept) + 1], rows)
