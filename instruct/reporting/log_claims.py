"""What the logs of two systems say about their difference: a claim for each task, group of tasks and metric."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruct.analysis.results import Claim, Kind
from instruct.base.errors import InputError, counted, one_line
from instruct.reporting.model import ReportWarning, claim_warning, note_warning
from instruct.reporting.text import name
from instruct.scores import samples
from instruct.scores.claims import claim_of
from instruct.scores.join import Joined, join
from instruct.scores.scores import PARTS, Better, Scores

# Families of claims: the main metric of each task or group, that of the tasks in a group, and all other metrics.
MAIN, PARTS_OF_GROUPS, OTHERS = "tasks", "tasks of groups", "other metrics"
# Units to show: of each claim those that changed most, up and down, and altogether.
MOST_CHANGED, MOST_SHOWN = 10, 200
# More names than these are counted.
_MOST_NAMED = 5


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
        allow: see `join`.
        metrics: to compare, the main one first; (): all, the main one being a log's first.

    Raises:
        InputError: units cannot be joined, or no two systems have a metric.
    """

    def __init__(
        self,
        tasks: Mapping[str, Mapping[str, list[Scores]]],
        pairs: Sequence[tuple[str, str]],
        allow: Sequence[str],
        metrics: Sequence[str],
    ) -> None:
        self._metrics = metrics
        self._alone = [task for task, systems in tasks.items() if len(systems) == 1]
        self._shared: dict[tuple[str, str, str], Joined] = {}
        known: dict[str, None] = {}
        for task, systems in tasks.items():
            for candidate, baseline in pairs:
                every = [*systems.get(candidate, ()), *systems.get(baseline, ())]
                if candidate not in systems or baseline not in systems or not all(each.units for each in every):
                    continue  # a log may have figures alone
                both = dict.fromkeys(_in_all(every))
                known |= both
                if not metrics or any(metric in both for metric in metrics):
                    self._shared[task, candidate, baseline] = join(systems[candidate], systems[baseline], allow)
        if lacking := [metric for metric in metrics if metric not in known]:
            raise InputError(
                f"metric: {one_line(lacking[0], 60)!r} is in no task of two systems; their metrics are {listed(known)}"
            )

    def claims(self, simultaneous: int) -> list[Claim]:
        """The claims, which are not settled yet.

        Args:
            simultaneous: how many intervals of a task are to hold at once.
        """
        groups: dict[tuple[str, str, str], dict[str, bool]] = {}  # the tasks in each, and whether by their units
        for (task, *pair), shared in self._shared.items():
            for group, by_units in shared.baseline[0].groups.items():
                groups.setdefault((group, pair[0], pair[1]), {})[task] = by_units
        within = {(task, *pair) for (_, *pair), tasks in groups.items() for task in tasks}
        compared: list[tuple[str, list[Joined], bool | None, bool]] = [
            (key[0], [shared], None, key in within) for key, shared in self._shared.items()
        ]
        for (group, *pair), tasks in groups.items():
            inner = any(of == pair and tasks.keys() < others.keys() for (_, *of), others in groups.items())
            of_tasks = [self._shared[task, pair[0], pair[1]] for task in tasks]
            compared.append((group, of_tasks, all(tasks.values()), inner))
        claims = []
        for task, of_tasks, by_size, inner in compared:
            both = _in_all(of_tasks[0].every)
            metrics = [metric for metric in self._metrics if metric in both] if self._metrics else both
            for place, metric in enumerate(metrics):
                family = OTHERS if place else PARTS_OF_GROUPS if inner else MAIN
                shares = [
                    metric in _in_all(shared.every) and samples.is_share(shared.matrix(metric)) for shared in of_tasks
                ]
                if by_size is None or all(shares):
                    sample = _sample(of_tasks, metric, by_size, share=all(shares))
                    claims.append(_claim(of_tasks[0], metric, sample, simultaneous, task=task, family=family))
        return claims

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
            missing = sum((each.reasons for each in shared.every), Counter())
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


def _in_all(every: Sequence[Scores]) -> list[str]:
    """The metrics that all of these have, in the order of the last one."""
    return [metric for metric in every[-1].values if all(metric in each.values for each in every)]


def _sample(of_tasks: Sequence[Joined], metric: str, by_size: bool | None, share: bool) -> samples.Sample:
    """A task's difference, or the mean over those of a group, each counting by its number of units or all alike."""
    sides = [shared.sides(metric) for shared in of_tasks]
    clusters = [shared.clusters for shared in of_tasks]
    if by_size is not None:
        return samples.mean_over_tasks(sides, clusters, by_size, of_tasks[0].seeded)
    kind: Kind = "points" if share else "metric"
    return samples.difference(sides[0], clusters[0], kind=kind, share=share, seeded=of_tasks[0].seeded)


def _claim(shared: Joined, metric: str, sample: samples.Sample, simultaneous: int, **about: str) -> Claim:
    """A claim; `about`: its other fields."""
    first = shared.baseline[0]
    told = [each.better[metric] for each in shared.every if metric in each.better]
    better: Better = next(filter(None, told), "" if told else "higher")
    names = {"candidate": shared.candidate[0].system, "baseline": first.system}
    params = {"baseline_trainings": 1} if len(shared.candidate) > len(shared.baseline) else {}
    return claim_of(sample, simultaneous, measure=metric, better=better, params=params, **names, **about)


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Names in a sentence."""
    shown = ", ".join(one_line(name, 60) for name in itertools.islice(names, _MOST_NAMED))
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "") or "none"
