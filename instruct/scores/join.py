"""Which units of two systems are the same, by their ids and by what was asked; others are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from instruct.base.errors import InputError, counted, one_line
from instruct.scores.samples import Array, Sides
from instruct.scores.scores import PARTS, Scores

# Settings that change what a model is shown.
PROMPT_SETTINGS = (
    "shots", "shots seed", "demonstrations as turns", "template", "system prompt", "solver", "task version",
    "judge model", "judge card", "policy", "orders",
)  # fmt: skip
# Allows every difference of the prompts.
ANY_PROMPT = "prompt"


@dataclass(frozen=True)
class Joined:
    """The units of a task that all trainings of two systems have.

    `places`: of each evaluation, the numbers of those units. `lacking`: by system, units that the other one has.
    `differing`: what the prompts of the same units differ in, which was allowed; `unchecked`: parts that some log does
    not have, so that nothing shows that they are the same. `paired`: whether each training stands beside another one.
    """

    candidate: list[Scores]
    baseline: list[Scores]
    units: list[str]
    places: list[NDArray[np.intp]]
    lacking: dict[str, int]
    differing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    paired: bool = True

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """The pairs of evaluations that are compared, seed with seed, by their numbers among all of both systems."""
        ours, theirs = len(self.candidate), len(self.baseline)
        numbers = range(max(ours, theirs))
        return [(min(number, ours - 1), ours + min(number, theirs - 1)) for number in numbers]

    @property
    def seeded(self) -> bool:
        """Whether the trainings have seeds."""
        return any(each.seed is not None for each in self.every)

    @property
    def every(self) -> list[Scores]:
        """The evaluations of both, the candidate's first."""
        return [*self.candidate, *self.baseline]

    def matrix(self, metric: str) -> Array:
        """Each evaluation's values of the shared units, see `Scores.means`: shape (evaluations, units)."""
        return self._values(range(len(self.every)), metric, math.nan)

    def sides(self, metric: str) -> Sides:
        """What both systems scored, training beside training, or all trainings of both."""
        sides = zip(*self.seeds, strict=True)
        first, second = sides if self.paired else map(dict.fromkeys, sides)
        return lambda missing: (self._values(first, metric, missing), self._values(second, metric, 1 - missing))

    def _values(self, numbers: Iterable[int], metric: str, missing: float) -> Array:
        return np.array([self.every[number].means(metric, missing)[self.places[number]] for number in numbers])

    def texts(self, number: int, unit: int) -> tuple[str, str]:
        """Question and response of a shared unit in one of `every`; empty where they were not kept."""
        each = self.every[number]
        row = each.first_rows[self.places[number][unit]]
        return each.texts[row] if row < len(each.texts) else ("", "")

    @cached_property
    def clusters(self) -> NDArray[np.intp]:
        """The number of each shared unit's cluster, as in the first evaluation that has any."""
        for each, places in zip(self.every, self.places, strict=True):
            if any(each.clusters):
                return each.clusters_of(places)
        return np.arange(len(self.units))


def join(candidate: list[Scores], baseline: list[Scores], allow: Sequence[str] = (), paired: bool = True) -> Joined:
    """Join the units of two systems' logs of one task, by their ids and by what they asked.

    Args:
        candidate, baseline: of each training seed; one baseline may stand beside several seeds of the candidate.
        allow: settings in which the prompts may differ (PROMPT_SETTINGS), or ANY_PROMPT.
        paired: whether each training stands beside another one; otherwise their numbers may differ.

    Raises:
        InputError: rows or right answers of the same id differ, or prompts do in what is not allowed; no unit in
            common; seeds that do not pair.
    """
    every = [*candidate, *baseline]
    task, first = one_line(every[0].task, 60), baseline[0]
    ours, theirs = [each.seed for each in candidate], [each.seed for each in baseline]
    if paired and ours != theirs and len(theirs) != 1:
        raise InputError(
            f"{place_of(candidate[0])}: the task {task} has the seeds {', '.join(map(str, ours))} of "
            f"{one_line(candidate[0].system, 60)} and {', '.join(map(str, theirs))} of "
            f"{one_line(first.system, 60)}; give the same seeds of both, or one log of the baseline"
        )
    units = [unit for unit in first.places if all(unit in each.places for each in every)]
    if not units:
        other = next(each for each in every if not each.places.keys() & first.places.keys() or each is every[-1])
        raise InputError(
            f"{place_of(other)}: no unit of the task {task} is also in {place_of(first)} (such as "
            f"{one_line(next(iter(other.places), ''), 60)!r} and {one_line(next(iter(first.places), ''), 60)!r}); "
            "give logs of the same rows"
        )
    places = [np.fromiter((each.places[unit] for unit in units), np.intp, len(units)) for each in every]
    shared = Joined(candidate, baseline, units, places, _lacking(candidate, baseline), paired=paired)
    reference = len(candidate)
    for ours_at, theirs_at in shared.seeds:  # prompts and opponents may differ between seeds
        _check_same(shared, ours_at, theirs_at, PARTS, allow)
        if theirs_at != reference:
            _check_same(shared, ours_at, reference, ("doc",), allow)
    return shared


def _lacking(candidate: list[Scores], baseline: list[Scores]) -> dict[str, int]:
    has = {side[0].system: set.intersection(*(set(each.places) for each in side)) for side in (candidate, baseline)}
    either = set().union(*has.values())
    return {system: len(either) - len(units) for system, units in has.items()}


def _check_same(shared: Joined, number: int, reference: int, parts: Sequence[str], allow: Sequence[str]) -> None:
    """Whether the units of two of the evaluations are the same in these parts."""
    each, first = shared.every[number], shared.every[reference]
    task = one_line(first.task, 60)
    different: dict[str, NDArray[np.intp]] = {}
    for part in parts:
        one, other = _hashes(each, part)[shared.places[number]], _hashes(first, part)[shared.places[reference]]
        both = (one != 0) & (other != 0)
        different[part] = np.flatnonzero(both & (one != other))
        if not both.all() and part not in shared.unchecked:
            shared.unchecked.append(part)
    for part, words in (("doc", "row"), ("target", "right answer, or opponent's answer,")):
        if len(different.get(part, ())):
            unit = shared.units[different[part][0]]
            raise InputError(
                f"{place_of(each)}: {len(different[part])} of {counted(len(shared.units), 'unit')} of the task "
                f"{task} have another {words} than in {place_of(first)}, the first {one_line(unit, 60)!r}; give logs "
                "of the same rows"
            )
    if "prompt" not in different:
        return
    settings = []
    for name in PROMPT_SETTINGS:
        values = {setting_of(each, name), setting_of(first, name)}
        if len(values) == 2 and None not in values:
            settings.append(name)
    if len(different["prompt"]) or (settings and "prompt" in shared.unchecked):
        reasons = settings or [ANY_PROMPT]
        if ANY_PROMPT not in allow and not set(reasons) <= set(allow):
            raise InputError(_differing_prompts(shared, each, first, different["prompt"], settings))
        shared.differing.extend(_in_words(each, first, name) for name in reasons)


def _differing_prompts(
    shared: Joined, each: Scores, first: Scores, units: NDArray[np.intp], settings: Sequence[str]
) -> str:
    where = ""
    if len(units):
        unit = one_line(shared.units[units[0]], 60)
        where = f" to {len(units)} of {counted(len(shared.units), 'unit')}, the first {unit!r}"
    because = ", ".join(_in_words(each, first, name) for name in settings) or "the logs do not say why"
    allowed = " ".join(f"`allow` {name!r}" for name in settings or [ANY_PROMPT])
    return (
        f"{place_of(each)}: other prompts of the task {one_line(first.task, 60)} than in {place_of(first)}"
        f"{where} ({because}); evaluate both alike, or compare by row and right answer with {allowed}"
    )


def _hashes(each: Scores, part: str) -> NDArray[np.int64]:
    """What identifies a part of each unit's first row; 0: unknown."""
    return np.frombuffer(each.hashes[part], np.int64)[each.first_rows]


def place_of(log: Scores) -> str:
    """The file, for errors."""
    return one_line(log.path, 300)


def _in_words(one: Scores, other: Scores, name: str) -> str:
    if name == ANY_PROMPT:
        return "prompts"
    return f"{name}: {setting_of(one, name)}, not {setting_of(other, name)}"


def setting_of(log: Scores, name: str) -> str | None:
    """A setting as a line; None: unknown."""
    value = log.settings.get(name)
    return None if value is None else one_line(value, 80)
