"""Agreement with human labels as tables: agreement.md, and plain text for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from instruct.base.errors import one_line
from instruct.reporting.render.lines import escape_markdown, markdown_section, terminal_table
from instruct.reporting.tables import Table
from instruct.reporting.text import probability
from instruct.validation.agreement import COIN
from instruct.validation.rates import CLASSES, Rate, Record

ORDERS = {
    "listed": "as listed",
    "swapped": "swapped",
    "strict": "both orders, else tie",
    "averaged": "both orders, averaged",
}


def render_terminal(head: Sequence[str], agreement: Record) -> str:
    """`head`, then the tables, as plain text without control characters."""
    lines = [one_line(line, 1000) for line in head]
    for table in _tables(agreement):
        lines += ["", table.title, *terminal_table(table, 80, indent=2)]
    return "\n".join(lines) + "\n"


def render_markdown(title: str, head: Sequence[str], agreement: Record) -> str:
    """agreement.md."""
    lines = [f"# {escape_markdown(title)}", ""]
    for line in head:
        lines += [escape_markdown(line, 1000), ""]
    for table in _tables(agreement):
        lines += markdown_section(table, 2)
    return "\n".join(lines).rstrip() + "\n"


def _tables(agreement: Record) -> list[Table]:
    by_order: dict[str, Record] = {words: agreement[key] for key, words in ORDERS.items() if agreement[key] is not None}
    labels = "label" if "win_rates" in agreement else "human"
    confusions = [_confusion(words, labels, figures) for words, figures in by_order.items()]
    yardsticks = [_yardsticks(agreement["yardsticks"]), _by_length(agreement), _paired(agreement["yardsticks"])]
    tables = [
        _verdicts(agreement, by_order),
        *yardsticks,
        *_win_rates(agreement),
        _preferences(agreement),
        _annotators(agreement),
        *confusions,
    ]
    return [table for table in [*tables, _groups(agreement)] if table.rows]


def _verdicts(agreement: Record, by_order: dict[str, Record]) -> Table:
    def row(name: str, cell: Callable[[Record], str]) -> list[str]:
        return [name, *map(cell, by_order.values())]

    rows = [
        row("correct", lambda f: f"{f['accuracy']['count']} of {f['accuracy']['n']}"),
        row("accuracy, %", lambda f: _percent(f["accuracy"])),
        row("macro precision, %", lambda f: _figure(f["macro_precision"])),
        row("macro recall, %", lambda f: _figure(f["macro_recall"])),
        row("macro F1, %", lambda f: _figure(f["macro_f1"], f["macro_f1_interval"])),
        row("kappa with the majority", lambda f: _kappa(f["kappa"], f["kappa_interval"])),
    ]
    annotators = agreement["people"]["annotators"]
    if len(annotators) > 1:
        by_annotator = zip(annotators, *(f["kappa_annotators"] for f in by_order.values()), strict=True)
        rows += [[f"kappa with {name}", *map(_kappa, kappas)] for name, *kappas in by_annotator]
    if any(f["unparsed"] or f["failed"] for f in by_order.values()):
        rows += [
            row("unparsed", lambda f: str(f["unparsed"])),
            row("failed", lambda f: str(f["failed"])),
            row("best-case accuracy (all of these correct), %", lambda f: _figure(f["bounds"][1])),
        ]
    labels = "the labels" if "win_rates" in agreement else "the annotators' majority"
    return Table(f"Verdicts compared with {labels}", ["order shown", *by_order], rows)


def _yardsticks(yardsticks: Record) -> Table:
    judge = {f"the judge, {ORDERS[way]}": agreeing for way, agreeing in yardsticks["judge"].items()}
    rows = [
        [
            name,
            "expected" if name == COIN else str(agreeing["accuracy"]["count"]),
            _percent(agreeing["accuracy"]),
            _kappa(agreeing["kappa"]),
            _figure(agreeing["decided"], agreeing["decided_interval"]),
        ]
        for name, agreeing in (judge | yardsticks["yardsticks"]).items()
    ]
    header = ["verdicts", "correct", "accuracy, %", "kappa", f"of {yardsticks['decided_pairs']} decided pairs, %"]
    note = (
        "Verdicts that cost nothing, on the same pairs. Longer and shorter go by characters, and equal lengths are a "
        "tie; first and second are the set's own order. Decided pairs: those whose label is not a tie; a tie is half "
        "right."
    )
    return Table("The judge and its yardsticks", header, rows, note=note)


def _by_length(agreement: Record) -> Table:
    by_length = agreement["yardsticks"]["by_length"]
    rows = [
        [f"the {better} answer", str(rates["listed"]["n"]), *map(_percent, rates.values())]
        for better, rates in by_length.items()
        if rates["listed"]["n"]
    ]
    header = ["better by the label", "pairs", *(f"{ORDERS[key]}, %" for key in by_length["shorter"])]
    note = "Decided pairs with answers of different length. Who goes by length is right on the longer ones alone."
    return Table("Accuracy by which answer is better", header, rows, note=note)


def _paired(yardsticks: Record) -> Table:
    rows = [
        [
            ORDERS[key],
            f"{paired['difference']:+.2f}{_span(paired['interval'], 2)}",
            str(paired["judge_alone"]),
            str(paired["yardstick_alone"]),
            probability(paired["p"]),
        ]
        for key, paired in yardsticks["paired"].items()
    ]
    header = ["order shown", "difference, points", "only the judge right", "only the yardstick right", "McNemar's p"]
    note = (
        "McNemar's exact test, two-sided. The best yardstick was chosen on these pairs, which favors it slightly; the "
        "coin's expected accuracy is never above the better one of always first and always second."
    )
    return Table(f"The judge minus the best yardstick ({yardsticks['best']})", header, rows, note=note)


def _preferences(agreement: Record) -> Table:
    people = agreement["people"]
    # Over both orders every answer is shown first once, so the annotators' rate has nothing to be compared with.
    people_first = people["first_rate"] if agreement["swapped"] is None else None
    rates: list[tuple[str, Rate | None, Rate | None]] = [
        ("correct in both orders", agreement["both_orders"], None),
        ("same verdict in both orders", agreement["consistency"], None),
        ("prefers the answer shown first", agreement["first_position_rate"], people_first),
        ("prefers the longer answer", agreement["longer_rate"], people["longer_rate"]),
    ]
    rows = [
        [name, f"{rate['count']} of {rate['n']}", _percent(rate), _percent(human) if human else ""]
        for name, rate, human in rates
        if rate is not None
    ]
    return Table("Order, position and length", ["judge", "verdicts", "%", "annotators, %"], rows)


def _annotators(agreement: Record) -> Table:
    people = agreement["people"]
    rows = [[f"kappa of {one} and {other}", _kappa(kappa)] for one, other, kappa in people["kappas"]]
    if rows:
        rows.append(["unanimous", f"{people['unanimous']} of {agreement['pairs']}"])
    if people["split"]:
        rows.append(["no majority (the first annotator's label counts)", str(people["split"])])
    return Table("Agreement between annotators", ["", "value"], rows)


def _confusion(words: str, labels: str, figures: Record) -> Table:
    rows = [[f"{labels}: {label}", *map(str, row)] for label, row in zip(CLASSES, figures["confusion"], strict=True)]
    return Table(f"Confusion matrix, {words}", ["", *CLASSES, "no verdict"], rows)


def _win_rates(agreement: Record) -> list[Table]:
    """The models' win rates, and how alike both sides rank the models; [] if people made the labels."""
    if "win_rates" not in agreement:
        return []
    win_rates = agreement["win_rates"]
    ways = list(win_rates["models"][0]["verdicts"])
    names = [ORDERS.get(way, way) for way in ways]
    labels_by = agreement["people"]["annotators"][0]
    rates = [
        [model["model"], str(model["pairs"]), f"{model['labels']:.2f}", *(_rate(model, way) for way in ways)]
        for model in win_rates["models"]
    ]
    correlations = [
        [
            ORDERS.get(way, way),
            _kappa(correlation["spearman"], correlation["spearman_interval"]),
            _kappa(correlation["kendall"], correlation["kendall_interval"]),
            _figure(correlation["difference"], correlation["difference_interval"]),
        ]
        for way, correlation in win_rates["correlations"].items()
    ]
    missing = any(count for model in win_rates["models"] for count in model["no_verdict"].values())
    note = "Against the baseline, in percent. Pairs without a verdict (their number follows the slash) are left out."
    return [
        Table("Win rates of the models", ["model", "pairs", labels_by, *names], rates, note=note if missing else ""),
        Table(
            f"Win rates of {len(rates)} models, compared with those by {labels_by}",
            ["verdicts", "Spearman", "Kendall's tau-b", "mean absolute difference, points"],
            correlations,
            note="Parentheses: 95 % bootstrap intervals over models, from five models on.",
        ),
    ]


def _rate(model: Record, way: str) -> str:
    rate, missing = model["verdicts"][way], model["no_verdict"][way]
    return _figure(rate) + (f" / {missing}" if missing else "")


def _groups(agreement: Record) -> Table:
    header = ["group", "pairs", "accuracy as listed, %", "correct in both orders, %", "consistency, %"]
    rows = []
    for group in agreement["groups"]:
        rates = [group["accuracy"], group["both_orders"], group["consistency"]]
        rows.append([group["group"], str(group["pairs"]), *(_percent(rate) for rate in rates if rate is not None)])
    return Table("By group", header[: len(rows[0])] if rows else header, rows)


def _percent(rate: Rate) -> str:
    return _figure(rate["percent"], rate["interval"])


def _figure(value: float | None, interval: Sequence[float] | None = None) -> str:
    return "-" if value is None else f"{value:.2f}{_span(interval, 2)}"


def _kappa(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A kappa or a correlation."""
    return "-" if value is None else f"{value:.4f}{_span(interval, 3)}"


def _span(interval: Sequence[float] | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
