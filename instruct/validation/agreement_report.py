"""A judge's agreement with people as tables: agreement.md, and text for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from instruct.errors import one_line
from instruct.reporting.render.text import escape_markdown
from instruct.validation.agreement import CLASSES, Agreement, Figures, Rate

Escape = Callable[[object], str]
_ORDERS = {"listed": "as listed", "swapped": "swapped", "strict": "both, else tie"}


@dataclass(frozen=True)
class Table:
    """Foreign text stands escaped in it."""

    title: str
    header: list[str]
    rows: list[list[str]]


def render_terminal(head: Sequence[str], agreement: Agreement) -> str:
    """`head`, then the tables, as plain text without control characters."""
    lines = [one_line(line, 1000) for line in head]
    for table in _tables(agreement, one_line):
        widths = [max(len(row[index]) for row in [table.header, *table.rows]) for index in range(len(table.header))]
        lines += ["", table.title]
        for row in (table.header, *table.rows):
            cells = [
                f"{cell:<{w}}" if not i else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def render_markdown(title: str, head: Sequence[str], agreement: Agreement) -> str:
    """agreement.md."""
    lines = [f"# {escape_markdown(title)}", ""]
    for line in head:
        lines += [escape_markdown(line, 1000), ""]
    for table in _tables(agreement, escape_markdown):
        lines += [f"## {table.title}", "", _row(table.header), _row(["---", *["---:"] * (len(table.header) - 1)])]
        lines += [*map(_row, table.rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tables(agreement: Agreement, escape: Escape) -> list[Table]:
    asked: dict[str, Figures] = {}
    for key, words in _ORDERS.items():
        figures: Any = agreement[key]  # type: ignore[literal-required]
        if figures is not None:
            asked[words] = figures
    tables = [_verdicts(agreement, asked, escape), _habits(agreement), _people(agreement, escape)]
    tables += [_confusion(words, figures) for words, figures in asked.items()]
    if agreement["groups"]:
        tables.append(_groups(agreement, escape))
    return [table for table in tables if table.rows]


def _verdicts(agreement: Agreement, asked: dict[str, Figures], escape: Escape) -> Table:
    def line(name: str, cell: Callable[[Figures], str]) -> list[str]:
        return [name, *map(cell, asked.values())]

    rows = [
        line("right", lambda f: f"{f['accuracy']['count']} of {f['accuracy']['n']}"),
        line("accuracy, %", lambda f: _percent(f["accuracy"])),
        line("macro precision, %", lambda f: f"{f['macro_precision']:.2f}"),
        line("macro recall, %", lambda f: f"{f['macro_recall']:.2f}"),
        line("macro F1, %", lambda f: f"{f['macro_f1']:.2f}{_span(f['macro_f1_interval'], 2)}"),
        line("kappa with the majority", lambda f: f"{_kappa(f['kappa'])}{_span(f['kappa_interval'], 3)}"),
    ]
    annotators = agreement["people"]["annotators"]
    if len(annotators) > 1:
        for index, name in enumerate(annotators):
            rows.append([f"kappa with {escape(name)}", *(_kappa(f["kappa_annotators"][index]) for f in asked.values())])
    if any(f["unparsed"] or f["failed"] for f in asked.values()):
        rows += [
            line("unparsed", lambda f: str(f["unparsed"])),
            line("failed", lambda f: str(f["failed"])),
            line("accuracy had they all been right, %", lambda f: f"{f['bounds'][1]:.2f}"),
        ]
    return Table("Verdicts against the majority of the annotators", ["order shown", *asked], rows)


def _habits(agreement: Agreement) -> Table:
    people = agreement["people"]
    # Shown in both orders, every answer stood first once: only the set's own order has a rate to compare with.
    people_first = people["first_rate"] if agreement["swapped"] is None else None
    listed: list[tuple[str, Rate | None, Rate | None]] = [
        ("right in both orders", agreement["both_orders"], None),
        ("the same verdict in both orders", agreement["consistency"], None),
        ("for the answer shown first", agreement["first_position_rate"], people_first),
        ("for the longer answer", agreement["longer_rate"], people["longer_rate"]),
    ]
    rows = [
        [name, f"{rate['count']} of {rate['n']}", _percent(rate), "" if theirs is None else _percent(theirs)]
        for name, rate, theirs in listed
        if rate is not None
    ]
    return Table("Orders, positions and length", ["verdicts", "count", "%", "people, %"], rows)


def _people(agreement: Agreement, escape: Escape) -> Table:
    people = agreement["people"]
    rows = [[f"kappa of {escape(one)} and {escape(other)}", _kappa(kappa)] for one, other, kappa in people["kappas"]]
    if rows:
        rows.append(["unanimous", f"{people['unanimous']} of {agreement['pairs']}"])
    if people["split"]:
        rows.append(["no majority: the label given first counts", str(people["split"])])
    return Table("The annotators among themselves", ["of them", "agreement"], rows)


def _confusion(words: str, figures: Figures) -> Table:
    rows = [[f"people: {label}", *map(str, row)] for label, row in zip(CLASSES, figures["confusion"], strict=True)]
    return Table(f"Confusion, {words}", ["", *CLASSES, "unread"], rows)


def _groups(agreement: Agreement, escape: Escape) -> Table:
    rows = []
    for group in agreement["groups"]:
        cells = [escape(group["group"]), str(group["pairs"]), _percent(group["accuracy"])]
        rows.append(
            [*cells, *("" if rate is None else _percent(rate) for rate in (group["both_orders"], group["consistency"]))]
        )
    header = ["group", "pairs", "accuracy as listed, %", "right in both orders, %", "consistency, %"]
    if agreement["both_orders"] is None:
        header, rows = header[:3], [row[:3] for row in rows]
    return Table("By group", header, rows)


def _percent(rate: Rate) -> str:
    return "-" if rate["percent"] is None else f"{rate['percent']:.2f}{_span(rate['interval'], 2)}"


def _span(interval: Sequence[float] | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"


def _kappa(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
