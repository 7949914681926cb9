"""Systems compared on logs of evaluations, of other tools or of runs: paired differences, unit by unit."""

from __future__ import annotations

import functools
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.analysis.results import Claim
from instruct.base.errors import GateError, InputError, counted, one_line
from instruct.base.files import ending_of, write_atomically
from instruct.logs.inspect import log_of
from instruct.logs.read import by_task, evaluations, read_logs
from instruct.logs.source import Columns
from instruct.logs.tables import SCORES, read_frame
from instruct.reporting.digits import number
from instruct.reporting.document import Block, Caution, Document, Listing
from instruct.reporting.exports import claim_rows, csv_text
from instruct.reporting.log_claims import MAIN, OTHERS, PARTS_OF_GROUPS, Changed, JoinedLogs, listed
from instruct.reporting.model import ReportWarning, note_warning
from instruct.reporting.render.html import tables_page
from instruct.reporting.render.lines import render_markdown
from instruct.reporting.run_logs import logs_of_run
from instruct.reporting.tables import (
    CLUSTERS,
    DIFFERENCE,
    PAIR,
    TESTED,
    Column,
    Table,
    Value,
    columns_table,
    text_columns,
)
from instruct.reporting.text import claim_headline, difference, name
from instruct.run.directory import RunDirectory
from instruct.scores.claims import of_family, settle, stated
from instruct.scores.join import place_of, setting_of
from instruct.scores.scores import Scores

if TYPE_CHECKING:
    import pandas as pd


TITLE = "Evaluations side by side"
ENDINGS = (".md", ".csv", ".html", ".json")  # of the files that a comparison can be written to
_DIFFERENCES = (
    "The candidate's mean minus the other's over the same units: in points (100 times the metric) where the metric "
    "is from 0 to 1. p is McNemar's where units are right or wrong, that of the mean (Gaffke) where they are graded, "
    "Student's where a metric has no bounds. p (Holm) and what is excluded are corrected for all tests of this table. "
    "Detectable: the true difference that such units show in four of five cases. Other units like these are covered; "
    "other trainings only where there are several seeds."
)
_SIMULTANEOUS = "Simultaneous: the intervals of all pairs of systems hold at once in 95 % of cases."
_RANKS = "Ranks: those that the tests of all pairs of systems leave open, corrected by Holm's method."
_SCORES = "Each system's mean over all its rows, of several seeds their mean."
_UNPAIRED = "Not a mean over units: the tool's own figure, without a test."
_SETTINGS = "What the logs of a task do not share; the prompts of their units were compared."


@dataclass(frozen=True)
class Standing:
    """A system's place in a task: its mean, and the ranks that the tests of all pairs leave open."""

    task: str
    metric: str
    system: str
    value: float | None
    rank_interval: list[int]


@dataclass(frozen=True)
class DifferingSetting:
    """A setting that the logs of these tasks do not share; the value of each system, in their order."""

    tasks: list[str]
    setting: str
    values: list[str]


@dataclass(frozen=True)
class LogComparison:
    """What logs say about systems. `claims`: one for each task or group, metric and pair of systems.

    `found`: whose each log is. `changed`: the units that changed most, of `changed_units`. `cautions`: what a reader
    must know.
    """

    baseline: str
    systems: list[str]
    claims: list[Claim]
    found: list[Scores]
    settings: list[DifferingSetting]
    standings: list[Standing]
    changed: list[Changed]
    changed_units: int
    cautions: list[ReportWarning]

    @property
    def main(self) -> list[Claim]:
        """The claims about the main metric of groups, and of tasks that are in none."""
        return of_family(self.claims, MAIN)

    def headlines(self) -> list[str]:
        """Who is better, by how much and how certainly: a sentence for each claim about a main metric."""
        return [claim_headline(claim) for claim in self.main]

    def document(self) -> Document:
        """Sentences, what changes them, tables, and the logs."""
        first, *others = self._tables()
        sentences = Listing("", [(line, ()) for line in self.headlines()])
        opening: list[Block] = [sentences, *map(Caution, self.cautions), self._settings(), first]
        return Document(TITLE, opening, [*others, self._logs()])

    def _tables(self) -> Iterator[Table]:
        """The tables, the main differences first."""
        claims = list(map(stated, self.claims))
        columns = _difference_columns(claims)
        yield columns_table("Differences", of_family(claims, MAIN), columns, _DIFFERENCES)
        yield columns_table("Ranks", self.standings, _RANK_COLUMNS, _RANKS)
        yield from self._matrices()
        for family in (PARTS_OF_GROUPS, OTHERS):
            yield columns_table(f"Differences: {family} (secondary)", of_family(claims, family), columns)
        yield self._figures("Scores", _SCORES, lambda log: {metric: log.mean(metric) for metric in log.values})
        yield self._figures("Not paired", _UNPAIRED, _unpaired)
        shown = f"Those that changed most; {counted(self.changed_units, 'unit')} changed."
        several = [replace(column, when=len(self.systems) > 2) for column in PAIR]
        yield columns_table("Units that changed", self.changed, [*several, *_CHANGED_COLUMNS], shown)

    def _settings(self) -> Table:
        rows = [[listed(row.tasks), row.setting, *row.values] for row in self.settings]
        header = ["task", "setting", *self.systems]
        return Table("Settings that differ", header, rows, len(header), _SETTINGS)

    def _matrices(self) -> Iterator[Table]:
        for task in dict.fromkeys(row.task for row in self.standings):
            systems = [row.system for row in self.standings if row.task == task]
            made = {(claim.candidate, claim.baseline): claim for claim in self.main if claim.task == task}
            rows = [[ours, *(_of_pair(made, ours, theirs) for theirs in systems)] for ours in systems]
            title = f"Row minus column: {one_line(task, 60)}"
            yield Table(title, ["system", *systems], rows, note="* p (Holm) is at most 0.05.")

    def _figures(self, title: str, note: str, of: Callable[[Scores], Mapping[str, float | None]]) -> Table:
        """Figures of the logs, a row for each task and metric."""
        figures: dict[tuple[str, str], dict[str, list[float]]] = {}
        for each in self.found:
            for metric, value in of(each).items():
                if value is not None:
                    row = figures.setdefault((each.task, metric), {})
                    row.setdefault(each.system, []).append(value)
        rows: list[list[Value]] = []
        for (task, metric), by_system in figures.items():
            means = [statistics.fmean(by_system[key]) if key in by_system else None for key in self.systems]
            rows.append([task, metric, *means])
        return Table(title, ["task", "metric", *self.systems], rows, 2, note)

    def _logs(self) -> Table:
        columns = [
            Column("file", "path.name", text=True),
            Column("tool", lambda each: f"{each.tool} {each.version or ''}".strip(), text=True),
            *text_columns("system"),
            Column("seed", text=True),
            Column("task", "task", text=True),
            Column("rows", lambda each: len(each.units)),
            Column("units", lambda each: len(each.places)),
            Column("without a value", lambda each: sum(each.reasons.values()), when="known"),
        ]
        return columns_table("Logs", self.found, columns)

    def to_html(self) -> str:
        """The comparison as a page of its own."""
        whole = self.document()
        tables = [block for block in (*whole.opening, *whole.numbers) if isinstance(block, Table)]
        cautions = [one_line(caution.text, 1000) for caution in self.cautions]
        return tables_page(TITLE, cautions, tables, self.headlines())

    def write(self, path: str | Path) -> None:
        """Write the comparison as FILE.md, FILE.csv, FILE.json or FILE.html, whole or not at all.

        Raises:
            InputError: another extension, or a place that cannot be written.
        """
        renderers: dict[str, Callable[[], str]] = {
            ".md": self._repr_markdown_,
            ".csv": lambda: csv_text(claim_rows(self.claims)),
            ".json": lambda: json.dumps(self.content(), indent=2, ensure_ascii=False) + "\n",
            ".html": self.to_html,
        }
        write_atomically(Path(path), renderers[ending_of(path, ENDINGS)]())

    def content(self) -> dict[str, Any]:
        """All figures, for programs."""
        return {
            "baseline": self.baseline,
            "systems": self.systems,
            "claims": [claim.model_dump() for claim in self.claims],
            "cautions": [caution.model_dump() for caution in self.cautions],
            "standings": [asdict(row) for row in self.standings],
            "settings": [asdict(row) | {"systems": self.systems} for row in self.settings],
            "logs": [
                {
                    "path": str(each.path),
                    **{key: getattr(each, key) for key in ("tool", "version", "task", "system", "seed")},
                    "rows": len(each.units),
                    "units": len(each.places),
                    "missing": dict(each.reasons),
                    "means": {metric: each.mean(metric) for metric in each.values},
                    "not_paired": _unpaired(each),
                }
                for each in self.found
            ],
        }

    def frame(self) -> pd.DataFrame:
        """A data frame with a row for each claim."""
        import pandas as pd

        return pd.DataFrame(claim_rows(self.claims))

    def _repr_markdown_(self) -> str:
        return render_markdown(self.document())

    def __str__(self) -> str:
        return "\n".join(self.headlines())


# A file, a folder that is searched, a run directory, a log that was read, an EvalLog of Inspect, or a data frame.
Source = Any


def read_sources(
    logs: Sequence[Source] | Mapping[str, Source], columns: Columns | None = None
) -> tuple[list[tuple[str | None, Scores]], dict[Path, str | None]]:
    """The logs of a comparison, see `compare_logs`, each with the name of its system, if one was given; and the files
    that no reader knows, with why a file cannot be read, if it cannot."""
    by_name: Mapping[str, Source] = logs if isinstance(logs, Mapping) else {"": logs}
    sources = [
        (key, each)
        for key, given in by_name.items()
        for each in (given if isinstance(given, list | tuple) else [given])
    ]
    unknown: dict[Path, str | None] = {}
    named: list[tuple[str | None, Scores]] = []
    for key, source in sources:
        if isinstance(source, Scores):
            found = [source]
        elif hasattr(source, "eval") and hasattr(source, "samples"):
            found = [log_of(source, columns.cluster if columns else None)]
        elif hasattr(source, "to_dict"):
            found = read_frame(source, columns or Columns(), key or f"data frame {len(named) + 1}")
        elif (Path(source) / "manifest.json").is_file():
            # Of a bench alone all unit scores; beside other runs, what tells whether these asked the same.
            scores = RunDirectory(Path(source)).report / SCORES
            whole = len(sources) == 1 and scores.is_file()
            found = read_logs(scores).logs if whole else logs_of_run(source, columns)
        else:
            found, others = read_logs(source, columns)
            unknown |= others
        named += [(key or None, log) for log in found]
    return named, unknown


def compare_logs(
    logs: Sequence[Source] | Mapping[str, Source],
    *,
    baseline: str | None = None,
    metrics: Sequence[str] = (),
    seeds: str | None = None,
    allow: Sequence[str] = (),
    all_pairs: bool = False,
    columns: Columns | None = None,
) -> LogComparison:
    """Compare systems on logs of evaluations, of other tools (docs/compare_logs.md) or of runs.

    Args:
        logs: files, folders that are searched, run directories, data frames (see `columns`), Inspect's EvalLog objects,
            or logs that were read.
            Names of systems are the keys, each of one of these or a list; without keys they come from the logs' models
            or, where these do not tell them apart, from the paths.
        baseline: the system that the others are compared with; None: the first.
        metrics: to compare, the main one first; (): all of them, the main one being a log's first.
        seeds: a regular expression with the group `seed`, such as `seeds/(?P<seed>[0-9]+)/`: logs whose paths differ
            only in what it matches are of trainings of one system.
        allow: settings in which the prompts of a unit may differ: `template`, `shots`, ..., or `prompt` for any.
        all_pairs: compare every two systems, with simultaneous intervals and ranks.
        columns: the names of the columns of data frames, and of tables that no tool wrote.

    Raises:
        InputError: a file that is no log, or not valid; one system alone; other rows under the same id; prompts that
            differ in what is not allowed; an unknown baseline or metric.
    """
    found, unknown = read_sources(logs, columns)
    evaluated = evaluations(found, seeds)
    systems = list(dict.fromkeys(each.system for each in evaluated))
    if baseline is not None and baseline not in systems:
        raise InputError(f"baseline: no log is of {one_line(baseline, 60)!r}; the systems are {listed(systems)}")
    first = baseline or systems[0]
    systems.sort(key=lambda system: system != first)
    pairs = [(other, one) for one, other in itertools.combinations(systems, 2) if all_pairs or one == first]
    tasks = by_task(evaluated)
    joined = JoinedLogs(tasks, pairs, allow, metrics)
    claims = joined.claims(simultaneous=len(pairs) if all_pairs else 1)
    if not claims:
        raise InputError(
            f"{place_of(evaluated[0])}: no task has a metric of two systems; the systems are "
            f"{listed(systems)}, the tasks {listed(tasks)}"
        )
    cautions = [*joined.cautions(), *_not_compared(tasks, claims)]
    if unknown:
        files = [f"{file}{f' ({why})' if why else ''}" for file, why in unknown.items()]
        cautions.append(note_warning(f"not read, as no reader knows them: {listed(files)}"))
    settle(claims)
    mean_of = functools.cache(functools.partial(_mean, evaluated))  # of each system once, however many it is beside
    for claim in claims:
        if (detectable := claim.detectable) is not None:
            claim.params["detectable"] = detectable
        means = [mean_of(system, claim.task or "", claim.measure) for system in (claim.candidate, claim.baseline)]
        claim.params["means"] = [100 * mean if mean is not None and claim.in_points else mean for mean in means]
    changed, count = joined.changed(of_family(claims, MAIN))
    ranked = _standings(of_family(claims, MAIN), mean_of) if all_pairs and len(systems) > 2 else []
    return LogComparison(
        first, systems, claims, evaluated, _differing_settings(tasks, systems), ranked, changed, count, cautions
    )


def _not_compared(tasks: Mapping[str, Mapping[str, list[Scores]]], claims: Sequence[Claim]) -> Iterator[ReportWarning]:
    """Systems that have logs of tasks, beside others, and no claim about these."""
    made = {(claim.task, system) for claim in claims for system in (claim.candidate, claim.baseline)}
    left: dict[str, list[str]] = {}
    for task, systems in tasks.items():
        for system in systems if len(systems) > 1 else ():
            if (task, system) not in made:
                left.setdefault(system, []).append(task)
    for system, of in left.items():
        yield note_warning(f"{listed(of)}: {name(system)} is not compared")


def _differing_settings(
    tasks: Mapping[str, Mapping[str, list[Scores]]], systems: Sequence[str]
) -> list[DifferingSetting]:
    """The settings that the first logs of systems do not share, once for all tasks in which they differ alike."""
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for task, of_systems in tasks.items():
        logs = {system: trainings[0] for system, trainings in of_systems.items()}
        for setting in dict.fromkeys(setting for log in logs.values() for setting in log.settings):
            values = {system: setting_of(log, setting) or "-" for system, log in logs.items()}
            if len(set(values.values())) > 1:
                row = tuple(values.get(system, "-") for system in systems)
                alike.setdefault((setting, row), []).append(task)
    return [DifferingSetting(of, setting, list(values)) for (setting, values), of in alike.items()]


def _mean(found: Sequence[Scores], system: str, task: str, metric: str) -> float | None:
    """A system's mean in a task or a group over all its rows, of several seeds their mean; None without a value."""
    means: list[float] = []
    for each in found:
        if each.system == system and task in (each.task, *each.groups):
            mean, times = each.mean(metric), len(each.places) if each.groups.get(task) else 1
            means += [] if mean is None else [mean] * times
    return statistics.fmean(means) if means else None


def _standings(claims: Sequence[Claim], mean_of: Callable[[str, str, str], float | None]) -> list[Standing]:
    """The systems of each task by their mean, of system, task and metric, with the ranks that the claims leave open."""
    ranked = []
    for task, metric in dict.fromkeys((claim.task or "", claim.measure) for claim in claims):
        about = [claim for claim in claims if (claim.task, claim.measure) == (task, metric)]
        systems = dict.fromkeys(system for claim in about for system in (claim.baseline, claim.candidate))
        better, worse = Counter[str](), Counter[str]()  # how many of the others are
        for claim in about:
            if claim.has_winner:
                won = claim.finding == "candidate"
                better[claim.baseline if won else claim.candidate] += 1
                worse[claim.candidate if won else claim.baseline] += 1
        rows = []
        for system in systems:
            ranks = [1 + better[system], len(systems) - worse[system]]
            rows.append(Standing(task, metric, system, mean_of(system, task, metric), ranks))
        sign = 1 if about[0].better == "lower" else -1
        ranked += sorted(
            rows, key=lambda row: (sum(row.rank_interval), math.inf if row.value is None else sign * row.value)
        )
    return ranked


def _of_pair(made: Mapping[tuple[str, str], Claim], ours: str, theirs: str) -> Value:
    """A cell of the matrix."""
    for pair, sign in (((ours, theirs), 1), ((theirs, ours), -1)):
        claim = made.get(pair)
        if claim and claim.value is not None:
            star = "*" * claim.has_winner
            return f"{number(sign * claim.value, claim.interval, sign=True)}{star}"
    return None


def _unpaired(log: Scores) -> dict[str, float]:
    return {metric: log.figures[metric] for metric in log.unpaired if metric in log.figures}


def _difference_columns(claims: Sequence[Claim]) -> list[Column]:
    return [
        *text_columns("task"),
        Column("metric", "measure", text=True),
        *PAIR,
        *DIFFERENCE,
        *TESTED,
        Column("candidate's mean", lambda claim: claim.params["means"][0], error="interval"),
        Column("other's mean", lambda claim: claim.params["means"][1], error="interval"),
        Column("units", "n"),
        CLUSTERS,
        Column("seeds", "trainings", when=any(claim.trainings > 1 for claim in claims)),
        Column("without a value", "missing", when="known"),
        Column("better on", lambda claim: _units_apart(claim)[0]),
        Column("worse on", lambda claim: _units_apart(claim)[1]),
        Column("simultaneous", "params.simultaneous", error="interval", sign=True, note=_SIMULTANEOUS),
        Column("detectable", "params.detectable"),
    ]


def _units_apart(claim: Claim) -> tuple[int, int]:
    """The units on which the candidate is better, and those on which it is worse."""
    above, below = claim.params["candidate_above"], claim.params["baseline_above"]
    return (below, above) if claim.better == "lower" else (above, below)


_RANK_COLUMNS = [
    *text_columns("task", "metric", "system"),
    Column("mean", "value"),
    Column("rank 95 %", lambda row: "–".join(map(str, dict.fromkeys(row.rank_interval)))),
]
_CHANGED_COLUMNS = [
    *text_columns("task", "metric", "unit", "question"),
    Column("other's answer", "baseline_response", text=True),
    Column("candidate's answer", "candidate_response", text=True),
    Column("from", "baseline_value", form="g"),
    Column("to", "candidate_value", form="g"),
]


def check_difference_gate(compared: LogComparison, fail_under: float) -> str:
    """Compare every difference of a main metric with a threshold, in points or in the metric's unit.

    Returns:
        The differences, in a line.

    Raises:
        InputError: the threshold is not finite.
        GateError: by how much a candidate is better is below the threshold, or not defined.
    """
    if not math.isfinite(fail_under):
        raise InputError(f"`fail_under` {fail_under:g}: must be a number of points")
    lines: dict[str, bool] = {}
    for claim in compared.main:
        about = f"{one_line(claim.task or '', 60)}, {name(claim.candidate)} against {name(claim.baseline)}"
        lines[f"{about}: {difference(claim)}"] = claim.gain is not None and claim.gain >= fail_under
    if below := [line for line, passed in lines.items() if not passed]:
        raise GateError(f"below `fail_under` {fail_under:g}: {'; '.join(below)}")
    return f"no difference is below {fail_under:g}: {'; '.join(lines)}"
