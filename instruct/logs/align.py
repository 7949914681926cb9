"""Whose each log is, and which of two systems' rows are about the same unit."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from instruct.base.errors import InputError, counted, one_line
from instruct.logs.log import PARTS, Log
from instruct.scores.samples import Array, Sides

# Settings that change what a model is shown.
PROMPT_SETTINGS = (
    "shots", "shots seed", "demonstrations as turns", "template", "system prompt", "solver", "task version",
    "judge model", "judge card", "policy", "orders",
)  # fmt: skip
# Allows every difference of the prompts.
ANY_PROMPT = "prompt"


@dataclass(frozen=True)
class Evaluation:
    """A log, the name of the system that it is of, and the training seed of that, if there are several."""

    system: str
    seed: str | None
    log: Log

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each unit, in the order in which they appear."""
        places: dict[str, int] = {}
        for unit in self.log.units:
            places.setdefault(unit, len(places))
        return places

    @cached_property
    def of_row(self) -> NDArray[np.intp]:
        """The number of each row's unit."""
        rows = len(self.log.units)
        if len(self.places) == rows:
            return np.arange(rows)
        return np.fromiter((self.places[unit] for unit in self.log.units), np.intp, rows)

    @cached_property
    def first_rows(self) -> NDArray[np.intp]:
        """The first row of each unit."""
        return np.unique(self.of_row, return_index=True)[1]

    def means(self, metric: str, missing: float = math.nan) -> NDArray[np.float64]:
        """The mean of each unit over its repeats.

        Args:
            missing: what a missing value counts; NaN: a unit with one has no mean.
        """
        column = self.log.values.get(metric)
        values = np.full(len(self.log.units), math.nan) if column is None else np.frombuffer(column)
        if not math.isnan(missing):
            values = np.where(np.isnan(values), missing, values)
        means: NDArray[np.float64] = np.bincount(self.of_row, values) / np.bincount(self.of_row)
        return means

    def clusters(self, places: NDArray[np.intp]) -> dict[int, str]:
        """The clusters of some units, which have these numbers, by their place among them; a unit may have none."""
        clusters = self.log.clusters
        rows = enumerate(self.first_rows[places].tolist())
        return {place: cluster for place, row in rows if (cluster := clusters[row]) is not None}

    def hashes(self, part: str) -> NDArray[np.int64]:
        """What identifies a part of each unit's first row; 0: unknown."""
        return np.frombuffer(self.log.hashes[part], np.int64)[self.first_rows]


def evaluations(
    named: Sequence[tuple[str | None, Log]], seeds: str | None = None, alone: bool = False
) -> list[Evaluation]:
    """Whose each log is: the name that it was given, else its own name of the model, else, where several logs of a task
    share that, what their paths differ in.

    Args:
        named: logs, each with the name of its system, if one was given.
        seeds: a regular expression with the group `seed`, searched in the paths: such logs are of one system.
        alone: one system is enough.

    Raises:
        InputError: no log, not a regular expression, a log given twice, or two of one task that no name tells apart.
    """
    if not named:
        raise InputError("logs: have no rows to compare; give those of two systems")
    chosen, logs = [name for name, _ in named], [log for _, log in named]
    pattern = None
    if seeds is not None:
        try:
            pattern = re.compile(seeds)
        except re.error as error:
            raise InputError(f"seeds: {one_line(seeds, 60)!r} is no regular expression ({error})") from None
        if "seed" not in pattern.groupindex:
            raise InputError(f"seeds: {one_line(seeds, 60)!r} has no group named seed; write '(?P<seed>...)'")
    found = [pattern.search(str(log.path)) if pattern else None for log in logs]
    numbers = [match["seed"] if match else log.seed for match, log in zip(found, logs, strict=True)]
    paths = [
        Path(str(log.path)[: match.start()] + "/" + str(log.path)[match.end() :]) if match else log.path
        for log, match in zip(logs, found, strict=True)
    ]
    seen: set[tuple[Path, str | None, str, str | None]] = set()
    for log, number in zip(logs, numbers, strict=True):
        key = (log.path.resolve(), log.model, log.task, number)
        if key in seen:
            raise InputError(f"{_place(log)}: given twice; name each log once")
        seen.add(key)
    folders, files = _differing([path.parent for path in paths]), _differing([path.with_suffix("") for path in paths])
    models = [log.model or log.path.stem for log in logs]
    both = [f"{model} ({folder})" if folder else model for model, folder in zip(models, folders, strict=True)]
    first: tuple[Log, Log] | None = None
    for scheme in (models, [folder or model for folder, model in zip(folders, models, strict=True)], both, files):
        systems = [given or name for given, name in zip(chosen, scheme, strict=True)]
        taken: dict[tuple[str, str, str | None], Log] = {}
        twice = next(
            (
                (taken[key], log)
                for key, log in zip(zip(systems, (log.task for log in logs), numbers, strict=True), logs, strict=True)
                if taken.setdefault(key, log) is not log
            ),
            None,
        )
        if twice is None and (alone or len(set(systems)) > 1):
            return [Evaluation(*each) for each in zip(systems, numbers, logs, strict=True)]
        first = first or twice
    if first is None:
        raise InputError(
            f"{_place(logs[0])}: all logs are of one system ({one_line(models[0], 60)}); give those of a second one"
        )
    one, other = first
    raise InputError(
        f"{_place(other)}: is a second log of the task {one_line(other.task, 60)} by the same system as {_place(one)}; "
        "drop one of them, name the systems (NAME=PATH), or say where the path has the training seed"
    )


def _differing(paths: Sequence[Path]) -> list[str]:
    """Of each path the parts between what all begin with and what all end with."""
    parts = [path.parts for path in paths]
    start = _common(parts)
    end = _common([part[start:][::-1] for part in parts])
    return ["/".join(part[start : len(part) - end]) for part in parts]


def _common(parts: Sequence[Sequence[str]]) -> int:
    """How many of the first items all have in common."""
    return sum(1 for _ in itertools.takewhile(lambda items: len(set(items)) == 1, zip(*parts, strict=False)))


def by_task(found: Iterable[Evaluation]) -> dict[str, dict[str, list[Evaluation]]]:
    """The evaluations by task and system, those of several seeds in the order of the seeds."""
    tasks: dict[str, dict[str, list[Evaluation]]] = {}
    for each in found:
        tasks.setdefault(each.log.task, {}).setdefault(each.system, []).append(each)
    for systems in tasks.values():
        for trainings in systems.values():
            trainings.sort(key=lambda each: each.seed or "")
    return tasks


@dataclass(frozen=True)
class Shared:
    """The units of a task that all evaluations of two systems have.

    `places`: of each evaluation, the numbers of those units. `lacking`: by system, units that the other one has.
    `differing`: what the prompts of the same units differ in, which was allowed; `unchecked`: parts that some log does
    not have, so that nothing shows that they are the same.
    """

    candidate: list[Evaluation]
    baseline: list[Evaluation]
    units: list[str]
    places: list[NDArray[np.intp]]
    lacking: dict[str, int]
    differing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """The pairs of evaluations that are compared, seed with seed, by their numbers among all of both systems."""
        ours, theirs = len(self.candidate), len(self.baseline)
        return [(number, ours + min(number, theirs - 1)) for number in range(ours)]

    @property
    def every(self) -> list[Evaluation]:
        """The evaluations of both, the candidate's first."""
        return [*self.candidate, *self.baseline]

    def matrix(self, metric: str, missing: float = math.nan) -> Array:
        """Each evaluation's values of the shared units, see `Evaluation.means`: shape (evaluations, units)."""
        every = zip(self.every, self.places, strict=True)
        return np.array([each.means(metric, missing)[places] for each, places in every])

    def sides(self, metric: str) -> Sides:
        """What both systems scored, training beside training."""
        first, second = ([*numbers] for numbers in zip(*self.seeds, strict=True))

        def sides(missing: float) -> tuple[Array, Array]:
            return self.matrix(metric, missing)[first], self.matrix(metric, 1 - missing)[second]

        return sides

    def texts(self, number: int, unit: int) -> tuple[str, str]:
        """Question and response of a shared unit in one of `every`; empty where they were not kept."""
        each = self.every[number]
        row = each.first_rows[self.places[number][unit]]
        return each.log.texts[row] if row < len(each.log.texts) else ("", "")

    @cached_property
    def clusters(self) -> dict[int, str]:
        """The cluster of each shared unit by its place; {}: each is one of its own."""
        for each, places in zip(self.every, self.places, strict=True):
            if any(each.log.clusters):
                return each.clusters(places)
        return {}


def align(candidate: list[Evaluation], baseline: list[Evaluation], allow: Sequence[str] = ()) -> Shared:
    """Join the units of two systems' logs of one task, by their ids and by what they asked.

    Args:
        candidate, baseline: of each training seed; one baseline may stand beside several seeds of the candidate.
        allow: settings in which the prompts may differ (PROMPT_SETTINGS), or ANY_PROMPT.

    Raises:
        InputError: rows or right answers of the same id differ, or prompts do in what is not allowed; no unit in
            common; seeds that do not pair.
    """
    every = [*candidate, *baseline]
    task, first = one_line(every[0].log.task, 60), baseline[0]
    ours, theirs = [each.seed for each in candidate], [each.seed for each in baseline]
    if ours != theirs and len(theirs) != 1:
        raise InputError(
            f"{_place(candidate[0].log)}: the task {task} has the seeds {', '.join(map(str, ours))} of "
            f"{one_line(candidate[0].system, 60)} and {', '.join(map(str, theirs))} of "
            f"{one_line(first.system, 60)}; give the same seeds of both, or one log of the baseline"
        )
    units = [unit for unit in first.places if all(unit in each.places for each in every)]
    if not units:
        other = next(each for each in every if not each.places.keys() & first.places.keys() or each is every[-1])
        raise InputError(
            f"{_place(other.log)}: no unit of the task {task} is also in {_place(first.log)} (such as "
            f"{one_line(next(iter(other.places), ''), 60)!r} and {one_line(next(iter(first.places), ''), 60)!r}); "
            "give logs of the same rows"
        )
    places = [np.fromiter((each.places[unit] for unit in units), np.intp, len(units)) for each in every]
    shared = Shared(candidate, baseline, units, places, _lacking(candidate, baseline))
    reference = len(candidate)
    for ours_at, theirs_at in shared.seeds:  # prompts and opponents may differ between seeds
        _check_same(shared, ours_at, theirs_at, PARTS, allow)
        if theirs_at != reference:
            _check_same(shared, ours_at, reference, ("doc",), allow)
    return shared


def _lacking(candidate: list[Evaluation], baseline: list[Evaluation]) -> dict[str, int]:
    has = {side[0].system: set.intersection(*(set(each.places) for each in side)) for side in (candidate, baseline)}
    either = set().union(*has.values())
    return {system: len(either) - len(units) for system, units in has.items()}


def _check_same(shared: Shared, number: int, reference: int, parts: Sequence[str], allow: Sequence[str]) -> None:
    """Whether the units of two of the evaluations are the same in these parts."""
    each, first = shared.every[number], shared.every[reference]
    task = one_line(first.log.task, 60)
    different: dict[str, NDArray[np.intp]] = {}
    for part in parts:
        one, other = each.hashes(part)[shared.places[number]], first.hashes(part)[shared.places[reference]]
        both = (one != 0) & (other != 0)
        different[part] = np.flatnonzero(both & (one != other))
        if not both.all() and part not in shared.unchecked:
            shared.unchecked.append(part)
    for part, words in (("doc", "row"), ("target", "right answer, or opponent's answer,")):
        if len(different.get(part, ())):
            unit = shared.units[different[part][0]]
            raise InputError(
                f"{_place(each.log)}: {len(different[part])} of {counted(len(shared.units), 'unit')} of the task "
                f"{task} have another {words} than in {_place(first.log)}, the first {one_line(unit, 60)!r}; give logs "
                "of the same rows"
            )
    if "prompt" not in different:
        return
    settings = []
    for name in PROMPT_SETTINGS:
        values = {_setting(each.log, name), _setting(first.log, name)}
        if len(values) == 2 and None not in values:
            settings.append(name)
    if len(different["prompt"]) or (settings and "prompt" in shared.unchecked):
        reasons = settings or [ANY_PROMPT]
        if ANY_PROMPT not in allow and not set(reasons) <= set(allow):
            raise InputError(_differing_prompts(shared, each, first, different["prompt"], settings))
        shared.differing.extend(_in_words(each.log, first.log, name) for name in reasons)


def _differing_prompts(
    shared: Shared, each: Evaluation, first: Evaluation, units: NDArray[np.intp], settings: Sequence[str]
) -> str:
    where = ""
    if len(units):
        unit = one_line(shared.units[units[0]], 60)
        where = f" to {len(units)} of {counted(len(shared.units), 'unit')}, the first {unit!r}"
    because = ", ".join(_in_words(each.log, first.log, name) for name in settings) or "the logs do not say why"
    allowed = ", ".join(settings) or ANY_PROMPT
    return (
        f"{_place(each.log)}: other prompts of the task {one_line(first.log.task, 60)} than in {_place(first.log)}"
        f"{where} ({because}); evaluate both alike, or allow it (allow: {allowed}) to compare by row and right answer"
    )


def _place(log: Log) -> str:
    return one_line(log.path, 300)


def _in_words(one: Log, other: Log, name: str) -> str:
    if name == ANY_PROMPT:
        return "prompts"
    return f"{name}: {_setting(one, name)}, not {_setting(other, name)}"


def _setting(log: Log, name: str) -> str | None:
    value = log.settings.get(name)
    return None if value is None else one_line(value, 80)


def differing_settings(systems: Mapping[str, list[Evaluation]]) -> list[tuple[str, dict[str, str]]]:
    """The settings that the logs of one task do not share, with the value of each system's first log."""
    logs = {system: trainings[0].log for system, trainings in systems.items()}
    rows = []
    for setting in dict.fromkeys(setting for log in logs.values() for setting in log.settings):
        values = {system: _setting(log, setting) or "-" for system, log in logs.items()}
        if len(set(values.values())) > 1:
            rows.append((setting, values))
    return rows
