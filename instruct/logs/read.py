"""Finds the logs in files and folders, has each read by the reader of its tool, and tells whose each is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.logs.inspect import read_inspect
from instruct.logs.judgments import read_alpaca_eval, read_games
from instruct.logs.lm_eval import read_lm_eval
from instruct.logs.source import Columns, Source
from instruct.logs.tables import read_scores, read_table
from instruct.scores.join import place_of
from instruct.scores.scores import Scores


class Reader(NamedTuple):
    """How one tool's logs are read.

    `read`: the logs in a file; [] if the file belongs to logs of the tool, but has none; None if the tool did not write
    it. Raises InputError, with file, row and field, if the tool wrote it and it is not valid.
    `remedy`: what to do about a file for which `read` gives [], and no other.
    """

    tool: str
    read: Callable[[Source], list[Scores] | None]
    remedy: str = ""


# In the order in which they are asked; a table of any tool is the last.
READERS: tuple[Reader, ...] = (
    Reader("lm-eval", read_lm_eval, "evaluate with `lm_eval run --log_samples`, and give the samples_*.jsonl"),
    Reader("Inspect", read_inspect),
    Reader("alpaca_eval", read_alpaca_eval, "give the annotations.json beside it"),
    Reader("Arena-Hard, FastChat", read_games),
    Reader("instruct", read_scores),
    Reader("table", read_table),
)


class Found(NamedTuple):
    """The logs below a path that a user named, and the files there that no reader knows.

    `unknown`: why a file cannot be read, if it cannot.
    """

    logs: list[Scores]
    unknown: dict[Path, str | None]


def read_logs(path: str | Path, columns: Columns | None = None) -> Found:
    """The logs in a file, or in a folder, which is searched.

    Raises:
        InputError: no such file, an invalid log, or no log at all.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give the logs of an evaluation")
    files: Sequence[Path] = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    found, alone = Found([], {}), ""
    for file in files:
        source = Source(file, columns or Columns())
        for reader in READERS:
            if (logs := reader.read(source)) is not None:
                found.logs.extend(logs)
                if not logs:
                    alone = alone or f"{file}: is of {reader.tool}, without the rows of a log; {reader.remedy}"
                break
        else:
            found.unknown[file] = str(source.problem) if source.problem else None
    if found.logs:
        return found
    if alone:
        raise InputError(alone)
    if path.is_file() and source.problem:
        raise source.problem
    tools = ", ".join(reader.tool for reader in READERS)
    there = f": {one_line(', '.join(source.first), 200)}" if path.is_file() and source.first else ""
    raise InputError(
        f"{path}: is no log that can be read ({tools}); of a table, name the columns with its units and metrics{there}"
    )


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
    logs = [log for _, log in named]
    pattern = None if seeds is None else _seed_pattern(seeds)
    found = [pattern and pattern.search(str(log.path)) for log in logs]
    numbers = [match["seed"] if match else log.seed for match, log in zip(found, logs, strict=True)]
    paths = [
        Path(f"{str(log.path)[: match.start()]}/{str(log.path)[match.end() :]}") if match else log.path
        for match, log in zip(found, logs, strict=True)
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
    schemes = [
        models,
        [folder or model for folder, model in zip(folders, models, strict=True)],
        [f"{model} ({folder})" if folder else model for model, folder in zip(models, folders, strict=True)],
        [f"{model} ({log.run})" if log.run else file for model, log, file in zip(models, logs, files, strict=True)],
        files,
    ]
    twice: tuple[Scores, Scores] | None = None
    for scheme in schemes:
        systems = [given or name for (given, _), name in zip(named, scheme, strict=True)]
        keys = [(system, log.task, number) for system, log, number in zip(systems, logs, numbers, strict=True)]
        firsts = dict(zip(reversed(keys), reversed(logs), strict=True))
        again = next(((firsts[key], log) for key, log in zip(keys, logs, strict=True) if firsts[key] is not log), None)
        if again is None and (alone or len(set(systems)) > 1):
            return [replace(log, system=key[0], seed=key[2]) for key, log in zip(keys, logs, strict=True)]
        twice = twice or again
    if twice is None:
        raise InputError(
            f"{place_of(logs[0])}: all logs are of one system ({one_line(models[0], 60)}); give those of a second one"
        )
    one, other = twice
    raise InputError(
        f"{place_of(other)}: is a second log of the task {one_line(other.task, 60)} by the same system as "
        f"{place_of(one)}; drop one of them, name the systems (NAME=PATH), or say where the path has the training seed"
    )


def _seed_pattern(seeds: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(seeds)
    except re.error as error:
        raise InputError(f"seeds: {one_line(seeds, 60)!r} is no regular expression ({error})") from None
    if "seed" not in pattern.groupindex:
        raise InputError(f"seeds: {one_line(seeds, 60)!r} has no group named seed; write '(?P<seed>...)'")
    return pattern


def _differing(paths: Sequence[Path]) -> list[str]:
    """Of each path the parts between what all begin with and what all end with."""
    parts = [path.parts for path in paths]
    for _ in range(2):  # from the start, then from the end
        alike = itertools.takewhile(lambda items: len(set(items)) == 1, zip(*parts, strict=False))
        shared = len(list(alike))
        parts = [part[shared:][::-1] for part in parts]
    return ["/".join(part) for part in parts]


def by_task(found: Iterable[Scores]) -> dict[str, dict[str, list[Scores]]]:
    """The evaluations by task and system, those of several seeds in the order of the seeds."""
    tasks: dict[str, dict[str, list[Scores]]] = {}
    for each in found:
        tasks.setdefault(each.task, {}).setdefault(each.system, []).append(each)
    for systems in tasks.values():
        for trainings in systems.values():
            trainings.sort(key=lambda each: each.seed or "")
    return tasks
