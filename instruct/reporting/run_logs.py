"""What a run's judges and tasks said, as logs: so that runs are compared like the logs of other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from instruct.analysis.outcomes import PairResult, weighted_scores
from instruct.analysis.results import WIN_RATE
from instruct.base.errors import InputError, one_line
from instruct.logs.source import Columns
from instruct.reporting.read import Judged, RunContents, read_run, seeds_of
from instruct.scores.scores import Row, Scores
from instruct.training.options import control_name, without_seed


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


def log_of(contents: RunContents, system: str, task: str = "") -> Scores:
    """A log without rows, of a training or of a control, which has its system's seed."""
    seed = seeds_of(contents.config).get(system.removeprefix(control_name("")))
    path, number = contents.run.folder / system, None if seed is None else str(seed)
    return Scores("instruct", path, without_seed(system, seed), task, seed=number)


def _verdicts(contents: RunContents) -> Iterator[Scores]:
    opponents = {judged.key.baseline for judged in contents.judged}
    for judged in contents.judged:
        if judged.key.candidate == judged.key.baseline:
            continue
        for side in (0, 1):
            if judged.key[1:][1 - side] in opponents:
                yield _of_side(contents, judged, side)


def _of_side(contents: RunContents, judged: Judged, side: int) -> Scores:
    """The verdicts as the candidate (0) or the baseline (1) sees them."""
    asked, names = judged.step.get("inputs", {}), judged.key[1:]
    settings = {
        "judge model": asked.get("judge", {}).get("model") or (judged.card.model if judged.card else None),
        "judge card": (asked.get("card") or "")[:12] or None,
        "policy": judged.leading,
        "orders": max(judged.times.values()),
        "judging": "not finished" if judged.step.get("status") in ("started", "stopped") else "finished",
    }
    system, opponent = names[side], names[1 - side]
    seeds = seeds_of(contents.config)
    if seeds.get(opponent) == seeds.get(system):
        opponent = without_seed(opponent, seeds.get(opponent))
    log = log_of(contents, system, f"{one_line(judged.key.judge, 60)} against {opponent}")
    log.settings = {name: value for name, value in settings.items() if value is not None}
    ours, answers = judged.sides[side], judged.sides[1 - side]
    theirs = answers.by_pair if answers else {}
    texts = ours.by_pair if ours else {}
    prompt = ", ".join(str(settings[name]) for name in ("judge model", "judge card", "policy", "orders"))
    for row in verdict_rows([pair.mirrored for pair in judged.pairs] if side else judged.pairs):
        answer, opponents = texts.get(row.unit, {}), theirs.get(row.unit)
        asked = row._replace(
            doc=row.unit,
            target=str(opponents["output"]) if opponents else None,
            prompt=prompt,
            question=str(answer.get("instruction", row.unit)),
            response=str(answer.get("output", "")),
        )
        log.add(asked, f"{contents.run.store}, {one_line(row.unit, 60)}")
    return log


def verdict_rows(pairs: Sequence[PairResult]) -> Iterator[Row]:
    """The verdicts on pairs, weighed so that their mean is the win rate; turns of one conversation are a cluster."""
    for pair, score in zip(pairs, weighted_scores(pairs).tolist(), strict=True):
        value, reason = (None, "no verdict") if pair.score is None else (score, None)
        yield Row(pair.instruction, {WIN_RATE: value}, reason, cluster=pair.conversation or None)


def _tasks(contents: RunContents) -> Iterator[Scores]:
    for systems in contents.tasks.values():
        for system, logs in systems.items():
            about = log_of(contents, system)
            for log in logs:
                log.settings.pop("date", None)
                yield replace(log, path=about.path, system=about.system, seed=about.seed, run=None)
