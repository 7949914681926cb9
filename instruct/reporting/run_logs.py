"""What a run's judges and tasks said, as logs: so that runs are compared like the logs of other tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.data.prompts import identity
from instruct.logs.source import Columns
from instruct.reporting.read import Judged, RunContents, read_run, seeds_of
from instruct.scores.scores import Row, Scores
from instruct.training.options import without_seed

WIN_RATE = "win rate"


def logs_of_run(folder: str | Path, columns: Columns | None = None) -> list[Scores]:
    """The verdicts of a run's judges on each system and opponent, and its tasks, row by row.

    A verdict counts 1, ½ or 0, or what a weighted judge gave. Opponents are the baselines of comparisons; their own
    comparisons with each other are seen from both sides.

    Args:
        columns: as in `read_run`.

    Raises:
        InputError: not a run directory, or nothing in it to compare.
    """
    contents = read_run(folder, columns)
    logs = [*_verdicts(contents), *_tasks(contents)]
    if not logs:
        raise InputError(f"{contents.run.folder}: has no verdicts and no tasks; compare runs that have some")
    return logs


def _log(contents: RunContents, system: str, task: str, settings: Mapping[str, Any]) -> Scores:
    seed = seeds_of(contents.config).get(system)
    return Scores(
        tool="instruct",
        path=contents.run.folder / system,
        system=system if seed is None else without_seed(system, seed),
        task=task,
        seed=None if seed is None else str(seed),
        settings={name: value for name, value in settings.items() if value is not None},
    )


def _verdicts(contents: RunContents) -> Iterator[Scores]:
    opponents = {judged.key.baseline for judged in contents.judged}
    for judged in contents.judged:
        if judged.key.candidate == judged.key.baseline:
            continue
        for side, (system, opponent) in enumerate((judged.key[1:], judged.key[:0:-1])):
            if opponent in opponents:
                yield _of_opponent(contents, judged, system, opponent, mirrored=side == 1)


def _of_opponent(contents: RunContents, judged: Judged, system: str, opponent: str, mirrored: bool) -> Scores:
    asked = judged.step.get("inputs", {})
    settings = {
        "judge model": asked.get("judge", {}).get("model") or (judged.card.model if judged.card else None),
        "judge card": (asked.get("card") or "")[:12] or None,
        "policy": judged.leading,
        "orders": max(judged.times.values()),
        "judging": "not finished" if judged.step.get("status") in ("started", "stopped") else "finished",
    }
    seeds = seeds_of(contents.config)
    seed = seeds.get(opponent)
    name = without_seed(opponent, seed) if seed is not None and seed == seeds.get(system) else opponent
    task = f"{one_line(judged.key.judge, 60)} against {name}"
    log = _log(contents, system, task, settings)
    answers = judged.sides[0 if mirrored else 1]
    theirs: dict[str, list[str]] = {}
    for pair, row in answers.by_pair.items() if answers else ():
        theirs.setdefault(judged.conversations.get(pair, pair), []).append(str(row["output"]))
    ours = judged.sides[1 if mirrored else 0]
    texts = {identity(row): row for row in ours.rows} if ours else {}
    prompt = ", ".join(str(settings[name]) for name in ("judge model", "judge card", "policy", "orders"))
    for unit, score in judged.scores().items():
        row = texts.get(unit, {})
        value = score if score is None or not mirrored else 1 - score
        log.add(
            Row(
                unit,
                {WIN_RATE: value},
                "no verdict" if score is None else None,
                doc=unit,
                target="\n".join(theirs[unit]) if unit in theirs else None,
                prompt=prompt,
                question=str(row.get("instruction", unit)),
                response=str(row.get("output", "")),
            ),
            f"{contents.run.store}, {one_line(unit, 60)}",
        )
    return log


def _tasks(contents: RunContents) -> Iterator[Scores]:
    for systems in contents.tasks.values():
        for system, logs in systems.items():
            about = _log(contents, system, "", {})
            for log in logs:
                log.settings.pop("date", None)
                yield replace(log, path=about.path, system=about.system, seed=about.seed, run=None)
