"""`instruct.Report`, the data of report.json that can be shown; and `instruct report`: read the run, build, write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from instruct.analysis.results import SINGLE_SEEDS
from instruct.base.errors import InputError, InstructError, first_problem
from instruct.base.files import ending_of, open_to_read, write_atomically
from instruct.base.output import say
from instruct.logs.tables import SCORES
from instruct.reporting.bench import OBJECTIVES
from instruct.reporting.build import build
from instruct.reporting.document import document
from instruct.reporting.exports import claim_rows, claims_of, csv_text, write_exports
from instruct.reporting.figures import DrawnFigures, draw_figures
from instruct.reporting.length_control import Difficulty
from instruct.reporting.model import SCHEMA_VERSION, ReportData, compared_by
from instruct.reporting.read import RunContents, read_run
from instruct.reporting.render.lines import render_markdown, render_terminal
from instruct.reporting.render.page import packed_pairs, render_page, write_page
from instruct.reporting.scores import score_rows
from instruct.reporting.text import claim_headline, headline
from instruct.run.directory import RunDirectory
from instruct.scores.claims import of_family


class Report(ReportData):
    """A report, for programs to read and to show: the data of report.json, and what renders them."""

    @classmethod
    def of(cls, data: ReportData) -> Self:
        """The report of these data."""
        return cls.model_construct(**dict(data))

    def model_post_init(self, _: Any) -> None:
        """`figures` also gives the figures by name, to show or to save: `report.figures["win_rates"]`."""
        self.figures = DrawnFigures(self)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The report in a run directory, or in a report.json.

        Raises:
            InputError: there is none, or another version wrote it.
        """
        path = Path(path).expanduser()
        file = path / "report" / "report.json" if path.is_dir() else path
        again = "write it again: instruct report RUN"
        try:
            with open_to_read(file) as content:
                report = cls.model_validate_json(content.read(), strict=True)
            json.dumps(report.model_dump(), allow_nan=False)
        except FileNotFoundError:
            raise InputError(f"{file}: no such file; write the report first: instruct report RUN") from None
        except ValidationError as error:
            raise InputError(f"{file}: is not a report of this version ({first_problem(error)}); {again}") from None
        except ValueError:
            raise InputError(f"{file}: has a number that is not finite; {again}") from None
        if report.schema_version != SCHEMA_VERSION:
            raise InputError(f"{file}: has schema_version {report.schema_version}, not {SCHEMA_VERSION}; {again}")
        return report

    def write(self, path: str | Path) -> None:
        """Write the report as FILE.json, FILE.md or FILE.html, whole or not at all.

        A run's own report.html also has the figures and the pairs to read, which a report does not hold.

        Raises:
            InputError: another extension, or a place that cannot be written.
        """
        path = Path(path).expanduser()
        renderers = {".json": self.to_json, ".md": self.to_markdown, ".html": self.to_html}
        write_atomically(path, renderers[ending_of(path, renderers)]())

    def to_json(self) -> str:
        """The text of report.json."""
        return json.dumps(self.model_dump(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """The text of report.md: what a pull request or a message needs to say. The page has every number."""
        return render_markdown(document(self))

    def to_html(self) -> str:
        """The report as a page of its own, without the run's figures and pairs."""
        return render_page(self, {}, None)

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each claim: what `pandas.DataFrame` takes, and claims.csv has."""
        return claim_rows(claims_of(self))

    def headlines(self) -> list[str]:
        """Who won, by how much and how certainly: a sentence per judge and claim.

        Systems trained with several seeds are compared over all of them; single seeds have no sentence here.
        """
        said = [
            *(claim_headline(each) for each in of_family(self.claims, OBJECTIVES) if each.value is not None),
            *map(claim_headline, self.seeds),
            *(headline(each) for _, each in compared_by(self.judges) if each.claim.family != SINGLE_SEEDS),
        ]
        return list(dict.fromkeys(said))

    def warnings(self) -> list[str]:
        """What changes the claims that the headlines make: a sentence per warning, with what it is about."""
        return document(self).claims_changed()

    def __str__(self) -> str:
        """The summary that the command prints."""
        return render_terminal(document(self))


def _built(contents: RunContents, difficulty: Difficulty | None) -> ReportData:
    """The report of a run; InputError for records in its manifest that it cannot hold."""
    try:
        return build(contents, difficulty)
    except ValidationError as error:
        problem = f"{error.title}.{first_problem(error)}"
        raise InputError(f"{contents.run.manifest_path}: {problem}; restore it or delete the run") from None


class WrittenReport(NamedTuple):
    """A report, and the path of its report.md."""

    report: Report
    path: Path


def write_report(run_folder: str | Path, difficulty: Difficulty | None = None) -> WrittenReport:
    """Write report/report.{json,html,md}, figures/*.{svg,pdf} and exports/, of a bench also scores.csv; each file whole
    or not at all.

    The run keeps the difficulties: later reports need not be given them again.

    The same run gives the same bytes.

    Raises:
        InputError: not a run directory, nothing judged in it, or a difficulty file that does not fit.
    """
    contents = read_run(run_folder)
    run = contents.run
    report = Report.of(_built(contents, difficulty))
    draw_figures(report, run.report)
    write_atomically(run.report / "report.json", report.to_json())
    write_page(run, report, packed_pairs(contents.by_judge))
    path = run.report / "report.md"
    write_atomically(path, report.to_markdown())
    write_exports(run, report)
    if report.bench:
        write_atomically(run.report / SCORES, csv_text([*score_rows(contents)]))
    if difficulty and any(pair.length_control for _, pair in compared_by(report.judges)):
        difficulty.keep(run)
    return WrittenReport(report, path)


def build_report(run_folder: str | Path, difficulty: Difficulty | None = None) -> Report:
    """The report of a run, without writing it; raises as write_report."""
    return Report.of(_built(read_run(run_folder), difficulty))


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
