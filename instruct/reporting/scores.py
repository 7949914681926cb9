"""The unit scores of a bench, from which `instruct compare` computes its claims again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from instruct.analysis.results import WIN_RATE
from instruct.logs.read import by_task
from instruct.logs.tables import COLUMNS
from instruct.reporting.bench import GREEDY, MLE, SAMPLED, bench_scores, trainings_of
from instruct.reporting.read import RunContents, seeds_of
from instruct.reporting.run_logs import log_of, verdict_rows
from instruct.scores.scores import Row, Scores
from instruct.training.options import control_name, without_seed

# The task of what is measured on answers, samples and likelihoods.
TEST = "test"


def score_rows(contents: RunContents) -> Iterator[dict[str, Any]]:
    """A row for each training, measure and unit of a bench, with the columns of `instruct.logs.tables`.

    Units and clusters are hashes of what was asked: no text leaves the run. The untrained model stands beside MLE's
    trainings, one row each, and MLE beside itself has a win rate of 1/2.
    """
    tasks, trainings = by_task(bench_scores(contents)), trainings_of(contents.config)
    controls = set(map(control_name, trainings))
    for _, systems in sorted(tasks.items(), key=lambda found: found[0] != GREEDY):
        for system, found in systems.items():
            if system not in controls:
                yield from _rows(found if system in trainings else found * len(trainings[MLE]))
    sampled = tasks.get(SAMPLED, {})
    for key in trainings:
        if control_name(key) in sampled:
            for system, found in ((key, sampled.get(key, [])), (MLE, sampled[control_name(key)])):
                yield from _rows(found, system=system, task=f"samples at the entropy of {key}")
    yield from _verdicts(contents)


def _rows(trainings: Sequence[Scores], **about: Any) -> Iterator[dict[str, Any]]:
    for seed, log in enumerate(trainings, 1):
        for metric, values in log.values.items():
            task = TEST if log.task == metric else log.task
            shared = {"system": log.system, "seed": seed, "task": task, "measure": metric, "better": log.better[metric]}
            for unit, value, cluster in zip(log.units, values, log.clusters, strict=True):
                missing = math.isnan(value)
                row = {
                    **shared,
                    **about,
                    "unit": _hashed(unit),
                    "cluster": cluster and _hashed(cluster),
                    "value": None if missing else value,
                    "reason": "no value" if missing else None,
                    "weight": 1,
                }
                yield {column: row.get(column) for column in COLUMNS}


def _verdicts(contents: RunContents) -> Iterator[dict[str, Any]]:
    seeds = seeds_of(contents.config)
    itself: dict[tuple[str, int, str], dict[str, Row]] = {}

    def rows(system: str, judge: str, seed: int, against: str, scored: Iterable[Row]) -> Iterator[dict[str, Any]]:
        log = log_of(contents, system, judge)
        log.better[WIN_RATE] = "higher"
        for row in scored:
            log.add(row, judge)
        return _rows([log], seed=seed, against=against)

    for judged in contents.by_judge:
        candidate, baseline = judged.key.candidate, judged.key.baseline
        seed = seeds.get(candidate)
        if seed is None or seed != seeds.get(baseline):
            continue
        beside = judged.key.judge, seed, without_seed(baseline, seed)
        scored = [*verdict_rows(judged.pairs)]
        ties = itself.setdefault(beside, {})
        ties.update({row.unit: row._replace(values={WIN_RATE: 0.5}) for row in scored})
        yield from rows(candidate, *beside, scored)
    for beside, ties in itself.items():
        yield from rows(beside[2], *beside, ties.values())


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
