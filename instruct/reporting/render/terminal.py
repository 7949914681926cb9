"""The report as text for the terminal."""

from __future__ import annotations

from instruct.base.errors import counted
from instruct.base.output import terminal_width, wrapped
from instruct.reporting.model import Judge, ReportData
from instruct.reporting.tables import Table, policy_table
from instruct.reporting.task_tables import task_tables
from instruct.reporting.text import (
    capital,
    escape_terminal,
    evidence,
    headline,
    judge_warnings,
    kappas,
    length_control,
    majority_headline,
    probability,
    seeds_headline,
    span,
    spent,
    trust,
    unjudged,
)
from instruct.reporting.text_tables import text_tables


def render_summary(report: ReportData) -> str:
    """The report for a terminal: plain text without control characters."""
    lines = [
        f"WARNING: {escape_terminal(judge.name)}: {escape_terminal(warning, 1000)}"
        for judge in report.judges
        for warning in judge_warnings(judge)
    ]
    for judge in report.judges:
        lines += _judge(judge)
    for panel in report.panels:
        lines.append(majority_headline(panel, escape_terminal))
        lines += [f"  {kappas(agreement, escape_terminal)}" for agreement in panel.agreements]
        lines.append("")
    seeds = [seeds_headline(each, escape_terminal) for each in report.seeds]
    lines += [*seeds, ""] if seeds else []
    lines += _paired(report)
    lines += _texts(report)
    money = spent(report, escape_terminal)
    lines += [money] if money else []
    lines += [f"NOT JUDGED YET: {line}" for line in unjudged(report, escape_terminal)]
    return wrapped("\n".join(lines).rstrip()) + "\n"


def _judge(judge: Judge) -> list[str]:
    lines = []
    for comparison in judge.comparisons:
        lines.append(headline(judge, comparison, escape_terminal))
        lines += [f"  WARNING: {escape_terminal(warning)}" for warning in comparison.warnings]
        for line in (evidence(comparison), length_control(comparison)):
            lines += [f"  {escape_terminal(capital(line), 400)}"] if line else []
        missing = [each for each in comparison.reasons if each.verdict in ("unparsed", "failed")]
        lines += [f"  {each.n} x {each.verdict}: {escape_terminal(each.reason, 120)}" for each in missing[:3]]
        more = sum(each.n for each in missing[3:])
        lines += [f"  {more} more without a verdict; report.md lists the reasons"] if more else []
        lines += [f"  note: {escape_terminal(note)}" for note in comparison.notes]
    lines += [trust(judge, escape_terminal), ""]
    return [*lines, *table_lines(policy_table(judge.comparisons), 28), ""]


def _texts(report: ReportData) -> list[str]:
    """The metrics of texts, and the tests that remain significant after correction."""
    lines = (
        [f"WARNING: {escape_terminal(capital(text), 1000)}" for text in report.texts.warnings] if report.texts else []
    )
    for table in text_tables(report)[:1] + task_tables(report.tasks)[:1]:
        lines += [*table_lines(table), ""]
    return lines


def _paired(report: ReportData) -> list[str]:
    """Two systems with the same baseline, a line each."""
    lines = []
    for each in report.paired:
        if each.difference is None:
            continue
        judge, first, second, baseline = (
            escape_terminal(name, 60) for name in (each.judge, each.first, each.second, each.baseline)
        )
        interval = f"95 % CI {span(each.interval)}, " if each.interval else ""
        lines.append(
            f"{judge}: {first} minus {second}: {each.difference:+.1f} points ({interval}"
            f"p {probability(each.p)}) over {counted(each.n, 'prompt')}, both against {baseline}"
        )
    return [*lines, ""] if lines else []


def table_lines(table: Table, limit: int = 40, indent: int = 0) -> list[str]:
    """A table's lines in columns, indented; names are cut to `limit` characters.

    On a terminal that is too narrow for a row, each row becomes a column, with the header on the left.
    """
    rows = [[escape_terminal(cell, limit) for cell in row] for row in (table.header, *table.cells())]
    width = terminal_width()
    lines = _columns(rows, table.left)
    if width is not None and len(lines[0]) + indent > width:
        lines = _records(rows, width - indent)
    return [f"{'':{indent}}{line}".rstrip() for line in lines]


def _columns(rows: list[list[str]], left: int) -> list[str]:
    """The header, a rule and the rows; the first `left` columns are aligned to the left."""
    rule = ["-" * max(map(len, column)) for column in zip(*rows, strict=True)]
    return _aligned([rows[0], rule, *rows[1:]], left)


def _records(rows: list[list[str]], width: int) -> list[str]:
    """The rows as columns, as many next to each other as `width` allows, and the others below them."""
    header, *records = rows
    lines: list[str] = []
    while records:
        block = [header, records.pop(0)]
        while records and sum(max(map(len, each)) + 2 for each in (*block, records[0])) - 2 <= width:
            block.append(records.pop(0))
        lines += [*([""] if lines else []), *_aligned([list(line) for line in zip(*block, strict=True)], 1)]
    return lines


def _aligned(rows: list[list[str]], left: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
