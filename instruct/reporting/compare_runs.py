"""Systems of one run or of several side by side: figures, whether they are comparable, differences, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from instruct.analysis.paired import Difference, paired_difference
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.reporting.comparison import rounded
from instruct.reporting.entries import Entry, entries_of
from instruct.reporting.exports.csv_table import csv_text
from instruct.reporting.figures.rankings import ranked_systems
from instruct.reporting.rankings import Ranking, Strengths, ranking_tables, rankings, strengths
from instruct.reporting.render.html import image, render
from instruct.reporting.render.markdown import table_lines as markdown_lines
from instruct.reporting.render.page import clean
from instruct.reporting.render.terminal import table_lines as terminal_lines
from instruct.reporting.tables import Table, Value, table_of
from instruct.reporting.text import escape_markdown, escape_terminal, probability, span
from instruct.run.directory import RunDirectory

_TITLE = "Systems side by side"


@dataclass(frozen=True)
class Row:
    """An entry, and the entry of the first run it is compared with: the same comparison, else one by the same judge."""

    entry: Entry
    against: Entry | None = None
    warnings: list[str] = field(default_factory=list)
    difference: Difference | None = None


@dataclass(frozen=True)
class Compared:
    """What compare_runs found: a row per comparison, rankings against a common baseline, Bradley-Terry strengths."""

    rows: list[Row]
    rankings: list[Ranking]
    strengths: list[Strengths]

    def tables(self) -> list[Table]:
        """All figures as tables."""
        return [_table(self.rows), *ranking_tables(self.rankings, self.strengths)]

    def content(self) -> dict[str, Any]:
        """All figures for programs."""
        return {
            "comparisons": [_figures(row) | {"warnings": row.warnings} for row in self.rows],
            "rankings": [asdict(each) for each in self.rankings],
            "strengths": [asdict(each) for each in self.strengths],
        }

    def warnings(self) -> list[str]:
        """Why rows may not be comparable, with their names."""
        return [
            f"{one_line(row.entry.judge, 60)}, {one_line(_label(row.entry))}: {one_line(warning, 400)}"
            for row in self.rows
            for warning in row.warnings
        ]


def compare_runs(folders: Sequence[str | Path]) -> Compared:
    """The comparisons of one run or several, judge by judge; each further run's are compared with the first's.

    Raises:
        InputError: one run with a single comparison, a run given twice, not a run or one without verdicts, or no judge
            in common.
    """
    runs = [RunDirectory(folder) for folder in folders]
    places = [run.folder.resolve() for run in runs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{runs[index].folder}: given twice; name each run once")
    names = [place.name for place in places]
    labels = [name if names.count(name) == 1 else str(run.folder) for name, run in zip(names, runs, strict=True)]
    entries = [entry for run, label in zip(runs, labels, strict=True) for entry in entries_of(run, label)]
    judges = dict.fromkeys(entry.judge for entry in entries)
    if len(runs) == 1 and not any(len([e for e in entries if e.judge == judge]) > 1 for judge in judges):
        raise InputError(
            f"{runs[0].folder}: no judge has compared two systems there; name further runs, or use `instruct report`"
        )
    if len(runs) > 1 and not any(len({entry.run for entry in entries if entry.judge == judge}) > 1 for judge in judges):
        raise InputError(f"no judge has judged in two of these runs ({', '.join(one_line(j, 60) for j in judges)})")
    rows = [_row(entry, entries, labels[0]) for judge in judges for entry in entries if entry.judge == judge]
    return Compared(rows, rankings(entries), strengths(entries))


def _row(entry: Entry, entries: Sequence[Entry], first: str) -> Row:
    candidates = [other for other in entries if other.judge == entry.judge and other.run == first]
    partial = ["judging has not finished"] if entry.comparison.partial else []
    if entry.run == first:
        return Row(entry, warnings=partial)
    if not candidates:
        return Row(entry, warnings=[f"{first} has no verdicts by this judge", *partial])
    ours = entry.comparison
    against = min(
        candidates,
        key=lambda other: (other.comparison.baseline != ours.baseline, other.comparison.candidate != ours.candidate),
    )
    same_prompts = entry.scores.keys() == against.scores.keys()
    difference = paired_difference(entry.scores, against.scores) if same_prompts else None
    return Row(entry, against, [*_differing(entry, against), *partial], difference)


def _differing(entry: Entry, other: Entry) -> list[str]:
    """Why two figures by the same judge may not be comparable."""
    found = []
    prompts = entry.scores.keys() & other.scores.keys()
    if len(prompts) < max(len(entry.scores), len(other.scores)):
        found.append(
            f"different prompts: {len(entry.scores)} and {len(other.scores)}, {len(prompts)} in common; no paired "
            "difference"
        )
    if entry.baseline_answers is None or other.baseline_answers is None:
        found.append("the baseline's answers are missing, so they may differ")
    else:
        changed = sum(entry.baseline_answers.get(p) != other.baseline_answers.get(p) for p in prompts)
        if changed:
            found.append(f"different answers of the baseline to {changed} of {counted(len(prompts), 'prompt')}")
    if entry.model != other.model:
        found.append(f"different judge model: {entry.model}, not {other.model}")
    if entry.card is None or other.card is None:
        if entry.card != other.card:
            found.append("the version of the judge's card is known for only one of the two")
    elif entry.card != other.card:
        found.append(f"different version of the judge's card: {entry.card[:12]}, not {other.card[:12]}")
    ours, theirs = entry.comparison, other.comparison
    if ours.leading != theirs.leading:
        found.append(f"different policy: {ours.leading}, not {theirs.leading}")
    if ours.orders != theirs.orders:
        found.append(f"pairs shown in different orders: {ours.orders}, not {theirs.orders}")
    return found


def _figures(row: Row) -> dict[str, Any]:
    """A row's figures by their column in the CSV."""
    ours, difference = row.entry.comparison, row.difference or Difference(0, None, None, None)
    figures = ours.leading_figures
    low, high = figures.interval or (None, None)
    difference_low, difference_high = difference.interval or (None, None)
    return {
        "judge": row.entry.judge,
        "run": row.entry.run,
        "candidate": ours.candidate,
        "baseline": ours.baseline,
        "policy": ours.leading,
        **{key: getattr(figures, key) for key in ("n_judged", "win", "tie", "loss", "unparsed", "failed")},
        "win_rate": figures.win_rate,
        "standard_error": figures.standard_error,
        "interval_low": low,
        "interval_high": high,
        "compared_with": _label(row.against) if row.against else "",
        "difference": rounded(difference.points),
        "difference_low": rounded(difference_low),
        "difference_high": rounded(difference_high),
        "difference_n": difference.n or None,
        "p": difference.p,
        "warnings": "; ".join(row.warnings),
    }


def _label(entry: Entry) -> str:
    return f"{entry.run}: {entry.comparison.candidate} against {entry.comparison.baseline}"


def _table(rows: Sequence[Row]) -> Table:
    header = ["judge", "run", "candidate", "baseline", "policy", "n", "win rate %", "std. error", "95 % CI"]
    note = (
        "Difference: win rate minus that of the first run's comparison, in points, with its 95 % bootstrap interval, "
        "over the prompts with a verdict in both; p: paired permutation test of no difference."
    )
    return Table(
        _TITLE,
        [*header, "diff.", "p"],
        [_cells(row) for row in rows],
        left=5,
        note=note,
    )


def _cells(row: Row) -> list[Value]:
    ours, difference = row.entry.comparison, row.difference
    figures = ours.leading_figures
    shown = None
    if difference is not None and difference.points is not None:
        shown = f"{difference.points:+.1f}" + (f" ({span(difference.interval)})" if difference.interval else "")
    names = [row.entry.judge, row.entry.run, ours.candidate, ours.baseline, ours.leading]
    rates = [figures.n_judged, figures.win_rate, figures.standard_error, figures.interval]
    return [*names, *rates, shown, probability(difference.p if difference else None)]


def render_table(found: Compared) -> str:
    """The comparisons for a terminal: a line each, why some may not be comparable, then the rankings."""
    first, *others = found.tables()
    warned = [f"WARNING: {escape_terminal(text, 600)}" for text in found.warnings()]
    lines = [*terminal_lines(first), *warned, "", first.note]
    for table in others:
        lines += ["", escape_terminal(table.title, 200), *(terminal_lines(table) if table.rows else []), "", table.note]
    return "\n".join(lines) + "\n"


def render_markdown(found: Compared) -> str:
    """The same as Markdown."""
    first, *others = found.tables()
    warned = [f"- Warning, {escape_markdown(text, 600)}" for text in found.warnings()]
    lines = [f"# {_TITLE}", "", *markdown_lines(first), "", *warned, *[""] * bool(warned), first.note]
    for table in others:
        lines += ["", f"## {escape_markdown(table.title, 200)}", ""]
        lines += [*markdown_lines(table), ""] if table.rows else []
        lines += [escape_markdown(table.note, 2000)]
    return "\n".join(lines) + "\n"


def render_page(found: Compared) -> str:
    """The same as one HTML file, with a figure of the rankings."""
    drawing = ranked_systems([asdict(each) for each in found.rankings])
    return render(
        "compare.html.jinja",
        "report.css",
        title=_TITLE,
        figure=image(drawing.svg()) if drawing else None,
        warnings=found.warnings(),
        tables=found.tables(),
        clean=clean,
    )


def write_comparison(found: Compared, path: str | Path) -> None:
    """Write the comparison as Markdown (FILE.md), CSV (FILE.csv) or a page (FILE.html), whole or not at all.

    Raises:
        InputError: another extension.
    """
    path = Path(path)
    renderers = {".md": render_markdown, ".html": render_page, ".csv": _csv}
    write_atomically(path, renderers[check_ending(path)](found))


def _csv(found: Compared) -> str:
    return csv_text(table_of("Runs", [_figures(row) for row in found.rows]))


def check_ending(path: str | Path) -> str:
    """The extension of a file to write: .md, .csv or .html; InputError for another."""
    ending = Path(path).suffix.lower()
    if ending not in (".md", ".csv", ".html"):
        raise InputError(f"{path}: the extension must be .md, .csv or .html; rename the file")
    return ending
