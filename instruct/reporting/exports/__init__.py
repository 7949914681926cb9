"""The report's figures for other tools: LaTeX, CSV, AlpacaEval's leaderboard, a model card."""

from __future__ import annotations

import re
from pathlib import Path

from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.reporting.exports.csv_rows import csv_text, figures_rows, leaderboards, task_rows
from instruct.reporting.exports.latex import latex_tables, win_rate_tables
from instruct.reporting.exports.model_card import evaluated_model_cards
from instruct.reporting.model import ReportData
from instruct.run.directory import RunDirectory


def write_exports(run: RunDirectory, report: ReportData) -> list[Path]:
    """Write report/exports/: figures.csv, tables.tex, leaderboard-JUDGE-vs-BASELINE.csv, model-card-SYSTEM.md; of
    a run with few-shot tasks, tasks.csv.

    Each file whole or not at all. A system that the run trained has a model card: a copy of
    adapters/SYSTEM/README.md with its figures; the original is not changed.

    Returns:
        The files' paths.
    """
    folder = run.report / "exports"
    texts = {"figures.csv": csv_text(figures_rows(report)), "tables.tex": latex_tables(win_rate_tables(report))}
    if report.tasks and report.tasks.figures:
        texts["tasks.csv"] = csv_text(task_rows(report.tasks))
    for (judge, baseline), board in leaderboards(report).items():
        texts[_unique(f"leaderboard-{_stem(judge)}-vs-{_stem(baseline)}", ".csv", texts)] = csv_text(board)
    for system, text in evaluated_model_cards(run, report).items():
        texts[_unique(f"model-card-{_stem(system)}", ".md", texts)] = text
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", one_line(name, 60)).strip("-.") or "unnamed"


def _unique(stem: str, suffix: str, taken: dict[str, str]) -> str:
    """A file name that differs from all others, ignoring case."""
    lower = {name.lower() for name in taken}
    name, number = f"{stem}{suffix}", 1
    while name.lower() in lower:
        number += 1
        name = f"{stem}-{number}{suffix}"
    return name
