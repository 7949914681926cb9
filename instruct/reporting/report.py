"""`instruct report`: read the run once, build the report, write it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from instruct.base.files import write_atomically
from instruct.reporting.build import build
from instruct.reporting.exports import write_exports
from instruct.reporting.figures import draw_figures
from instruct.reporting.length_control import Difficulty, keep_difficulty
from instruct.reporting.model import Report
from instruct.reporting.read import read_run
from instruct.reporting.render.markdown import render_markdown
from instruct.reporting.render.page import write_page
from instruct.reporting.render.page_pairs import packed_pairs


class WrittenReport(NamedTuple):
    """A report, and the path of its report.md."""

    report: Report
    path: Path


def write_report(run_folder: str | Path, difficulty: Difficulty | None = None) -> WrittenReport:
    """Write report/report.{json,html,md}, figures/*.{png,svg} and exports/; each file whole or not at all.

    The run keeps the difficulties: later reports need not be given them again.

    The same run gives the same bytes, and an unchanged figure is not drawn again.

    Raises:
        InputError: not a run directory, nothing judged in it, or a difficulty file that does not fit.
    """
    contents = read_run(run_folder)
    run = contents.run
    built = build(contents, difficulty)
    report = built.report
    draw_figures(report, run.report)
    write_atomically(run.report / "report.json", report.to_json())
    write_exports(run, report)
    write_page(run, report, packed_pairs(built.outcomes, contents.answers))
    path = run.report / "report.md"
    write_atomically(path, render_markdown(report))
    if difficulty and any(each.length_control for judge in report.judges for each in judge.comparisons):
        keep_difficulty(run, difficulty)
    return WrittenReport(report, path)


def build_report(run_folder: str | Path, difficulty: Difficulty | None = None) -> Report:
    """The report of a run, without writing it; raises as write_report."""
    return build(read_run(run_folder), difficulty).report
