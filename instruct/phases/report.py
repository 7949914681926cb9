"""The report phase: a run's report is written, and its summary printed."""

from __future__ import annotations

from pathlib import Path

from instruct.base.errors import InputError, InstructError
from instruct.base.output import say
from instruct.reporting.length_control import Difficulty
from instruct.reporting.report import Report, write_report
from instruct.run.directory import RunDirectory


def written_report(folder: Path, difficulty: Difficulty | None = None, failure: InstructError | None = None) -> Report:
    """Write a run's report, a partial one if `failure` ended the judging.

    Raises:
        InstructError: `failure`, if there is nothing to report.
        InputError: there is nothing to report, and nothing failed.
    """
    try:
        return write_report(folder, difficulty).report
    except InputError as error:
        raise failure or error from None


def print_written(report: Report, folder: Path) -> None:
    """Print the summary of a run's report, and where it is."""
    path = RunDirectory(folder).report / "report.md"
    say(str(report))
    say(f"report: {path}")
    say(f"page: {path.with_suffix('.html')}")
