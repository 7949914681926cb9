"""How many units, samples or seeds a comparison needs: from the logs of a pilot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from instruct.analysis.clusters import numbered
from instruct.analysis.inference import Estimate, cluster_values, mean_tests
from instruct.base.errors import InputError, one_line
from instruct.logs.read import by_task, evaluations
from instruct.logs.source import Columns
from instruct.reporting.compare_logs import Source, read_sources
from instruct.reporting.document import Document, Paragraph
from instruct.reporting.log_claims import listed
from instruct.reporting.tables import Column, columns_table, text_columns
from instruct.scores.join import join, place_of
from instruct.scores.samples import Array, is_share
from instruct.scores.scores import Scores

# A true difference is found in four of five cases by a two-sided test at 5 %.
_LEVEL, _POWER = 0.05, 0.8
_MOST_CLAIMS = 1_000_000
_LEAST = 1e-9  # the units for a smaller difference are more than can be counted
# Samples of each unit, and seeds, that a plan tells the units for.
_SAMPLES, _SEEDS = (1, 2, 4, 8), (3, 5, 10)
# Of two systems with one log: how many of the units that independent systems would differ on they differ on.
_ALIKE = {"systems that differ as independent ones do": 1.0, "systems that differ on half as many units": 0.5}
_NOTE = (
    "Units that show the difference in four of five cases, by a two-sided test at 5 %{claims}; of units in clusters, "
    "with clusters as large as the pilot's. The pilot's own variation is uncertain: with few units, so is the plan."
)


@dataclass(frozen=True)
class PlanRow:
    """How many `units` (in so many `clusters`) of a task are needed, with so many samples of each and seeds.

    `units`: None if no number of them is enough, as the seeds vary too much. `pilot`: units of the pilot.
    """

    task: str
    metric: str
    assuming: str
    pilot: int
    samples: int
    seeds: int
    units: int | None
    clusters: int | None


@dataclass(frozen=True)
class Plan:
    """The rows of a plan for a `difference`, in points where metrics are from 0 to 1."""

    difference: float
    claims: int
    rows: list[PlanRow]

    def document(self) -> Document:
        """A table."""
        of_claims = f", corrected for {self.claims} claims" if self.claims > 1 else ""
        columns = [
            *text_columns("task", "metric", "assuming"),
            Column("units of the pilot", "pilot"),
            Column("samples of each", "samples"),
            Column("seeds"),
            Column("units needed", lambda row: "no number is enough" if row.units is None else f"{row.units:,}"),
            Column("clusters needed", "clusters", when="known", form=",d"),
        ]
        title = f"To detect a difference of {self.difference:g}"
        return Document(title, [columns_table(title, self.rows, columns), Paragraph(_NOTE.format(claims=of_claims))])

    def content(self) -> dict[str, Any]:
        """All figures, for programs."""
        return asdict(self)


def plan_units(
    logs: Sequence[Source] | Mapping[str, Source],
    difference: float,
    *,
    metric: str | None = None,
    seeds: str | None = None,
    claims: int = 1,
    allow: Sequence[str] = (),
    columns: Columns | None = None,
) -> Plan:
    """How many units, samples of each and seeds detect a difference, from the logs of one system or several.

    Two systems tell how much their difference varies; of more, each is planned for beside the first. One tells that of
    its own values alone, so that the plan assumes how alike the other system is.

    Args:
        logs, seeds, allow, columns: see `compare_logs`.
        difference: in points where the metric is from 0 to 1, else in its unit.
        metric: None: the main metric of each task.
        claims: so many are to be made together.

    Raises:
        InputError: as `compare_logs`; a difference that is too small, or not possible.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapter 2; Miller, arXiv 2411.00640,
    for samples of each unit.
    """
    if not _LEAST <= difference < math.inf:
        raise InputError(f"difference {difference:g}: must be a number of {_LEAST:g} or more")
    if not 1 <= claims <= _MOST_CLAIMS:
        raise InputError(f"claims {claims}: must be from 1 to {_MOST_CLAIMS:,}")
    found = evaluations(read_sources(logs, columns)[0], seeds, alone=True)
    order = list(dict.fromkeys(each.system for each in found))
    tasks = by_task(found)
    known = dict.fromkeys(name for each in found for name in each.values)
    if metric is not None and metric not in known:
        raise InputError(f"metric: no task has {one_line(metric, 60)!r}; they have {listed(known)}")
    rows: list[PlanRow] = []
    for task, of_systems in tasks.items():
        first, *others = sorted(of_systems, key=order.index)
        name = metric or next(iter(of_systems[first][0].values), "")
        for names in [[first, other] for other in others] or [[first]]:
            pilot = [of_systems[each] for each in names]
            if all(name in each.values for trainings in pilot for each in trainings):
                about = f" of {' and '.join(one_line(each, 40) for each in names)}" if len(others) > 1 else ""
                rows += _of_task(task, name, pilot, difference, claims, allow, about)
    if not rows:
        raise InputError(f"{place_of(found[0])}: has no values to plan with; give logs with some")
    return Plan(difference, claims, rows)


def _of_task(
    task: str,
    metric: str,
    systems: Sequence[list[Scores]],
    difference: float,
    claims: int,
    allow: Sequence[str],
    about: str,
) -> Iterator[PlanRow]:
    if len(systems) == 2:
        shared = join(systems[1], systems[0], allow)
        ours, theirs = shared.sides(metric)(math.nan)
        gains, of_clusters = ours - theirs, shared.clusters
        assumptions = {f"the pilot's difference{about}": 1.0}
    else:
        systems = [systems[0][:1]]
        each = systems[0][0]
        gains, of_clusters = each.means(metric)[None], each.clusters_of(np.arange(len(each.places)))
        assumptions = {words: 2 * share for words, share in _ALIKE.items()}
    every = [each for side in systems for each in side]
    scale = 100 if all(is_share(np.frombuffer(each.values[metric])) for each in every) else 1
    if difference >= scale == 100:
        raise InputError(f"difference {difference:g}: must be less than 100 points")
    kept = np.flatnonzero(np.isfinite(gains).all(axis=0))
    whole = len(gains) == 1 and set(np.unique(gains[:, kept])) <= {-1.0, 0.0, 1.0}  # right or wrong
    gains, places = scale * gains[:, kept], numbered(of_clusters[kept].tolist())
    n, clusters = len(kept), len(set(places.tolist()))
    about = f"{place_of(every[0])}: the task {one_line(task, 60)} has"
    if clusters < 2:
        raise InputError(f"{about} {clusters} independent units with a value; a plan needs 2 or more")
    per_unit = np.array([cluster_values(training, places, np.ones(n)) for training in gains])
    if not np.ptp(per_unit):
        raise InputError(f"{about} the same value on every unit; a plan needs a pilot whose units differ")
    of_samples = [np.mean([_within(each, metric) for each in side]) for side in systems]
    within = scale**2 * float(sum(of_samples))  # of one sample of each side
    measured = min(int(np.bincount(each.of_row).min()) for each in every)
    designs = itertools.product(
        assumptions.items(), _SEEDS if len(gains) > 1 else (1,), _SAMPLES if within > 0 else (1,)
    )
    for (assuming, share), seeds, samples in designs:
        variances = _variances(per_unit, share, within * share, measured, samples)
        units = _units(variances, seeds, difference, claims)
        if units and scale == 100 and len(gains) == 1 and clusters == n and not whole:
            units = _units_of_grades(gains[0] / 100, len(systems) == 1, sum(variances), units, difference, claims)
        least = _least_units(difference / scale, claims) if whole and samples == 1 else 0
        yield PlanRow(
            task=task,
            metric=metric,
            assuming=assuming,
            pilot=n,
            samples=samples,
            seeds=seeds,
            units=None if units is None else max(least, math.ceil(units * n / clusters)),
            clusters=None if units is None or clusters == n else units,
        )


def _within(each: Scores, metric: str) -> float:
    """The variance of a unit's samples, over the units with several; 0 without any."""
    values, counts = np.frombuffer(each.values[metric]), np.bincount(each.of_row)
    deviations = (values - each.means(metric)[each.of_row]) ** 2
    sums = np.bincount(each.of_row, np.nan_to_num(deviations))
    several = counts > 1
    return float((sums[several] / (counts[several] - 1)).mean()) if several.any() else 0.0


def _variances(per_unit: Array, share: float, within: float, measured: int, samples: int) -> tuple[float, float, float]:
    """The variance of a training's mean, of a unit's, and of the rest, each of one of them.

    Args:
        per_unit: differences, shape (trainings, units).
        share: how many times as much a unit's difference varies as these.
    """
    mean, by_unit, by_training = per_unit.mean(), per_unit.mean(axis=0), per_unit.mean(axis=1)
    trainings, units = per_unit.shape
    of_unit = share * float(by_unit.var(ddof=1))
    of_training = rest = 0.0
    if trainings > 1:
        left = per_unit - by_training[:, None] - by_unit + mean
        rest = float((left**2).sum()) / ((trainings - 1) * (units - 1))
        of_training = max(0.0, float(by_training.var(ddof=1)) - rest / units)
        of_unit = max(0.0, of_unit - rest / trainings)
    sampled = within / samples - within / measured  # what other samples add
    if trainings > 1:
        rest = max(0.0, rest + sampled)
    else:
        of_unit = max(0.0, of_unit + sampled)
    return of_training, of_unit, rest


def _units(variances: tuple[float, float, float], seeds: int, difference: float, claims: int) -> int | None:
    """How many independent units are needed; None: no number is enough."""
    of_training, of_unit, rest = variances
    tails = (1 - _LEVEL / 2 / claims, _POWER)
    if seeds > 1:
        from scipy.special import stdtrit

        quantiles = [float(stdtrit(seeds - 1, tail)) for tail in tails]
    else:
        quantiles = [NormalDist().inv_cdf(tail) for tail in tails]
    error = difference / sum(quantiles)  # with which it is found
    room = error * error - of_training / seeds
    return max(2, math.ceil((of_unit + rest / seeds) / room)) if room > 0 else None


def _units_of_grades(gains: Array, alone: bool, variance: float, normal: int, difference: float, claims: int) -> int:
    """How many units with grades from 0 to 1 are needed: the test of their mean finds less than the normal one.

    Args:
        gains: of the pilot, from -1 to 1; of one system `alone` its grades, beside which another's are others of them.
        variance: of a unit, in points. normal: the units that the normal test needs.
    """
    if alone:
        gains = gains - np.random.default_rng(0).permutation(gains)
    ratings, level = (1 + gains) / 2, _LEVEL / claims
    mean, error, z = 100 * float(ratings.mean()), 100 * float(ratings.std()), NormalDist().inv_cdf(1 - level / 2)

    def needed(units: int) -> int:
        interval = Estimate(mean, mean_tests(ratings, np.ones(1), units), least=0.0, most=100.0).within(1 - level)
        assert interval is not None
        half = mean - interval[0] if mean > 50 else interval[1] - mean  # towards no difference
        quantiles = max(z, half / error * math.sqrt(units)) + NormalDist().inv_cdf(_POWER)
        return math.ceil(variance * (quantiles / difference) ** 2)

    units = normal
    while needed(units) > units:
        units = max(units + 1, math.floor(units * 1.02))
    return units


def _least_units(difference: float, claims: int) -> int:
    """How many units that are right or wrong are needed even if the better system loses none of them.

    The exact test rejects if it wins enough of them: so few may differ that it never can.

    Args:
        difference: as a share of the units.
    """
    from scipy.stats import binom

    wins = math.ceil(1 + math.log2(claims / _LEVEL))
    least = wins
    while binom.sf(wins - 1, least, difference) < _POWER:
        least = max(least + 1, math.floor(least * 1.01))
    return least
