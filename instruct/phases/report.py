"""The report phase: a run's report is written, and its summary printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.output import say
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.report import Report


def print_report(folder: Path, difficulty: Difficulty | None = None) -> Report:
    """Write a run's report; print its summary and its path."""
    from instruct.reporting.report import write_report

    report = write_report(folder, difficulty).report
    print_written(report, folder)
    return report


def print_written(report: Report, folder: Path) -> None:
    """Print the summary of a run's report, and where it is."""
    from instruct.reporting.render.terminal import render_summary

    path = RunDirectory(folder).report / "report.md"
    say(render_summary(report))
    say(f"report: {path}")
    say(f"page: {path.with_suffix('.html')}")
