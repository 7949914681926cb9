"""Whose each log is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from instruct.base.errors import InputError, one_line
from instruct.scores.join import place_of, setting_of
from instruct.scores.scores import Scores


def evaluations(
    named: Sequence[tuple[str | None, Scores]], seeds: str | None = None, alone: bool = False
) -> list[Scores]:
    """Whose each log is: the name that it was given, else its own name of the model, else, where several logs of a task
    share that, what their paths or the runs of the tool differ in.

    Args:
        named: logs, each with the name of its system, if one was given.
        seeds: a regular expression with the group `seed`, searched in the paths: such logs are of one system, also
            where each training has a model name of its own.
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
        key = (log.path.resolve(), log.system, log.task, number)
        if key in seen:
            raise InputError(f"{place_of(log)}: given twice; name each log once")
        seen.add(key)
    folders, files = _differing([path.parent for path in paths]), _differing([path.with_suffix("") for path in paths])
    models = [log.system or log.path.stem for log in logs]
    places = [path.parent if log.run else path for path, log in zip(paths, logs, strict=True)]  # a name may have a date
    trainings: dict[Path, set[tuple[str | None, str]]] = {}
    for place, number, model, match in zip(places, numbers, models, found, strict=True):
        if match:
            trainings.setdefault(place, set()).add((number, model))
    for at, place in enumerate(places):
        of_place = trainings.get(place, set())
        if len({model for _, model in of_place}) > 1 and len({number for number, _ in of_place}) == len(of_place):
            models[at] = folders[at] or min(model for _, model in of_place)
    runs = [f"{model} ({log.run})" if log.run else file for model, log, file in zip(models, logs, files, strict=True)]
    both = [f"{model} ({folder})" if folder else model for model, folder in zip(models, folders, strict=True)]
    first: tuple[Scores, Scores] | None = None
    for scheme in (models, [folder or model for folder, model in zip(folders, models, strict=True)], both, runs, files):
        systems = [given or name for given, name in zip(chosen, scheme, strict=True)]
        taken: dict[tuple[str, str, str | None], Scores] = {}
        twice = next(
            (
                (taken[key], log)
                for key, log in zip(zip(systems, (log.task for log in logs), numbers, strict=True), logs, strict=True)
                if taken.setdefault(key, log) is not log
            ),
            None,
        )
        if twice is None and (alone or len(set(systems)) > 1):
            return [
                replace(log, system=system, seed=seed) for system, seed, log in zip(systems, numbers, logs, strict=True)
            ]
        first = first or twice
    if first is None:
        raise InputError(
            f"{place_of(logs[0])}: all logs are of one system ({one_line(models[0], 60)}); give those of a second one"
        )
    one, other = first
    raise InputError(
        f"{place_of(other)}: is a second log of the task {one_line(other.task, 60)} by the same system as "
        f"{place_of(one)}; drop one of them, name the systems (NAME=PATH), or say where the path has the training seed"
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


def by_task(found: Iterable[Scores]) -> dict[str, dict[str, list[Scores]]]:
    """The evaluations by task and system, those of several seeds in the order of the seeds."""
    tasks: dict[str, dict[str, list[Scores]]] = {}
    for each in found:
        tasks.setdefault(each.task, {}).setdefault(each.system, []).append(each)
    for systems in tasks.values():
        for trainings in systems.values():
            trainings.sort(key=lambda each: each.seed or "")
    return tasks


def differing_settings(systems: Mapping[str, list[Scores]]) -> list[tuple[str, dict[str, str]]]:
    """The settings that the logs of one task do not share, with the value of each system's first log."""
    logs = {system: trainings[0] for system, trainings in systems.items()}
    rows = []
    for setting in dict.fromkeys(setting for log in logs.values() for setting in log.settings):
        values = {system: setting_of(log, setting) or "-" for system, log in logs.items()}
        if len(set(values.values())) > 1:
            rows.append((setting, values))
    return rows
