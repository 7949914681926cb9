"""The report as text for the terminal."""

from __future__ import annotations

from instruct.reporting.model import Judge, Report
from instruct.reporting.tables import Table, policy_table
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


def render_summary(report: Report) -> str:
    """The report for a terminal: plain text without control characters, and without brackets that rich would read."""
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
    money = spent(report, escape_terminal)
    lines += [money] if money else []
    lines += [f"NOT JUDGED YET: {line}" for line in unjudged(report, escape_terminal)]
    return "\n".join(lines).rstrip() + "\n"


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


def _paired(report: Report) -> list[str]:
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
            f"p {probability(each.p)}) over {each.n} prompts, both against {baseline}"
        )
    return [*lines, ""] if lines else []


def table_lines(table: Table, limit: int = 40) -> list[str]:
    """A table's lines in columns; names are cut to `limit` characters."""
    rows = [[escape_terminal(cell, limit) for cell in row] for row in (table.header, *table.cells())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: list[str]) -> str:
        padded = [
            f"{cell:<{w}}" if i < table.left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return [line(rows[0]), line(["-" * width for width in widths]), *map(line, rows[1:])]
