"""Several runs side by side: the same judges' figures, whether they are comparable, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruct.analysis.paired import Difference, paired_difference
from instruct.data.evaluation import identity
from instruct.errors import InputError, one_line
from instruct.reporting.build import build
from instruct.reporting.comparison import rounded
from instruct.reporting.exports.csv_table import csv_text
from instruct.reporting.model import Comparison
from instruct.reporting.read import read_run
from instruct.reporting.render.markdown import table_lines as markdown_lines
from instruct.reporting.render.terminal import table_lines as terminal_lines
from instruct.reporting.tables import Table, Value, table_of
from instruct.reporting.text import escape_markdown, escape_terminal, probability, span
from instruct.runs import RunDirectory, write_atomically


@dataclass(frozen=True)
class Entry:
    """A comparison of one run, under the leading policy of its judge.

    `scores`: by prompt, 1 for a win, ½ for a tie, 0 for a loss, a weighted judge's grade, None without a verdict.
    `card` is the hash of the judge's card when it judged, `baseline_answers` maps prompt to answer; None: unknown.
    """

    run: str
    judge: str
    model: str
    comparison: Comparison
    scores: Mapping[str, float | None]
    card: str | None
    baseline_answers: Mapping[str, str] | None


@dataclass(frozen=True)
class Row:
    """An entry, and the entry of the first run it is compared with: the same comparison, else one by the same judge."""

    entry: Entry
    against: Entry | None = None
    warnings: list[str] = field(default_factory=list)
    difference: Difference | None = None


def compare_runs(folders: Sequence[str | Path]) -> list[Row]:
    """The comparisons of several runs, judge by judge, each run's compared with the first's.

    Raises:
        InputError: fewer than two runs, one given twice, not a run or one without verdicts, or no judge in common.
    """
    runs = [RunDirectory(folder) for folder in folders]
    if len(runs) < 2:
        raise InputError("compare takes two runs or more; `instruct report` shows one")
    places = [run.folder.resolve() for run in runs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{runs[index].folder}: given twice; name each run once")
    names = [place.name for place in places]
    labels = [name if names.count(name) == 1 else str(run.folder) for name, run in zip(names, runs, strict=True)]
    entries = [entry for run, label in zip(runs, labels, strict=True) for entry in _entries(run, label)]
    judges = dict.fromkeys(entry.judge for entry in entries)
    if not any(len({entry.run for entry in entries if entry.judge == judge}) > 1 for judge in judges):
        raise InputError(f"no judge has judged in two of these runs ({', '.join(one_line(j, 60) for j in judges)})")
    return [_row(entry, entries, labels[0]) for judge in judges for entry in entries if entry.judge == judge]


def _entries(run: RunDirectory, label: str) -> list[Entry]:
    contents = read_run(run.folder)
    built = build(contents)
    comparisons = [(judge, each) for judge in built.report.judges for each in judge.comparisons]
    found = []
    for (judge, each), outcomes in zip(comparisons, built.outcomes, strict=True):
        baseline = contents.answers.get(each.baseline)
        answers = {identity(row): row["output"] for row in baseline.rows} if baseline else None
        card = outcomes.judged.step.get("inputs", {}).get("card")
        found.append(Entry(label, judge.name, judge.model, each, outcomes.scores(outcomes.leading), card, answers))
    return found


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
            found.append(f"different answers of the baseline to {changed} of {len(prompts)} prompts")
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
        "Runs side by side",
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


def render_table(rows: Sequence[Row]) -> str:
    """The runs for a terminal: a line per comparison, then why some may not be comparable."""
    table = _table(rows)
    lines = terminal_lines(table)
    for row in rows:
        name = f"{escape_terminal(row.entry.judge, 60)}, {escape_terminal(_label(row.entry))}"
        lines += [f"WARNING: {name}: {escape_terminal(warning)}" for warning in row.warnings]
    return "\n".join([*lines, "", table.note]) + "\n"


def render_markdown(rows: Sequence[Row]) -> str:
    """The same as Markdown."""
    table = _table(rows)
    warned = [
        f"- Warning, {escape_markdown(row.entry.judge)}, {escape_markdown(_label(row.entry))}: "
        f"{escape_markdown(warning, 400)}"
        for row in rows
        for warning in row.warnings
    ]
    lines = [f"# {table.title}", "", *markdown_lines(table), "", *warned, *[""] * bool(warned), table.note]
    return "\n".join(lines) + "\n"


def write_comparison(rows: Sequence[Row], path: str | Path) -> None:
    """Write the runs side by side as Markdown (FILE.md) or CSV (FILE.csv), whole or not at all.

    Raises:
        InputError: another extension.
    """
    path = Path(path)
    csv_table = table_of("Runs", [_figures(row) for row in rows])
    write_atomically(path, csv_text(csv_table) if check_ending(path) == ".csv" else render_markdown(rows))


def check_ending(path: str | Path) -> str:
    """The extension of a file to write: .md or .csv; InputError for another."""
    ending = Path(path).suffix.lower()
    if ending not in (".md", ".csv"):
        raise InputError(f"{path}: the extension must be .md or .csv; rename the file")
    return ending
