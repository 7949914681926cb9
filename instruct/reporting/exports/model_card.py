"""A trained system's model card with its evaluation: a section to read, and the Hub's `model-index` metadata."""

from __future__ import annotations

import re
from typing import Any

import yaml

from instruct.base.errors import one_line
from instruct.reporting.exports.tables import leading_table
from instruct.reporting.model import Comparison, Judge, ReportData
from instruct.reporting.render.markdown import table_lines
from instruct.reporting.text import escape_markdown, headline, judge_warnings, trust
from instruct.run.directory import RunDirectory

_HEADING = "## Evaluation"
# The section, up to the next of its level.
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def evaluated_model_cards(run: RunDirectory, report: ReportData) -> dict[str, str]:
    """By candidate, its model card with the judges' verdicts.

    For a system that the run trained this is adapters/SYSTEM/README.md with the metadata and the section inserted; of
    any other, only the metadata and the section.
    """
    candidates = dict.fromkeys(each.candidate for judge in report.judges for each in judge.comparisons)
    cards = {}
    for candidate in candidates:
        path = run.adapters / candidate / "README.md"
        card = (
            path.read_text(encoding="utf-8", errors="replace") if candidate in _trained(run) and path.is_file() else ""
        )
        cards[candidate] = _with_evaluation(card, report, candidate)
    return cards


def model_index(report: ReportData, candidate: str) -> list[dict[str, Any]]:
    """The Hub's model-index of a candidate (huggingface.co/docs/hub/model-cards, Papers with Code's format).

    A metric per comparison: the win rate under the leading policy in percent, with what it
    rests on as its arguments. A comparison without a rate has none.
    """
    metrics = [
        {
            "type": "win_rate",
            "name": f"win rate against {one_line(comparison.baseline, 60)}, judge {one_line(judge.name, 60)}",
            "value": round(figures.win_rate, 2),
            "args": {
                "judge_model": one_line(judge.model, 100),
                "policy": comparison.leading,
                "n": figures.n_judged,
                "without_verdict": figures.unparsed + figures.failed,
                "standard_error": figures.standard_error,
                "interval_95": figures.interval,
            },
        }
        for judge, comparison in _of(report, candidate)
        if (figures := comparison.leading_figures).win_rate is not None
    ]
    if not metrics:
        return []
    data = evaluation_set(report)
    result = {"task": {"type": "text-generation"}, "dataset": {"name": data, "type": data}, "metrics": metrics}
    return [{"name": one_line(candidate, 100), "results": [result]}]


def evaluation_section(report: ReportData, candidate: str) -> str:
    """Markdown: each comparison's headline and figures; then how far the judge can be trusted."""
    lines = [_HEADING, "", f"Answers to `{evaluation_set(report).replace('`', '')}`, judged in pairs.", ""]
    judges: dict[str, Judge] = {}
    for judge, comparison in _of(report, candidate):
        judges[judge.name] = judge
        lines += [f"- {headline(judge, comparison, escape_markdown)}"]
        lines += [f"  - Warning: {escape_markdown(warning, 400)}" for warning in comparison.warnings]
    lines += ["", *table_lines(leading_table(_of(report, candidate))), ""]
    for judge in judges.values():
        lines += [f"> **Warning:** {escape_markdown(warning, 1000)}\n" for warning in judge_warnings(judge)]
        lines += [trust(judge, escape_markdown), ""]
    return "\n".join(lines).rstrip() + "\n"


def evaluation_set(report: ReportData) -> str:
    """The name of the evaluation set that was answered; the run's name if the verdicts are from elsewhere."""
    return one_line(report.config.get("answered", report.run).partition(",")[0].partition(" (")[0], 100)


def _with_evaluation(card: str, report: ReportData, candidate: str) -> str:
    """The card with its metadata and section inserted or replaced."""
    metadata, body = _parts(card)
    index = model_index(report, candidate)
    if index:
        metadata["model-index"] = index
    front = f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n\n" if metadata else ""
    body = _SECTION.sub("", body).strip()
    return front + (f"{body}\n\n" if body else "") + evaluation_section(report, candidate)


def _parts(card: str) -> tuple[dict[str, Any], str]:
    """A card's metadata and its text; both empty if the metadata cannot be read."""
    if not card.startswith("---\n"):
        return {}, card
    head, end, body = card[4:].partition("\n---\n")
    try:
        metadata = yaml.safe_load(head)
    except yaml.YAMLError:
        return {}, ""
    return (metadata, body) if end and isinstance(metadata, dict) else ({}, "")


def _of(report: ReportData, candidate: str) -> list[tuple[Judge, Comparison]]:
    return [
        (judge, comparison)
        for judge in report.judges
        for comparison in judge.comparisons
        if comparison.candidate == candidate
    ]


def _trained(run: RunDirectory) -> set[str]:
    """The folders under adapters/: a candidate's name may be any text."""
    return {path.name for path in run.adapters.iterdir()} if run.adapters.is_dir() else set()
