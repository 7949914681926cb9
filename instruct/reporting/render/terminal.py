"""The report as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.reporting.render.text import (
    escape_terminal,
    evidence,
    headline,
    judge_warnings,
    kappas,
    length_control,
    majority_headline,
    number,
    probability,
    span,
    spent,
    trust,
    unjudged,
)
from instruct.reporting.schema import Judge, Report


def render_summary(report: Report) -> str:
    """The report for a terminal: plain text without control characters, and without brackets that rich would read."""
    lines = [
        f"WARNING: {escape_terminal(judge['name'])}: {escape_terminal(warning, 1000)}"
        for judge in report["judges"]
        for warning in judge_warnings(judge)
    ]
    for judge in report["judges"]:
        lines += _judge(judge)
    for panel in report["panels"]:
        lines.append(majority_headline(panel, escape_terminal))
        lines += [f"  {kappas(agreement, escape_terminal)}" for agreement in panel["agreements"]]
        lines.append("")
    lines += _paired(report)
    money = spent(report, escape_terminal)
    lines += [money] if money else []
    lines += [f"NOT JUDGED YET: {line}" for line in unjudged(report, escape_terminal)]
    return "\n".join(lines).rstrip() + "\n"


def _judge(judge: Judge) -> list[str]:
    lines = []
    for comparison in judge["comparisons"]:
        lines.append(headline(judge, comparison, escape_terminal))
        lines += [f"  WARNING: {escape_terminal(warning)}" for warning in comparison["warnings"]]
        for line in (evidence(comparison), length_control(comparison)):
            lines += [f"  {escape_terminal(line)}"] if line else []
        missing = [each for each in comparison["reasons"] if each["verdict"] in ("unparsed", "failed")]
        lines += [f"  {each['n']} x {each['verdict']}: {escape_terminal(each['reason'], 120)}" for each in missing[:3]]
        more = sum(each["n"] for each in missing[3:])
        lines += [f"  {more} more without a verdict, for reasons that report.md names"] if more else []
        lines += [f"  note: {escape_terminal(note)}" for note in comparison["notes"]]
    lines += [trust(judge, escape_terminal), ""]
    header = ["candidate", "baseline", "policy", "win", "tie", "loss", "unread", "win rate", "std. err."]
    rows = []
    for comparison in judge["comparisons"]:
        for policy, figures in comparison["policies"].items():
            names = [escape_terminal(comparison["candidate"], 28), escape_terminal(comparison["baseline"], 28), policy]
            counts = [figures["win"], figures["tie"], figures["loss"], figures["unparsed"] + figures["failed"]]
            rows.append([*names, *map(str, counts), number(figures["win_rate"]), number(figures["standard_error"])])
    return [*lines, *columns(header, rows, left=3), ""]


def _paired(report: Report) -> list[str]:
    """Two systems with one baseline, a line each."""
    lines = []
    for each in report["paired"]:
        if each["difference"] is None:
            continue
        judge, first, second = (escape_terminal(each[key], 60) for key in ("judge", "first", "second"))
        lines.append(
            f"{judge}: {first} minus {second}: {each['difference']:+.1f} points ({span(each['interval'])}, "
            f"p {probability(each['p'])}) over {each['n']} prompts against {escape_terminal(each['baseline'], 60)}"
        )
    return [*lines, ""] if lines else []


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """A table's lines; its first `left` columns are text, the others numbers."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:<{w}}" if i < left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return [line(header), line(["-" * width for width in widths]), *map(line, rows)]
