"""The unit scores of a bench, from which `instruct compare` computes its claims again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from instruct.logs.tables import COLUMNS
from instruct.reporting.bench import GREEDY, MLE, SAMPLED, better_values, measured_in
from instruct.reporting.read import RunContents, seeds_of
from instruct.reporting.run_logs import WIN_RATE
from instruct.scores.samples import Values
from instruct.training.options import control_name, without_seed

# The task of what is measured on answers, samples and likelihoods.
TEST = "test"


def score_rows(contents: RunContents) -> Iterator[dict[str, Any]]:
    """A row for each training, measure and unit of a bench, with the columns of `instruct.logs.tables`.

    Units and clusters are hashes of what was asked: no text leaves the run. The untrained model stands beside MLE's
    trainings, one row each, and MLE beside itself has a win rate of 1/2.
    """
    measured = measured_in(contents)
    trained = {name for names in measured.names.values() for name in names}
    systems: dict[str, Sequence[str]] = dict(measured.names)
    for name, system in contents.config["systems"].items():
        if system["objective"] == "none" and name not in trained:
            systems[name] = [name] * len(measured.names[MLE])
    for measure in sorted(measured.scores, key=lambda measure: measure != GREEDY):
        task, metric = TEST, measure
        if measure in measured.clusters:  # a task, whose measure is TASK (METRIC)
            task, _, metric = measure.removesuffix(")").partition(" (")
        for system, names in systems.items():
            about = {"system": system, "task": task, "measure": metric}
            yield from _rows(measured.of(measure, names), measure, measured.clusters.get(measure, {}), about)
    for key, names in measured.names.items():
        controls = [control_name(name) for name in names]
        if SAMPLED in measured.scores and measured.of(SAMPLED, controls):
            for system, of in ((key, names), (MLE, controls)):
                about = {"system": system, "task": f"samples at the entropy of {key}", "measure": SAMPLED}
                yield from _rows(measured.of(SAMPLED, of), SAMPLED, {}, about)
    yield from _verdicts(contents)


def _rows(
    trainings: Sequence[Values], measure: str, clusters: Mapping[Any, str], about: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for seed, scores in enumerate(trainings, 1):
        yield from _scored(scores, clusters, seed=seed, better=better_values(measure), **about)


def _verdicts(contents: RunContents) -> Iterator[dict[str, Any]]:
    seeds = seeds_of(contents.config)
    itself: dict[tuple[str, int, str], dict[str, float | None]] = {}

    def rows(system: str, judge: str, seed: int, against: str, scores: Values) -> Iterator[dict[str, Any]]:
        about = {"task": judge, "against": against, "measure": WIN_RATE, "better": "higher"}
        return _scored(scores, {}, system=system, seed=seed, **about)

    for judged in contents.by_judge:
        candidate, baseline = judged.key.candidate, judged.key.baseline
        seed = seeds.get(candidate)
        if seed is None or seed != seeds.get(baseline):
            continue
        beside = judged.key.judge, seed, without_seed(baseline, seed)
        scores = judged.scores()
        itself.setdefault(beside, {}).update(dict.fromkeys(scores, 0.5))
        yield from rows(without_seed(candidate, seed), *beside, scores)
    for beside, ties in itself.items():
        yield from rows(beside[2], *beside, ties)


def _scored(scores: Values, clusters: Mapping[Any, str], **about: Any) -> Iterator[dict[str, Any]]:
    for unit, score in scores.items():
        missing = score is None or not math.isfinite(score)
        row = {
            **about,
            "unit": _hashed(unit),
            "cluster": _hashed(clusters[unit]) if unit in clusters else None,
            "value": None if missing else score,
            "reason": "no value" if missing else None,
            "weight": 1,
        }
        yield {column: row.get(column) for column in COLUMNS}


def _hashed(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()[:16]
