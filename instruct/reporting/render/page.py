"""report.html: the report and its pairs as one file that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.reporting.document import Block, Brief, Caution, Listing, Paragraph, Section, Verdict, document
from instruct.reporting.model import ReportData
from instruct.reporting.render.html import escaped_json, image, render
from instruct.reporting.tables import Table
from instruct.reporting.text import capital
from instruct.run.directory import RunDirectory

Kind = TypeVar("Kind")


def write_page(run: RunDirectory, report: ReportData, pairs: str) -> None:
    """Write report/report.html next to the report's other files, with its figures and pairs.

    Args:
        pairs: as in render_page.
    """
    write_atomically(run.report / "report.html", render_page(report, page_figures(report, run.report), pairs))


def render_page(report: ReportData, figures: Mapping[str, Path], pairs: str | None) -> str:
    """report.html.

    The page's policy (Content-Security-Policy) allows its own style sheet and script by their hashes, and embedded
    images: nothing else runs, and nothing is loaded. Names are escaped; prompts, answers and replies come as JSON and
    are shown with `textContent` only.

    Args:
        figures: a figure's title to its SVG file; shown as an image, in which nothing can run.
        pairs: what page_pairs.packed_pairs made, in the order of the report's comparisons; None: a page without them.
    """
    shown = document(report)
    verdicts = _of_kind(Verdict, shown.opening)
    briefs = [brief.content for brief in _of_kind(Brief, shown.opening)]
    # Without verdicts the first screen has the tables that a terminal has.
    leading = [] if verdicts else [content for content in briefs if isinstance(content, Table)]
    return render(
        "report.html.jinja",
        "report.css",
        "report.js",
        run=shown.title,
        created=one_line(report.created)[:10],
        verdicts=verdicts,
        listings=_of_kind(Listing, shown.opening),
        warnings=[block.warning.text for block in _of_kind(Caution, shown.opening) if not block.about],
        judges=[
            paragraphs for part in _of_kind(Section, shown.numbers) if (paragraphs := _of_kind(Paragraph, part.blocks))
        ],
        paragraphs=[block.text for block in _of_kind(Paragraph, shown.opening) if not block.about],
        figures={one_line(title): image(path.read_text(encoding="utf-8")) for title, path in figures.items()},
        leading=leading,
        tables=[table for table in _of_kind(Table, shown.numbers) if table not in leading],
        lineage=shown.lineage,
        version=one_line(report.versions.get("instruct", "")),
        # The names go with the pairs: the script shows them with the texts.
        data=_json(verdicts, pairs) if pairs is not None and verdicts else None,
        clean=one_line,
        capital=capital,
    )


def _of_kind(kind: type[Kind], blocks: Iterable[Block]) -> list[Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def page_figures(report: ReportData, folder: Path) -> dict[str, Path]:
    """The report's figures by title; missing files are left out."""
    files = {figure.title: folder / figure.svg for figure in report.figures}
    return {title: path for title, path in files.items() if path.is_file()}


def _json(verdicts: list[Verdict], pairs: str) -> str:
    names = [{key: getattr(verdict, key) for key in ("judge", "candidate", "baseline")} for verdict in verdicts]
    return escaped_json({"names": names, "packed": pairs})
