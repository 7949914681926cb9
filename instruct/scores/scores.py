"""What one training of a system scored in one task, unit by unit: what every reader of a tool's logs returns."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.clusters import numbered, repeats
from instruct.base.errors import InputError, one_line

# Texts of more units than these are not kept, and of those kept so many characters.
MOST_TEXTS, TEXT_LENGTH = 50_000, 600
# Means of the same numbers, added in another order or rounded to ten decimals (by pandas), differ by less.
_SAME = 1e-9

# What tells whether two rows with the same id are the same, in the order in which `Row` has them.
PARTS = ("doc", "target", "prompt")

Better = Literal["higher", "lower", ""]


# Of arguments that must not be shown.
_SECRET = re.compile(r"key|token$|secret|password|auth", re.IGNORECASE)


def listed(arguments: Mapping[str, Any]) -> str | None:
    """Arguments as `name=value, ...` in one line, without those that must stay secret; None: there are none."""
    return one_line(_shown(arguments)[1:-1], 300) or None


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        parts = (f"{name}={'…' if _SECRET.search(name) else _shown(part)}" for name, part in sorted(value.items()))
        return f"{{{', '.join(parts)}}}"
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, list) else str(value)


class Row(NamedTuple):
    """One unit (a question, a prompt) as a log has it.

    Args:
        unit: the tool's own id, unique in the task.
        values: by metric, the first one being the task's main metric; None: missing, and `reason` says why.
        epoch: of a unit that was answered several times, which time; None: it was answered once.
        part: of a log with several rows for a unit, each with other metrics, which; None: it has one row.
        cluster: what several units share, such as a passage; None: nothing that the log tells.
        doc: the row that was asked about, or its hash. target: the right answer, or its hash; of verdicts
            the opponent's answer.
        prompt: all that the model was shown, or its hash; with another template or other demonstrations it differs.
        question, response: texts for people to read.
    """

    unit: str
    values: Mapping[str, float | None]
    reason: str | None = None
    epoch: int | str | None = None
    part: str | None = None
    cluster: str | None = None
    doc: str | None = None
    target: str | None = None
    prompt: str | None = None
    question: str = ""
    response: str = ""


@dataclass
class Scores:
    """What one training of a system scored in one task.

    Args:
        tool: that wrote the log. version: of the tool.
        path: the file. system: its name; empty: the log has none. seed: of its training, if known.
        run: what the logs share that the tool wrote in one evaluation of several tasks; None: unknown.
        settings: what the evaluation ran with: `shots`, `template`, `limit`, `max tokens`, `temperature`, `model
            arguments`, `task version`, `tool version`, `date`, and others.
        figures: by metric, the tool's own figure, where the log has one.
        unpaired: metrics in `figures` that are no mean over units (BLEU, corpus F1, perplexity, pass@k).
        better: by metric, which values are better; metrics that are missing here: higher.
        groups: of tasks that the tool averages this task in, and whether by the number of units (else each task
            counts once).
        without: by metric in `figures`, the figure without each group of units (analysis.jackknife); empty: not
            known.
        variances: by metric in `without`, the figure's variance for other reasons than the units, such as a
            clustering's random start.
    """

    tool: str
    path: Path
    system: str
    task: str
    version: str | None = None
    seed: str | None = None
    run: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    unpaired: list[str] = field(default_factory=list)
    better: dict[str, Better] = field(default_factory=dict)
    groups: dict[str, bool] = field(default_factory=dict)
    without: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    variances: dict[str, float] = field(default_factory=dict)
    units: list[str] = field(default_factory=list)
    """Of each row."""
    values: dict[str, array[float]] = field(default_factory=dict)
    """By metric, of each row; NaN: missing."""
    clusters: list[str | None] = field(default_factory=list)
    hashes: dict[str, array[int]] = field(default_factory=lambda: {part: array("q") for part in PARTS})
    """By part of PARTS, of each row; 0: the log does not have it."""
    texts: list[tuple[str, str]] = field(default_factory=list)
    """Question and response of each of the first rows."""
    why: dict[int, str] = field(default_factory=dict)
    """Why a row has no value, by its number."""
    _repeated: bool = field(default=False, repr=False)
    _numbers: dict[Any, int] = field(default_factory=dict, repr=False)
    _parts: dict[str, set[int]] = field(default_factory=dict, repr=False)

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each unit, in the order in which they appear."""
        return {unit: place for place, unit in enumerate(dict.fromkeys(self.units))}

    @cached_property
    def of_row(self) -> NDArray[np.intp]:
        """The number of each row's unit."""
        rows = len(self.units)
        if len(self.places) == rows:
            return np.arange(rows)
        return np.fromiter((self.places[unit] for unit in self.units), np.intp, rows)

    @cached_property
    def first_rows(self) -> NDArray[np.intp]:
        """The first row of each unit."""
        return np.unique(self.of_row, return_index=True)[1]

    def clusters_of(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """The number of the cluster of each of some units, which have these numbers; a unit may be one of its own."""
        rows = self.first_rows[places].tolist()
        return numbered(row if self.clusters[row] is None else self.clusters[row] for row in rows)

    def means(self, metric: str, missing: float = math.nan) -> NDArray[np.float64]:
        """The mean of each unit over its repeats.

        Args:
            missing: what a missing value counts; NaN: a unit with one has no mean.
        """
        column = self.values.get(metric)
        values = np.full(len(self.units), math.nan) if column is None else np.frombuffer(column)
        values = np.where(np.isnan(values), missing, values)
        means: NDArray[np.float64] = np.bincount(self.of_row, values) / np.bincount(self.of_row)
        return means

    def add(self, row: Row, place: str) -> None:
        """Add a row, or the metrics of another part of a row.

        Args:
            place: the file and the row, for errors.

        Raises:
            InputError: the unit is there twice, its parts differ in more than their metrics, or a value is not finite.
        """
        number = self._numbers.setdefault(row.unit if row.epoch is None else (row.unit, row.epoch), len(self.units))
        hashes = [0 if text is None else hash(text) or 1 for text in (row.doc, row.target, row.prompt)]
        parts = None if row.part is None else self._parts.setdefault(row.part, set())
        if number == len(self.units):
            self.units.append(row.unit)
            self.clusters.append(row.cluster)
            if number < MOST_TEXTS:
                self.texts.append((row.question[:TEXT_LENGTH], row.response[:TEXT_LENGTH]))
            for column, value in zip(self.hashes.values(), hashes, strict=True):
                column.append(value)
            for values in self.values.values():
                values.append(math.nan)
        elif parts is None or number in parts:
            raise InputError(f"{place}: {self._named(row)} is there twice; keep one of them")
        elif differs := [part for part, text in zip(PARTS, hashes, strict=True) if self.hashes[part][number] != text]:
            raise InputError(
                f"{place}: {self._named(row)} has another {differs[0]} than in an earlier row; give the files of one "
                "evaluation"
            )
        if parts is not None:
            parts.add(number)
        self._repeated |= row.epoch is not None
        for metric, figure in row.values.items():
            if metric not in self.values:
                self.values[metric] = array("d", [math.nan]) * len(self.units)
            if figure is not None and not math.isfinite(figure):
                raise InputError(f"{place}: {one_line(metric, 60)}: is not a finite number; correct it")
            self.values[metric][number] = math.nan if figure is None else figure
        if row.reason is not None:
            self.why.setdefault(number, row.reason)

    def finish(self, other: Iterable[str], chosen: bool) -> None:
        """Leave out metrics whose values are no numbers, and call each cluster by its first unit.

        Args:
            chosen: a user named what clusters share, see `repeats`.
        """
        for metric in other:
            self.values.pop(metric, None)
        self.unpaired = sorted(other)
        names: dict[str, str | None] = {}
        for unit, cluster in zip(self.units, self.clusters, strict=True):
            names.setdefault(unit, cluster)
        clusters = repeats(names, chosen)
        self.clusters = [clusters.get(unit) for unit in self.units]

    @property
    def reasons(self) -> Counter[str]:
        """Why rows have no value of some metric, and how many."""
        columns = [np.isnan(np.frombuffer(column)) for column in self.values.values()] if self.units else []
        missing = np.any(columns, axis=0) if columns else np.zeros(0, dtype=bool)
        return Counter(self.why.get(row, "no value") for row in np.flatnonzero(missing).tolist())

    def _named(self, row: Row) -> str:
        again = "" if row.epoch is None else f", repeat {one_line(row.epoch, 40)}"
        return f"the unit {one_line(row.unit, 60)!r}{again} of the task {one_line(self.task, 60)}"

    def check_figure(self, metric: str, value: float, place: str) -> None:
        """Keep the tool's own figure of a metric, which is a mean over units.

        Raises:
            InputError: this log does not have that mean.
        """
        mean = self.mean(metric)
        if mean is None or not math.isclose(mean, value, rel_tol=_SAME, abs_tol=_SAME):
            raise InputError(
                f"{place}: {one_line(metric, 60)} of the task {one_line(self.task, 60)} is {value!r}, but the rows of "
                f"{self.path.name} have the mean {mean!r}; give the files of one evaluation"
            )
        self.figures[metric] = value

    def mean(self, metric: str) -> float | None:
        """The mean over the units with a value, of each over its repeats that have one; None: there are none."""
        column = self.values.get(metric, ())
        values = [value for value in column if not math.isnan(value)]
        if self._repeated:
            repeats: dict[str, list[float]] = {}
            for unit, value in zip(self.units, column, strict=False):
                if not math.isnan(value):
                    repeats.setdefault(unit, []).append(value)
            values = [math.fsum(each) / len(each) for each in repeats.values()]
        return math.fsum(values) / len(values) if values else None
