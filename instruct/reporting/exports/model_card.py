"""A trained system's model card with its evaluation: a section to read, and the Hub's `model-index` metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from yaml import YAMLError

from instruct.base.errors import one_line
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.model import PolicyRow, ReportData, policy_rows
from instruct.reporting.render.markdown import escape_markdown, table_lines
from instruct.reporting.tables import Column, columns_table
from instruct.reporting.text import headline, trust
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_EMPTY = "---\n\n---\n"
_HEADING = "## Evaluation"
_COLUMNS = [
    Column("judge", "judge.name", text=True),
    Column("baseline", "comparison.baseline", text=True),
    Column("policy", text=True),
    Column("n", "figures.n_judged"),
    Column("no verdict", "figures.unread"),
    Column("win rate %", "figures.win_rate"),
    Column("std. error", "figures.standard_error"),
    Column("95 % CI", "figures.interval"),
]
# The section, up to the next of its level.
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def evaluated_model_cards(run: RunDirectory, report: ReportData) -> dict[str, str]:
    """By candidate, its model card with the judges' verdicts.

    For a system that the run trained this is adapters/SYSTEM/README.md with the metadata and the section inserted; of
    any other, only the metadata and the section.
    """
    candidates = dict.fromkeys(pair.candidate for judge in report.judges for pair in judge.comparisons)
    # A candidate's name may be any text, so it is looked up among the folders.
    trained = {path.name: path / "README.md" for path in run.adapters.iterdir()} if run.adapters.is_dir() else {}
    cards = {}
    for candidate in candidates:
        path = trained.get(candidate)
        text = path.read_text(encoding="utf-8", errors="replace") if path and path.is_file() else ""
        cards[candidate] = _with_evaluation(text, report, candidate)
    return cards


def _with_evaluation(text: str, report: ReportData, candidate: str) -> str:
    """The card with its metadata and section inserted or replaced; a card that cannot be read is left out."""
    from huggingface_hub import ModelCard

    try:
        card = ModelCard(text if text.startswith("---\n") else _EMPTY + text, ignore_metadata_errors=True)
    except (YAMLError, ValueError, TypeError):  # such as a key that YAML takes for a bool
        card = ModelCard(_EMPTY + text.partition("\n---\n")[2])
    results = _results(report, candidate)
    if results:
        card.data["model_name"], card.data["eval_results"] = one_line(candidate, 100), results
    body = _SECTION.sub("", card.text).strip()
    card.text = "\n" + (f"{body}\n\n" if body else "") + evaluation_section(report, candidate)
    return str(card) if card.data.to_dict() else card.text.lstrip()


def _results(report: ReportData, candidate: str) -> list[EvalResult]:
    """The comparisons of a candidate as the Hub's evaluation results; one without a rate has none.

    A result is the win rate under the leading policy in percent, with what it rests on as its arguments.
    """
    from huggingface_hub import EvalResult

    data = evaluation_set(report)
    return [
        EvalResult(
            task_type="text-generation",
            dataset_type=data,
            dataset_name=data,
            metric_type="win_rate",
            metric_name=f"win rate against {one_line(comparison.baseline, 60)}, judge {one_line(judge.name, 60)}",
            metric_value=round(figures.win_rate, 2),
            metric_args={
                "judge_model": one_line(judge.model, 100),
                "policy": policy,
                "n": figures.n_judged,
                "without_verdict": figures.unread,
                "standard_error": figures.standard_error,
                "interval_95": figures.interval,
            },
        )
        for judge, comparison, policy in _leading(report, candidate)
        if (figures := comparison.leading_figures).win_rate is not None
    ]


def evaluation_section(report: ReportData, candidate: str) -> str:
    """Markdown: each comparison's headline and figures; then how far the judge can be trusted."""
    lines = [_HEADING, "", f"Answers to `{evaluation_set(report).replace('`', '')}`, judged in pairs.", ""]
    rows = _leading(report, candidate)
    for judge, comparison, _ in rows:
        lines += [f"- {escape_markdown(headline(judge, comparison))}"]
        lines += [f"  - Warning: {escape_markdown(warning)}" for warning in comparison.warnings]
    lines += ["", *table_lines(columns_table("", rows, _COLUMNS)), ""]
    for judge in {row.judge.name: row.judge for row in rows}.values():
        lines += [f"> **Warning:** {escape_markdown(warning)}\n" for warning in judge_warnings(judge)]
        lines += [escape_markdown(trust(judge)), ""]
    return "\n".join(lines).rstrip() + "\n"


def evaluation_set(report: ReportData) -> str:
    """The name of the evaluation set that was answered; the run's name if the verdicts are from elsewhere."""
    return one_line(report.config.get("answered", report.run).partition(",")[0].partition(" (")[0], 100)


def _leading(report: ReportData, candidate: str) -> list[PolicyRow]:
    """A candidate's comparisons under their leading policies."""
    return [row for row in policy_rows(report.judges) if row.leads and row.comparison.candidate == candidate]
