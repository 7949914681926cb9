"""Several runs side by side: the same judges' figures, how far they may be compared, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruct.analysis.paired import Difference, paired_difference
from instruct.data.evaluation import load_answers
from instruct.errors import InputError, one_line
from instruct.judging import comparison as judging
from instruct.judging.store import JudgmentStore
from instruct.reporting.comparison import results_under, rounded
from instruct.reporting.exports.csv_table import csv_text
from instruct.reporting.judges import card_of
from instruct.reporting.render.terminal import columns
from instruct.reporting.render.text import escape_markdown, escape_terminal, number, probability, span
from instruct.reporting.report import answer_files, build_report
from instruct.reporting.schema import Comparison
from instruct.runs import RunDirectory, write_atomically


@dataclass(frozen=True)
class Entry:
    """A comparison of one run, under the leading policy of its judge.

    `scores`: by prompt, 1 for a win, ½ for a tie, 0 for a loss, between for a weighted judge, None without a verdict.
    `card` is the hash of the judge's card when it judged, `baseline_answers` maps prompt to answer; None: not known.
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
    """An entry, and what it is held against: the first run's same comparison, else its first with the same judge."""

    entry: Entry
    against: Entry | None = None
    warnings: list[str] = field(default_factory=list)
    difference: Difference | None = None


def compare_runs(folders: Sequence[str | Path]) -> list[Row]:
    """The comparisons of several runs, judge by judge, each run's held against the first's.

    Raises:
        InputError: less than two runs, one given twice, one that is none or holds no verdicts, or no judge in common.
    """
    runs = [RunDirectory(folder) for folder in folders]
    if len(runs) < 2:
        raise InputError("compare takes two runs or more; `instruct report` shows one")
    places = [run.folder.resolve() for run in runs]
    for number_, place in enumerate(places):
        if place in places[:number_]:
            raise InputError(f"{runs[number_].folder}: is given twice; name each run once")
    names = [place.name for place in places]
    labels = [name if names.count(name) == 1 else str(run.folder) for name, run in zip(names, runs, strict=True)]
    entries = [entry for run, label in zip(runs, labels, strict=True) for entry in _entries(run, label)]
    judges = dict.fromkeys(entry.judge for entry in entries)
    if not any(len({entry.run for entry in entries if entry.judge == judge}) > 1 for judge in judges):
        raise InputError(f"no judge has judged in two of these runs ({', '.join(one_line(j, 60) for j in judges)})")
    return [_row(entry, entries, labels[0]) for judge in judges for entry in entries if entry.judge == judge]


def _entries(run: RunDirectory, label: str) -> list[Entry]:
    report, manifest = build_report(run.folder), run.manifest()
    files = answer_files(run, manifest)
    found = []
    with JudgmentStore(run.store) as store:
        for judge in report["judges"]:
            for each in judge["comparisons"]:
                key = judging.Comparison(judge["name"], each["candidate"], each["baseline"])
                step = key.record(manifest)
                card, _ = card_of(judge["name"], step)
                scores = {
                    pair.instruction: pair.score
                    for pair in results_under(card, store.judgments(key), each["leading"])  # type: ignore[arg-type]
                }
                baseline = files.get(each["baseline"])
                answers = {row["instruction"]: row["output"] for row in load_answers(baseline)} if baseline else None
                digest = step.get("inputs", {}).get("card")
                found.append(Entry(label, judge["name"], judge["model"], each, scores, digest, answers))
    return found


def _row(entry: Entry, entries: Sequence[Entry], first: str) -> Row:
    candidates = [other for other in entries if other.judge == entry.judge and other.run == first]
    if entry.run == first:
        return Row(entry, warnings=_of_itself(entry))
    if not candidates:
        return Row(entry, warnings=[f"{first} has no verdicts of this judge", *_of_itself(entry)])
    ours = entry.comparison
    against = min(
        candidates,
        key=lambda other: (
            other.comparison["baseline"] != ours["baseline"],
            other.comparison["candidate"] != ours["candidate"],
        ),
    )
    same_prompts = entry.scores.keys() == against.scores.keys()
    return Row(
        entry,
        against,
        [*_not_alike(entry, against), *_of_itself(entry)],
        paired_difference(entry.scores, against.scores) if same_prompts else None,
    )


def _of_itself(entry: Entry) -> list[str]:
    return ["judging has not finished"] if entry.comparison["partial"] else []


def _not_alike(entry: Entry, other: Entry) -> list[str]:
    """Why two figures of a judge may not be compared."""
    found = []
    common = len(entry.scores.keys() & other.scores.keys())
    if common < max(len(entry.scores), len(other.scores)):
        found.append(
            f"other prompts: {len(entry.scores)} against {len(other.scores)}, {common} in common; no paired difference"
        )
    prompts = entry.scores.keys() & other.scores.keys()
    if entry.baseline_answers is None or other.baseline_answers is None:
        found.append("the baseline's answers are not at hand: whether they are the same is not known")
    else:
        changed = sum(entry.baseline_answers.get(p) != other.baseline_answers.get(p) for p in prompts)
        if changed:
            found.append(f"other answers of the baseline to {changed} of {len(prompts)} prompts")
    if entry.model != other.model:
        found.append(f"another judge's model: {entry.model}, not {other.model}")
    if entry.card is None or other.card is None:
        if entry.card != other.card:
            found.append("the version of the judge's card is known for one of the two alone")
    elif entry.card != other.card:
        found.append(f"another version of the judge's card: {entry.card[:12]}, not {other.card[:12]}")
    ours, theirs = entry.comparison, other.comparison
    for what in ("leading", "orders"):
        if ours[what] != theirs[what]:
            name = {"leading": "policy", "orders": "order of showing"}[what]
            found.append(f"another {name}: {ours[what]}, not {theirs[what]}")
    return found


def _cells(row: Row) -> dict[str, Any]:
    """A row's figures by their column."""
    ours = row.entry.comparison
    figures = ours["policies"][ours["leading"]]
    difference = row.difference if row.difference and row.difference.n else None
    low, high = figures["interval"] or (None, None)
    return {
        "judge": row.entry.judge,
        "run": row.entry.run,
        "candidate": ours["candidate"],
        "baseline": ours["baseline"],
        "policy": ours["leading"],
        **{key: figures[key] for key in ("n_judged", "win", "tie", "loss", "unparsed", "failed")},
        "win_rate": figures["win_rate"],
        "standard_error": figures["standard_error"],
        "interval_low": low,
        "interval_high": high,
        "held_against": _label(row.against) if row.against else "",
        "difference": rounded(difference.points) if difference else None,
        "difference_low": round(difference.interval[0], 6) if difference and difference.interval else None,
        "difference_high": round(difference.interval[1], 6) if difference and difference.interval else None,
        "difference_n": difference.n if difference else None,
        "p": difference.p if difference else None,
        "warnings": "; ".join(row.warnings),
    }


def _label(entry: Entry) -> str:
    return f"{entry.run}: {entry.comparison['candidate']} against {entry.comparison['baseline']}"


_HEADER = [
    "judge",
    "run",
    "candidate",
    "baseline",
    "policy",
    "n",
    "win rate",
    "std. err.",
    "95 % interval",
    "diff.",
    "p",
]


def _shown(row: Row) -> list[str]:
    cells = _cells(row)
    figures = row.entry.comparison["policies"][row.entry.comparison["leading"]]
    difference = row.difference
    shown = "-"
    if difference is not None and difference.points is not None:
        shown = f"{difference.points:+.1f}" + (f" ({span(difference.interval)})" if difference.interval else "")
    return [
        *(str(cells[key]) for key in ("judge", "run", "candidate", "baseline", "policy", "n_judged")),
        number(figures["win_rate"]),
        number(figures["standard_error"]),
        span(figures["interval"]),
        shown,
        probability(difference.p if difference else None),
    ]


_MEANING = (
    "Difference: win rate less that of the first run's comparison, in points, with its 95 % interval, over the prompts "
    "on which both have a verdict; p: paired permutation test of no difference."
)


def render_table(rows: Sequence[Row]) -> str:
    """The runs for a terminal: a line a comparison, then why some may not be compared."""
    shown = [[escape_terminal(cell, 40) for cell in _shown(row)] for row in rows]
    lines = columns(_HEADER, shown, left=5)
    for row in rows:
        lines += [
            f"WARNING: {escape_terminal(row.entry.judge, 60)}, {escape_terminal(_label(row.entry))}: "
            f"{escape_terminal(warning)}"
            for warning in row.warnings
        ]
    return "\n".join([*lines, "", _MEANING]) + "\n"


def render_markdown(rows: Sequence[Row]) -> str:
    """The same as Markdown."""
    lines = ["# Runs side by side", ""]
    lines += ["| " + " | ".join(_HEADER) + " |", "|" + " --- |" * 5 + " ---: |" * (len(_HEADER) - 5)]
    lines += ["| " + " | ".join(map(escape_markdown, _shown(row))) + " |" for row in rows]
    warned = [
        f"- Warning, {escape_markdown(row.entry.judge)}, {escape_markdown(_label(row.entry))}: "
        f"{escape_markdown(warning, 400)}"
        for row in rows
        for warning in row.warnings
    ]
    return "\n".join([*lines, "", *warned, *[""] * bool(warned), _MEANING]) + "\n"


def write_comparison(rows: Sequence[Row], path: str | Path) -> None:
    """Write the runs side by side as Markdown (FILE.md) or CSV (FILE.csv), whole or not at all.

    Raises:
        InputError: another ending.
    """
    path = Path(path)
    forms = {".md": lambda: render_markdown(rows), ".csv": lambda: csv_text(map(_cells, rows))}
    write_atomically(path, forms[check_ending(path)]())


def check_ending(path: str | Path) -> str:
    """The ending of a file to write: .md or .csv; InputError for another."""
    ending = Path(path).suffix.lower()
    if ending not in (".md", ".csv"):
        raise InputError(f"{path}: ends in neither .md nor .csv, and that says what to write; give one of them")
    return ending
