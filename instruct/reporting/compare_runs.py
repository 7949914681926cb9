"""Systems of one run or of several side by side: figures, whether they are comparable, differences, ranks."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from instruct.analysis.inference import Difference, paired_difference
from instruct.analysis.results import Claim, Ranked, rounded
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import ending_of, write_atomically
from instruct.judging.interchange.exchange import import_into_run
from instruct.reporting.build import build
from instruct.reporting.comparison_tables import seeds_table
from instruct.reporting.document import Caution, Document
from instruct.reporting.exports import csv_text, ends
from instruct.reporting.figures.judges import ranked_systems
from instruct.reporting.model import Panel, TallyFigures, claim_warning
from instruct.reporting.rankings import Entry, Ranking, ranking_tables, rankings, strengths
from instruct.reporting.read import read_run
from instruct.reporting.render.html import image, tables_page
from instruct.reporting.render.lines import render_markdown, render_terminal
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability, span
from instruct.run.directory import RunDirectory

ENDINGS = (".md", ".csv", ".html")  # of the files that a comparison can be written to
_TITLE = "Systems side by side"
_NOTE = (
    "Difference: win rate minus that of the first run's comparison, in points, with its 95 % interval, over "
    "the prompts with a verdict in both; p: paired permutation test of no difference. Adjusted p: of the "
    "comparison itself, corrected for all claims of its run."
)
_FIGURES = ("n_judged", "win", "tie", "loss", "unparsed", "failed", "win_rate", "standard_error")


@dataclass(frozen=True)
class ComparedRow:
    """An entry, and the entry of the first run it is compared with: the same comparison, else one by the same judge."""

    entry: Entry
    against: Entry | None = None
    warnings: list[str] = field(default_factory=list)
    difference: Difference | None = None

    @property
    def figures(self) -> TallyFigures:
        """Those of the entry's comparison under its leading policy."""
        return self.entry.comparison.leading_figures

    def content(self) -> dict[str, Any]:
        """All figures, for programs."""
        entry, comparison, figures = self.entry, self.entry.comparison, self.figures
        n, difference, interval, p, _ = self.difference or Difference()
        return {
            "judge": entry.judge,
            "run": entry.run,
            "candidate": comparison.candidate,
            "baseline": comparison.baseline,
            "policy": comparison.leading,
            **{key: getattr(figures, key) for key in _FIGURES},
            **ends("interval", figures.claim.interval),
            "finding": figures.claim.finding,
            "adjusted_p": figures.claim.adjusted_p,
            "compared_with": _label(self.against) if self.against else "",
            "difference": rounded(difference),
            **ends("difference", rounded(interval)),
            "difference_n": n or None,
            "p": p,
            "warnings": self.warnings,
        }


def _shown_difference(row: ComparedRow) -> str | None:
    _, difference, interval, *_ = row.difference or Difference()
    if difference is None:
        return None
    return f"{difference:+.1f}" + (f" ({span(interval)})" if interval else "")


_COLUMNS = [
    Column("judge", "entry.judge", text=True),
    Column("run", "entry.run", text=True),
    Column("candidate", "entry.comparison.candidate", text=True),
    Column("baseline", "entry.comparison.baseline", text=True),
    Column("policy", "entry.comparison.leading", text=True),
    Column("n", "figures.n_judged"),
    Column("win rate %", "figures.win_rate"),
    Column("std. error", "figures.standard_error"),
    Column("95 % CI", "figures.claim.interval"),
    Column("adjusted p", "figures.claim.adjusted_p", form=probability),
    Column("diff.", _shown_difference),
    Column("p", "difference.p", form=probability),
]


@dataclass(frozen=True)
class RunPanel:
    """A panel of judges, and its run."""

    run: str
    panel: Panel


_MAJORITIES = (
    "The outcome that most judges of a run gave. Adjusted p: corrected for all claims of the run. A majority of "
    "one training seed supports no claim."
)
_PANELS = [
    Column("run", text=True),
    *(Column(key, f"panel.{key}", text=True) for key in ("candidate", "baseline")),
    Column("judges", lambda it: ", ".join(it.panel.policies), text=True),
    Column("n", "panel.majority.n_judged"),
    Column("win rate %", "panel.majority.win_rate"),
    Column("95 % CI", "panel.majority.claim.interval"),
    Column("adjusted p", "panel.majority.claim.adjusted_p", form=probability),
]


@dataclass(frozen=True)
class Compared:
    """What compare_runs found: a row per comparison, rankings against a common baseline, Bradley-Terry strengths, and
    the panels of judges."""

    rows: list[ComparedRow]
    rankings: list[Ranking]
    strengths: list[Ranked]
    panels: list[RunPanel] = field(default_factory=list)

    def tables(self) -> list[Table]:
        """All figures as tables."""
        return [
            columns_table(_TITLE, self.rows, _COLUMNS, _NOTE),
            *([columns_table("Majorities of panels", self.panels, _PANELS, _MAJORITIES)] if self.panels else []),
            *(seeds_table(spreads, run) for run, spreads in self._seeds().items()),
            *ranking_tables(self.rankings, self.strengths),
        ]

    def _seeds(self) -> dict[str, list[Claim]]:
        """The comparisons over training seeds, by run."""
        spreads: dict[str, list[Claim]] = {}
        for row in self.rows:
            spread = row.entry.comparison.spread
            if spread and spread not in spreads.setdefault(row.entry.run, []):
                spreads[row.entry.run].append(spread)
        return spreads

    def document(self) -> Document:
        """The tables, and why rows may not be comparable."""
        first, *others = self.tables()
        cautions = [
            Caution(claim_warning(warning), f"{one_line(row.entry.judge, 60)}, {one_line(_label(row.entry))}")
            for row in self.rows
            for warning in row.warnings
        ]
        return Document(_TITLE, [replace(first, title=""), *cautions, *others])

    def content(self) -> dict[str, Any]:
        """All figures for programs."""
        return {
            "comparisons": [row.content() for row in self.rows],
            "panels": [{"run": panel.run} | panel.panel.model_dump() for panel in self.panels],
            "seeds": {run: [spread.model_dump() for spread in spreads] for run, spreads in self._seeds().items()},
            "rankings": [asdict(ranking) | {"told_apart": ranking.told_apart} for ranking in self.rankings],
            "strengths": [ranked.model_dump() for ranked in self.strengths],
        }


def compare_runs(given: Sequence[str | Path], common_prompts: bool = False) -> Compared:
    """The comparisons of one run or several, judge by judge; each further run's are compared with the first's.

    Args:
        given: run directories, or files of verdicts made elsewhere, such as AlpacaEval's annotations.
        common_prompts: compare runs with different prompts on those that both have.

    Raises:
        InputError: one run with a single comparison, a run given twice, not a run or one without verdicts, an invalid
            file, or no judge in common.
    """
    paths = [Path(path).expanduser() for path in given]
    places = [path.resolve() for path in paths]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{paths[index]}: given twice; name each run once")
    names = [place.name for place in places]
    labels = [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]
    entries: list[Entry] = []
    panels: list[RunPanel] = []
    for path, label in zip(paths, labels, strict=True):
        with _run_of(path) as run:
            own, voted = _entries_of(run, label)
            entries += own
            panels += [RunPanel(label, panel) for panel in voted]
    by_judge: dict[str, list[Entry]] = {}
    for entry in entries:
        by_judge.setdefault(entry.judge, []).append(entry)
    if len(paths) == 1 and all(len(own) == 1 for own in by_judge.values()):
        raise InputError(
            f"{paths[0]}: no judge has compared two systems there; name further runs, or use `instruct report`"
        )
    if len(paths) > 1 and all(len({entry.run for entry in own}) == 1 for own in by_judge.values()):
        judges = ", ".join(one_line(judge, 60) for judge in by_judge)
        raise InputError(f"no judge has judged in two of these runs ({judges})")
    rows = [_row(entry, own, labels[0], common_prompts) for own in by_judge.values() for entry in own]
    return Compared(rows, rankings(entries), strengths(entries), panels)


def _entries_of(run: RunDirectory, label: str) -> tuple[list[Entry], list[Panel]]:
    """The comparisons of a run, which is called `label`, and its panels of judges."""
    contents = read_run(run.folder)
    report = build(contents)
    comparisons = [(judge, comparison) for judge in report.judges for comparison in judge.comparisons]
    entries = []
    for (judge, comparison), judged in zip(comparisons, contents.by_judge, strict=True):
        answers = [
            {pair: hash(row["output"]) for pair, row in side.by_pair.items()} if side else None for side in judged.sides
        ]
        card = judged.step.get("inputs", {}).get("card")
        entries.append(Entry(label, judge.name, judge.model, comparison, judged.scores(), card, *answers))
    return entries, report.panels


@contextlib.contextmanager
def _run_of(path: Path) -> Iterator[RunDirectory]:
    """A run directory; of a file of verdicts one that is removed afterwards."""
    if not path.is_file():
        yield RunDirectory(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield import_into_run(path, Path(folder) / "run")


def _row(entry: Entry, of_judge: Sequence[Entry], first: str, common_prompts: bool) -> ComparedRow:
    partial = ["judging has not finished"] if entry.comparison.partial else []
    if entry.run == first:
        return ComparedRow(entry, warnings=partial)
    ours = entry.comparison
    candidates = [
        other.mirrored if other.comparison.candidate == ours.baseline else other
        for other in of_judge
        if other.run == first
    ]
    if not candidates:
        return ComparedRow(entry, warnings=[f"{first} has no verdicts by this judge", *partial])
    against = min(
        candidates,
        key=lambda other: (other.comparison.baseline != ours.baseline, other.comparison.candidate != ours.candidate),
    )
    comparable = common_prompts or entry.scores.keys() == against.scores.keys()
    difference = paired_difference(entry.scores, against.scores) if comparable else None
    return ComparedRow(entry, against, [*_differing(entry, against, common_prompts), *partial], difference)


def _differing(entry: Entry, other: Entry, common_prompts: bool) -> list[str]:
    """Why two figures by the same judge may not be comparable."""
    differences = []
    prompts = entry.scores.keys() & other.scores.keys()
    if len(prompts) < max(len(entry.scores), len(other.scores)):
        ours, theirs, both = len(entry.scores), len(other.scores), len(prompts)
        if common_prompts:
            left_out = f"{ours - both} of {ours} and {theirs - both} of {theirs}"
            differences.append(f"the difference is over {both} common prompts, which leaves out {left_out}")
        else:
            differences.append(
                f"different prompts: {ours} and {theirs}, {both} in common; no paired difference without "
                "--common-prompts"
            )
    if entry.baseline_answers is None or other.baseline_answers is None:
        differences.append("the baseline's answers are missing, so they may differ")
    else:
        changed = sum(entry.baseline_answers.get(p) != other.baseline_answers.get(p) for p in prompts)
        if changed:
            differences.append(f"different answers of the baseline to {changed} of {counted(len(prompts), 'prompt')}")
    if entry.model != other.model:
        differences.append(f"different judge model: {entry.model}, not {other.model}")
    if entry.card is None or other.card is None:
        if entry.card != other.card:
            differences.append("the version of the judge's card is known for only one of the two")
    elif entry.card != other.card:
        differences.append(f"different version of the judge's card: {entry.card[:12]}, not {other.card[:12]}")
    one, another = entry.comparison, other.comparison
    if one.leading != another.leading:
        differences.append(f"different policy: {one.leading}, not {another.leading}")
    if one.orders != another.orders:
        differences.append(f"pairs shown in different orders: {one.orders}, not {another.orders}")
    return differences


def _label(entry: Entry) -> str:
    return f"{entry.run}: {entry.comparison.candidate} against {entry.comparison.baseline}"


def render_table(compared: Compared) -> str:
    """The comparisons for a terminal."""
    return render_terminal(compared.document())


def _page(compared: Compared) -> str:
    """One HTML file, with a figure of the rankings."""
    drawing = ranked_systems([(ranking.judge, ranking.baseline, ranking.standings) for ranking in compared.rankings])
    figure = image(drawing.svg) if drawing else None
    about = drawing.title if drawing else ""
    return tables_page(_TITLE, compared.document().claims_changed(), compared.tables(), figure, about)


def write_comparison(compared: Compared, path: str | Path) -> None:
    """Write the comparison as Markdown (FILE.md), CSV (FILE.csv) or a page (FILE.html), whole or not at all.

    Raises:
        InputError: another extension.
    """
    path = Path(path)
    renderers: dict[str, Callable[[], str]] = {
        ".md": lambda: render_markdown(compared.document()),
        ".html": lambda: _page(compared),
        ".csv": lambda: csv_text([row.content() | {"warnings": "; ".join(row.warnings)} for row in compared.rows]),
    }
    write_atomically(path, renderers[ending_of(path, ENDINGS)]())
