"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from instruct.reporting.figures import TEXT_FIGURES, outcome_names
from instruct.reporting.model import Figure, Judge, ReportData
from instruct.reporting.tables import Table, comparison_tables, lineage_tables, panel_tables, report_tables
from instruct.reporting.task_tables import task_tables
from instruct.reporting.text import (
    capital,
    escape_markdown,
    evidence,
    headline,
    judge_warnings,
    kappas,
    length_control,
    majority_headline,
    seeds_headline,
    spent,
    trust,
    unjudged,
)
from instruct.reporting.text_tables import text_tables


def render_markdown(report: ReportData) -> str:
    """report.md, with links to its figures."""
    figures = {figure.name: figure for figure in report.figures}
    names = outcome_names(report.judges)
    lines = [f"# {escape_markdown(report.run)}", ""]
    for judge in report.judges:
        for warning in judge_warnings(judge):
            lines += [f"> **Warning, {escape_markdown(judge.name)}:** {escape_markdown(warning, 1000)}", ""]
    for judge in report.judges:
        lines += _opening(judge)
    for panel in report.panels:
        lines += [f"- **{majority_headline(panel, escape_markdown)}**"]
        lines += [*(f"  - {kappas(each, escape_markdown)}" for each in panel.agreements), ""]
    seeds = [f"- **{seeds_headline(each, escape_markdown)}**" for each in report.seeds]
    lines += [*seeds, ""] if seeds else []
    missing = [f"- {line}" for line in unjudged(report, escape_markdown)]
    if missing:
        lines += ["Not judged yet:", "", *missing, ""]
    money = spent(report, escape_markdown)
    lines += [f"{money}.", ""] if money else []
    lines += _shown(figures, "win_rates")
    for judge in report.judges:
        lines += _judge_section(judge, _shown(figures, names[judge.name]))
    lines += _shown(figures, "length_difference")
    for panel in report.panels:
        lines += [line for table in panel_tables(panel) for line in section(table, 2)]
    for warning in report.texts.warnings if report.texts else ():
        lines += [f"> **Warning:** {escape_markdown(warning, 1000)}", ""]
    for name in TEXT_FIGURES:
        lines += _shown(figures, name)
    for table in [*text_tables(report), *task_tables(report.tasks)]:
        lines += section(table, 2)
    for table in report_tables(report):
        lines += section(table, 2) + (_shown(figures, "answer_lengths") if table.title == "Answers" else [])
    lines += [*_shown(figures, "training"), *_shown(figures, "perplexity"), "## Lineage", ""]
    lines += [line for table in lineage_tables(report) for line in section(table)]
    return "\n".join(lines).rstrip() + "\n"


def section(table: Table, level: int = 3) -> list[str]:
    """A table under its title, followed by its note."""
    note = [escape_markdown(table.note, 2000), ""] if table.note else []
    return [f"{'#' * level} {escape_markdown(table.title)}", "", *table_lines(table), "", *note]


def table_lines(table: Table) -> list[str]:
    """A table's lines, every cell escaped."""
    rule = ["---" if index < table.left else "---:" for index in range(len(table.header))]
    rows = [[escape_markdown(cell, 400) for cell in row] for row in (table.header, *table.cells())]
    return ["| " + " | ".join(cells) + " |" for cells in (rows[0], rule, *rows[1:])]


def _opening(judge: Judge) -> list[str]:
    lines = []
    for comparison in judge.comparisons:
        lines.append(f"- **{headline(judge, comparison, escape_markdown)}**")
        for line in (evidence(comparison), length_control(comparison)):
            lines += [f"  - {escape_markdown(capital(line), 400)}"] if line else []
        lines += [f"  - Warning: {escape_markdown(warning, 400)}" for warning in comparison.warnings]
    return [*lines, "", trust(judge, escape_markdown), ""]


def _shown(figures: Mapping[str, Figure], name: str) -> list[str]:
    figure = figures.get(name)
    return [f"![{escape_markdown(figure.title)}]({figure.png})", ""] if figure else []


def _judge_section(judge: Judge, figure: list[str]) -> list[str]:
    lines = [f"## Verdicts of {escape_markdown(judge.name)}", ""]
    for word, text in (("The judge", judge.description), ("Notes", judge.notes)):
        if text:
            lines += [f"{word}: {escape_markdown(text, 1000)}", ""]
    notes = dict.fromkeys(note for comparison in judge.comparisons for note in comparison.notes)
    lines += [f"- {escape_markdown(note, 1000)}" for note in notes] + [""] * bool(notes) + figure
    return lines + [line for table in comparison_tables(judge.comparisons) for line in section(table)]
