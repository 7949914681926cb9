"""What the logs of two systems say about their difference: a claim for each task, group of tasks and metric."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.claims import LEAST_SEEDS, bounded, enough_decided, make_claim
from instruct.analysis.clusters import cluster_of, numbered
from instruct.analysis.inference import (
    Estimate,
    crossed,
    mean_of_groups,
    paired_difference,
    paired_test_name,
    smallest_difference,
    unit_values,
)
from instruct.analysis.results import Claim
from instruct.analysis.seeds import score_difference
from instruct.base.errors import InputError, counted, one_line
from instruct.logs.align import Evaluation, Shared, align
from instruct.logs.log import PARTS
from instruct.reporting.model import ReportWarning, claim_warning, note_warning
from instruct.reporting.text import name

# Families of claims: the main metric of each task or group, that of the tasks in a group, and all other metrics.
MAIN, PARTS_OF_GROUPS, OTHERS = "tasks", "tasks of groups", "other metrics"
# Units to show: of each claim those that changed most, up and down, and altogether.
MOST_CHANGED, MOST_SHOWN = 10, 200
# More names than these are counted.
_MOST_NAMED = 5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Changed:
    """A unit on which two systems differ, with what they answered."""

    task: str
    metric: str
    unit: str
    candidate: str
    baseline: str
    candidate_value: float
    baseline_value: float
    question: str
    candidate_response: str
    baseline_response: str


class JoinedLogs:
    """The units that two systems share, by task and pair of systems, and the claims that follow.

    Args:
        tasks: by task and system, the evaluations of its trainings.
        pairs: candidates and baselines.
        allow: see `align`.
        metrics: to compare, the main one first; (): all, the main one being a log's first.

    Raises:
        InputError: units cannot be joined, or no two systems have a metric.
    """

    def __init__(
        self,
        tasks: Mapping[str, Mapping[str, list[Evaluation]]],
        pairs: Sequence[tuple[str, str]],
        allow: Sequence[str],
        metrics: Sequence[str],
    ) -> None:
        self._metrics = metrics
        self._alone = [task for task, systems in tasks.items() if len(systems) == 1]
        self._shared: dict[tuple[str, str, str], Shared] = {}
        known: dict[str, None] = {}
        for task, systems in tasks.items():
            for candidate, baseline in pairs:
                every = [*systems.get(candidate, ()), *systems.get(baseline, ())]
                if candidate not in systems or baseline not in systems or not all(each.log.units for each in every):
                    continue  # a log may have figures alone
                both = dict.fromkeys(_in_all(every))
                known |= both
                if not metrics or any(metric in both for metric in metrics):
                    self._shared[task, candidate, baseline] = align(systems[candidate], systems[baseline], allow)
        if lacking := [metric for metric in metrics if metric not in known]:
            raise InputError(
                f"metric: {one_line(lacking[0], 60)!r} is in no task of two systems; their metrics are {listed(known)}"
            )

    def claims(self, simultaneous: int) -> list[Claim]:
        """The claims, which are not settled yet.

        Args:
            simultaneous: how many intervals of a task are to hold at once.
        """
        groups = self._groups()
        parts = {(task, *pair) for (_, *pair), tasks in groups.items() for task in tasks}
        claims = []
        for key, shared in self._shared.items():
            for place, metric in enumerate(self._metrics_of(shared)):
                family = OTHERS if place else PARTS_OF_GROUPS if key in parts else MAIN
                claims.append(_task_claim(shared, metric, family, simultaneous))
        for (group, *pair), tasks in groups.items():
            inner = any(of == pair and tasks.keys() < others.keys() for (_, *of), others in groups.items())
            of_tasks = [self._shared[task, pair[0], pair[1]] for task in tasks]
            for place, metric in enumerate(self._metrics_of(of_tasks[0])):
                family = OTHERS if place else PARTS_OF_GROUPS if inner else MAIN
                if all(metric in _in_all(shared.every) and is_share(shared.matrix(metric)) for shared in of_tasks):
                    by_size = all(tasks.values())
                    claims.append(_group_claim(group, of_tasks, metric, by_size, family, simultaneous))
        return claims

    def _metrics_of(self, shared: Shared) -> list[str]:
        both = _in_all(shared.every)
        return [metric for metric in self._metrics if metric in both] if self._metrics else both

    def _groups(self) -> dict[tuple[str, str, str], dict[str, bool]]:
        """By group and pair of systems, the tasks in it, and whether they count by their number of units."""
        groups: dict[tuple[str, str, str], dict[str, bool]] = {}
        for (task, *pair), shared in self._shared.items():
            for group, by_size in shared.baseline[0].log.groups.items():
                groups.setdefault((group, pair[0], pair[1]), {})[task] = by_size
        return groups

    def cautions(self) -> Iterator[ReportWarning]:
        """What was left out, allowed, or cannot be checked, each with the tasks that it is about."""
        if self._alone:
            yield note_warning(f"{listed(self._alone)}: only one system has logs")
        said: dict[tuple[str, bool], list[str]] = {}
        for (task, candidate, baseline), shared in self._shared.items():
            pair = f"{name(candidate)} against {name(baseline)}"
            lines = [(f"the prompts differ ({text})", True) for text in dict.fromkeys(shared.differing)]
            if set(shared.unchecked) == set(PARTS):
                lines.append(("the logs have ids alone: nothing shows that they asked the same", True))
            for system, lacking in shared.lacking.items():
                if lacking:
                    units = counted(lacking, "unit")
                    compared = counted(len(shared.units), "shared unit")
                    lines.append((f"{name(system)} lacks {units} that the other has; compared on {compared}", False))
            missing = sum((each.log.reasons for each in shared.every), Counter())
            if missing:
                reasons = ", ".join(f"{one_line(reason, 60)}: {count}" for reason, count in missing.most_common(3))
                lines.append((f"rows without a value ({reasons})", False))
            for text, changes in lines:
                said.setdefault((f"{pair}: {text}", changes), []).append(task)
        for (text, changes), tasks in said.items():
            yield (claim_warning if changes else note_warning)(f"{listed(tasks)}: {text}")

    def changed(self, claims: Sequence[Claim]) -> tuple[list[Changed], int]:
        """The units that changed most, and how many changed."""
        shown: list[Changed] = []
        count = 0
        for claim in claims:
            shared = self._shared.get((claim.task or "", claim.candidate, claim.baseline))
            if shared is None:  # a group
                continue
            values = shared.matrix(claim.measure)
            ours, theirs = values[0], values[len(shared.candidate)]
            gains = np.nan_to_num(ours - theirs)
            count += int(np.count_nonzero(gains))
            up, down = (np.argsort(-sign * gains, kind="stable")[:MOST_CHANGED] for sign in (1, -1))
            chosen = dict.fromkeys([*up.tolist(), *down.tolist()])
            for unit in (unit for unit in chosen if gains[unit]):
                question, response = shared.texts(0, unit)
                shown.append(
                    Changed(
                        task=claim.task or "",
                        metric=claim.measure,
                        unit=shared.units[unit],
                        candidate=claim.candidate,
                        baseline=claim.baseline,
                        candidate_value=float(ours[unit]),
                        baseline_value=float(theirs[unit]),
                        question=question,
                        candidate_response=response,
                        baseline_response=shared.texts(len(shared.candidate), unit)[1],
                    )
                )
        return shown[:MOST_SHOWN], count


def _in_all(every: Sequence[Evaluation]) -> list[str]:
    """The metrics that all of these have, in the order of the last one."""
    return [metric for metric in every[-1].log.values if all(metric in each.log.values for each in every)]


def is_share(values: Array) -> bool:
    """Whether a metric with these values is from 0 to 1, so that differences are in points; NaN: missing."""
    known = values[np.isfinite(values)]
    return bool(known.size) and bool(known.min() >= 0 and known.max() <= 1)


class _Found(NamedTuple):
    """What the values of two systems say: the estimate in the metric's unit; of the units without a missing value what
    the candidate gains on each, and how many `clusters` they are; `missing` others."""

    estimate: Estimate
    gains: Array
    clusters: int
    missing: int


def _task_claim(shared: Shared, metric: str, family: str, simultaneous: int) -> Claim:
    values = shared.matrix(metric)
    share = is_share(values)
    n, estimate = _difference(shared, values, values)
    missing = len(shared.units) - n
    if missing and share and n:
        low, high = shared.matrix(metric, 0.0), shared.matrix(metric, 1.0)
        worst, best = _difference(shared, low, high)[1], _difference(shared, high, low)[1]
        estimate = bounded(estimate, worst, best, 0.0)
    gains = _mean_gains(shared, values)
    places = numbered(np.flatnonzero(np.isfinite(gains)), shared.clusters)
    gains = gains[np.isfinite(gains)]
    clusters = len(set(places.tolist()))
    test = "two-way" if len(shared.seeds) > 1 else paired_test_name(gains, places)
    found = _Found(estimate, gains, clusters, missing)
    kind: Literal["points", "metric"] = "points" if share else "metric"
    return _claim(shared, metric, found, simultaneous, kind, test=test, family=family)


def _claim(
    shared: Shared, metric: str, found: _Found, simultaneous: int, kind: Literal["points", "metric"], **about: Any
) -> Claim:
    """A claim; `about`: its other fields."""
    share, trainings, n = kind == "points", len(shared.seeds), len(found.gains)
    above, below = int((found.gains > 0).sum()), int((found.gains < 0).sum())
    told: dict[str, Any] = {"candidate_above": above, "baseline_above": below, **about.pop("params", {})}
    told |= {"clusters": found.clusters} if found.clusters < n else {}
    scaled = found.estimate.scaled(100 if share else 1)
    if simultaneous > 1:
        told["simultaneous"] = scaled.excluding(0.95 ** (1 / simultaneous))
    first = shared.baseline[0]
    fields = {
        "task": first.log.task,
        "measure": metric,
        "kind": kind,
        "candidate": shared.candidate[0].system,
        "baseline": first.system,
        "n": n,
        "value": scaled.value if n else None,
        "better": first.log.better.get(metric, "higher"),
        "enough": enough_decided(above, below, found.clusters) and (trainings == 1 or trainings >= LEAST_SEEDS),
        "trainings": trainings,
        "missing": found.missing,
        "params": told,
    }
    return make_claim(scaled, **fields | about)


def _difference(shared: Shared, ours: Array, theirs: Array) -> tuple[int, Estimate]:
    """The number of units with a value of all trainings, and the difference over them in the metric's unit.

    Args:
        ours, theirs: values of both systems to take the candidate's and the baseline's from.
    """
    first = [ours[candidate] for candidate, _ in shared.seeds]
    second = [theirs[baseline] for _, baseline in shared.seeds]
    kept = np.flatnonzero(np.isfinite(np.array([*first, *second])).all(axis=0))
    trainings = [
        [dict(zip(kept.tolist(), values[kept].tolist(), strict=True)) for values in of] for of in (first, second)
    ]
    if len(shared.seeds) > 1:
        found = score_difference(trainings[0], trainings[1], shared.clusters)
        return found.n, found.estimate
    found = paired_difference(trainings[0][0], trainings[1][0], shared.clusters)
    return found.n, found.estimate.scaled(0.01)


def _mean_gains(shared: Shared, values: Array) -> Array:
    """The mean over the trainings of what the candidate gains on each unit; NaN where a value is missing."""
    gains: Array = np.mean([values[one] - values[other] for one, other in shared.seeds], axis=0)
    return gains


def _group_claim(
    group: str, of_tasks: Sequence[Shared], metric: str, by_size: bool, family: str, simultaneous: int
) -> Claim:
    """The mean over a group's tasks, each counting by its number of units or all alike."""
    estimate = _over_tasks(of_tasks, metric, by_size)
    gains = [_mean_gains(shared, shared.matrix(metric)) for shared in of_tasks]
    kept = np.concatenate(gains)
    missing = int(np.isnan(kept).sum())
    if missing:
        worst, best = (_over_tasks(of_tasks, metric, by_size, filled) for filled in ((0.0, 1.0), (1.0, 0.0)))
        estimate = bounded(estimate, worst, best, 0.0)
    clusters = 0
    for shared, own in zip(of_tasks, gains, strict=True):
        clusters += len({cluster_of(place, shared.clusters) for place in np.flatnonzero(np.isfinite(own)).tolist()})
    found = _Found(estimate, kept[np.isfinite(kept)], clusters, missing)
    params = {"tasks": len(of_tasks), "weights": "units" if by_size else "tasks"}
    test = "two-way" if len(of_tasks[0].seeds) > 1 else "permutation"
    about = {"task": group, "test": test, "family": family, "params": params}
    return _claim(of_tasks[0], metric, found, simultaneous, "points", **about)


def _over_tasks(
    of_tasks: Sequence[Shared], metric: str, by_size: bool, filled: tuple[float, float] = (math.nan, math.nan)
) -> Estimate:
    """The mean difference over tasks.

    Args:
        filled: what a missing value of the candidate and of the baseline counts; NaN: such units are left out.
    """
    differences, clusters = [], []
    for shared in of_tasks:
        ours, theirs = (shared.matrix(metric, missing) for missing in filled)
        gains = np.array([ours[one] - theirs[other] for one, other in shared.seeds])
        kept = np.flatnonzero(np.isfinite(gains).all(axis=0))
        if len(kept):
            differences.append(gains[:, kept])
            clusters.append(numbered(kept.tolist(), shared.clusters))
    sizes = np.array([gains.shape[1] for gains in differences], dtype=float)
    weights = sizes / sizes.sum() if by_size else np.full(len(sizes), 1 / max(1, len(sizes)))
    if not len(sizes):
        return Estimate(math.nan, None, None)
    if len(differences[0]) == 1:
        return mean_of_groups([gains[0] for gains in differences], clusters, weights.tolist())
    # Units that weigh what they weigh in the mean: drawn from all tasks alike, which is more than they vary within.
    weighed = [
        weight * sizes.sum() * gains / gains.shape[1] for weight, gains in zip(weights, differences, strict=True)
    ]
    starts = np.cumsum([0, *(of.max() + 1 for of in clusters[:-1])])
    places = np.concatenate([of + start for of, start in zip(clusters, starts, strict=True)])
    return crossed(np.array([unit_values(training, places) for training in np.concatenate(weighed, axis=1)]))


def add_detectable(claims: Sequence[Claim]) -> None:
    """Add to settled claims in points the true difference that such units show in four of five cases (`detectable`),
    and how many units show one point (`units_for_a_point`)."""
    for claim in claims:
        interval = claim.interval
        if interval is None or not claim.in_points:
            continue
        half = (interval[1] - interval[0]) / 4  # of a win rate, whose differences from 50 are half as large
        units = claim.params.get("clusters", claim.n)
        smallest = smallest_difference(half / 1.96, units, claim.claims, half)
        if smallest is not None:
            claim.params["detectable"] = 2 * smallest
            claim.params["units_for_a_point"] = math.ceil(claim.n * (2 * smallest) ** 2)


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Names in a sentence."""
    shown = ", ".join(one_line(name, 60) for name in itertools.islice(names, _MOST_NAMED))
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "") or "none"
