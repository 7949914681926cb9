"""The report's part about texts: systems by metrics, with intervals, tests between them, and the control."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from instruct.analysis.clusters import numbered
from instruct.analysis.inference import Estimate, mean_score
from instruct.analysis.jackknife import kept
from instruct.analysis.results import ELSEWHERE, Claim
from instruct.base.errors import one_line
from instruct.measuring.mauve import ENOUGH_TEXTS
from instruct.measuring.predictions import PREDICTED
from instruct.measuring.sampled import SAMPLED
from instruct.reporting.digits import number, span
from instruct.reporting.read import seeds_of
from instruct.reporting.tables import CLUSTERS, DIFFERENCE, PAIR, TESTED, Column, Table, columns_table
from instruct.run.measurements import Details, Measurement, Metrics, by_system, clusters_of, metric_step
from instruct.scores import samples
from instruct.scores.claims import claim_of, of_family
from instruct.scores.join import join
from instruct.scores.scores import Row, Scores
from instruct.training.options import without_seed

# Values of each text by part and system, as `instruct evaluate` kept them.
Values = Mapping[str, Mapping[str, Mapping[str, Any]]]
# The part of a report's measurements about texts, of its measurements of human texts, and the family of claims.
TEXTS, HUMAN = "texts", "texts/human"
# What a metric is measured from that is a system's own (instruct.measuring).
_OWN = {"weights", "at", "temperatures", "continuations"}
_UNSEEN_PERCENT = _EMPTY_PERCENT = 5
# With fewer texts the jackknife's interval of a figure that is no mean over texts covers too little.
LEAST_TEXTS = 100
_ABOUT_METRICS = (
    "In brackets the 95 % interval for other texts and, with several training seeds, other trainings. A control "
    "(mle-matched-SYSTEM) is MLE sampled at the temperature that gives it the system's entropy: what a system "
    "gains over MLE but not over its control is sharpening. Compare figures of sampled texts at equal numbers only."
)
_ABOUT_TESTS = (
    "The candidate's figure minus the other's on the same texts. p (Holm) is corrected for all tests of this table. "
    "Jackknife: Student's t over 40 groups of texts (of whole clusters) and, with several training seeds, over "
    f"trainings, from {LEAST_TEXTS} texts on."
)


# In the order of the tables.
METRICS = PREDICTED | SAMPLED


@dataclass(frozen=True)
class _Group:
    """Systems that differ in their training seed alone: their measurements by metric, after each system's name, and by
    metric what each training scored."""

    name: str
    control_of: str | None
    objective: str | None
    rows: dict[str, Mapping[str, Measurement]] = field(default_factory=dict)
    scores: dict[str, list[Scores]] = field(default_factory=dict)

    def measured(self, metric: str) -> list[Measurement]:
        """The rows of a metric that have a value."""
        return [row for rows in self.rows.values() if (row := rows.get(metric)) and row.value is not None]

    @property
    def sampled(self) -> bool:
        """Whether a metric is of texts that the systems wrote."""
        return any(metric in SAMPLED for metric in self.scores)


class TextResults(NamedTuple):
    """What a report says about texts."""

    measurements: list[Measurement]
    claims: list[Claim]
    warnings: list[str]


def text_results(metrics: Metrics, values: Values, config: Mapping[str, Any], steps: Mapping[str, Any]) -> TextResults:
    """The report of metrics.json about texts.

    Args:
        values: those of each text by part and system; what is missing has no interval and no test.
        config: what the run ran with: its systems' objectives and seeds.
        steps: the manifest's: what each metric of each system was measured from.
    """
    groups = [group for group in _groups(metrics, values, config) if group.scores]
    if not groups:
        return TextResults([], [], [])
    return TextResults(
        [*(row for group in groups for row in _measurements(group)), *_human(metrics)],
        _claims(groups),
        [*_warnings(groups), *_measured_differently(metrics, steps)],
    )


def text_systems(measurements: Iterable[Measurement], part: str = TEXTS) -> dict[str, dict[str, Measurement]]:
    """A report's measurements about texts, by system and metric."""
    return by_system((row, row.metric) for row in measurements if row.part == part)


def control_of(rows: Mapping[str, Measurement]) -> str | None:
    """The system whose entropy this one, a control, was matched to; None: it is no control."""
    matched = rows.get("matched_temperature")
    return matched.details.system if matched else None


def _groups(metrics: Metrics, values: Values, config: Mapping[str, Any]) -> list[_Group]:
    """In the order of the config's systems; a control follows its system."""
    systems, seeds = config.get("systems") or {}, seeds_of(config)
    groups: dict[str, _Group] = {}
    for name, rows in metrics.texts.items():
        control = rows.get("matched_temperature")
        of_system = control.details.system if control else None
        seed = seeds.get(of_system or name)
        base, of = without_seed(name, seed), without_seed(of_system, seed) if of_system else None
        system = systems.get(name, {})
        objective = ELSEWHERE if system.get("adapter") else system.get("objective")
        group = groups.setdefault(base, _Group(base, of, objective))
        group.rows[name] = rows
        for metric in METRICS:
            row = rows.get(metric)
            if row and row.value is not None:
                scores = text_scores(row, values.get(row.part, {}).get(name, {}), seed)
                group.scores.setdefault(metric, []).append(scores)
    order = {name: place for place, name in enumerate(systems)}
    places = {group.name: min(order.get(name, len(order)) for name in group.rows) for group in groups.values()}
    return sorted(
        groups.values(),
        key=lambda group: (places.get(group.control_of or group.name, len(order)), bool(group.control_of)),
    )


def text_scores(row: Measurement, columns: Mapping[str, Any], seed: int | None = None) -> Scores:
    """The value of a row with what its uncertainty is estimated from: the value without each group of texts, which a
    figure of whole samples keeps; of others it is that of a mean over texts (a prefix's is the mean of its samples), or
    of nats per token.

    Args:
        columns: the values of each text.
    """
    metric, number = row.metric, None if seed is None else str(seed)
    scores = Scores("instruct", Path(row.part, row.system), row.system, metric, seed=number)
    scores.figures[metric], scores.variances[metric] = row.value or 0.0, row.details.other_variance
    enough = (row.n or 0) >= LEAST_TEXTS
    whole = (columns.get("without") or {}).get(metric, ())
    scores.without[metric] = np.array(whole if enough else ())
    if len(whole):
        return scores
    clusters = {str(id): cluster for id, cluster in clusters_of(columns).items()}
    means = _by_id(columns, metric, np.mean)
    for id, value in means.items():
        scores.add(Row(id, {metric: value}, cluster=clusters.get(id)), row.part)
    sums, counts = means, dict.fromkeys(means, 1.0)
    if not means:
        sums, counts = (_by_id(columns, name, np.sum) for name in ("nats", "tokens"))
    if ids := sorted(sums):
        left = kept(numbered(ids, clusters))
        above, below = (left @ np.array([column[id] for id in ids]) for column in (sums, counts))
        if below.all() and enough:
            scores.without[metric] = above / below if means or metric == "entropy" else np.exp(above / below)
    return scores


def _by_id(columns: Mapping[str, Any], name: str, together: Callable[[list[float]], Any]) -> dict[str, float]:
    by_id: dict[str, list[float]] = {}
    for key, value in zip(columns.get("id", ()), columns.get(name, ()), strict=False):
        if value is not None:
            by_id.setdefault(str(key), []).append(float(value))
    return {key: float(together(values)) for key, values in by_id.items()}


def _measurements(group: _Group) -> Iterator[Measurement]:
    """The mean of each metric over the group's trainings, with an interval for other texts and other trainings.

    MAUVE has its divergence curve; forward cross-entropy, of MLE, `by_temperature`.
    """
    about: dict[str, Any] = {"trainings": len(group.rows)}
    if group.control_of:
        temperatures = [row.value for row in group.measured("matched_temperature") if row.value is not None]
        mean = float(np.mean(temperatures)) if temperatures else None
        matched = Details(system=group.control_of, **about)
        yield Measurement(system=group.name, part=TEXTS, metric="matched_temperature", value=mean, details=matched)
    for metric, traits in METRICS.items():
        if metric not in group.scores:
            continue
        mean_of_trainings = _mean(metric, group.scores[metric])
        curves: dict[str, Any] = {}
        if metric == "forward_cross_entropy":
            curves["by_temperature"] = _by_temperature(group)
        interval = mean_of_trainings.interval
        yield Measurement(
            system=group.name,
            part=TEXTS,
            metric=metric,
            value=mean_of_trainings.value,
            interval=interval and np.clip(interval, 0, traits.most).tolist(),
            details=Details(**about, **curves),
        )


def _mean(metric: str, trainings: Sequence[Scores]) -> Estimate:
    """The mean of a metric over trainings: of a mean over texts by its texts, else by the jackknife."""
    first, share = trainings[0], METRICS[metric].most == 1
    if not first.units or any(each.places.keys() != first.places.keys() for each in trainings):
        return samples.figures(metric, trainings).at(math.nan)
    values = [each.means(metric)[[each.places[unit] for unit in first.places]] for each in trainings]
    clusters = first.clusters_of(np.arange(len(first.places)))
    return mean_score(np.array(values), clusters, share=share, null=0.0).on_scale(0.01 if share else 1.0)


def _by_temperature(group: _Group) -> list[list[float]]:
    """Temperature, forward and reverse cross-entropy of a system, means over its trainings; [] if it has one alone."""
    forward, reverse = (
        [
            sorted([[row.details.temperature, row.value or 0.0], *row.details.curve], key=lambda point: point[0])
            for row in group.measured(f"{way}_cross_entropy")
            if row.details.curve
        ]
        for way in ("forward", "reverse")
    )
    first, second = _mean_points(forward), _mean_points(reverse)
    return [[*one, other[1]] for one, other in zip(first, second, strict=False)]


def _mean_points(paths: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """The mean over trainings of each point of a path; []: there is none, or they have different numbers of points."""
    means: list[list[float]] = np.mean(paths, axis=0).tolist() if len({len(path) for path in paths}) == 1 else []
    return means


def _claims(groups: Sequence[_Group]) -> list[Claim]:
    """Every system against MLE (or the first system) and against its control, by every metric of both."""
    by_name = {group.name: group for group in groups}
    systems = [group for group in groups if group.control_of is None]
    if not systems:
        return []
    standard = next((group for group in systems if group.objective == "mle"), systems[0])
    pairs = [(group, standard) for group in systems if group is not standard]
    pairs += [(by_name[group.control_of], group) for group in groups if group.control_of in by_name]
    return [claim for metric in METRICS for pair in pairs if (claim := _claim(metric, *pair))]


def _claim(metric: str, first: _Group, second: _Group) -> Claim | None:
    """None: the systems share no text, or one lacks the metric.

    Of a mean over texts, the claim of the differences of these; of other figures, the jackknife.
    """
    of_first, of_second = first.scores.get(metric, []), second.scores.get(metric, [])
    every = [*itertools.product(of_first, of_second)]
    pairs = [(ours, theirs) for ours, theirs in every if ours.seed == theirs.seed]
    if not pairs and 1 in (len(of_first), len(of_second)):
        # A system without training seeds, such as the untrained model, is compared with each training of the other.
        pairs = every
    if not pairs or any(ours.places.keys() != theirs.places.keys() for ours, theirs in pairs):
        return None
    one = pairs[0][0]
    if one.units:
        shared = join([ours for ours, _ in pairs], [theirs for _, theirs in pairs], paired=False)
        share = METRICS[metric].most == 1
        sample = samples.difference(shared.sides(metric), shared.clusters, kind="metric", share=share)
    elif len({len(each.without[metric]) for pair in pairs for each in pair}) > 1:
        return None
    else:
        sample = samples.figures(metric, *zip(*pairs, strict=True))
    drawn = len(np.unique(one.clusters_of(np.arange(len(one.units)))))
    alone = any(group.objective == ELSEWHERE and len(group.scores[metric]) == 1 for group in (first, second))
    sample = replace(
        sample,
        n=len(one.units),
        enough=None,
        trainings=1 if alone else len(pairs),
        params={"clusters": drawn} if drawn < len(one.units) else {},
    )
    names: dict[str, Any] = {"candidate": first.name, "baseline": second.name}
    return claim_of(sample, measure=metric, better=METRICS[metric].better, family=TEXTS, **names)


def _human(metrics: Metrics) -> list[Measurement]:
    """Of the first system's prefixes; all systems continue the same ones."""
    human = {row.metric: row.details.human for row in reversed(metrics.measurements) if row.details.human is not None}
    return [
        Measurement(system="human", part=HUMAN, metric=metric, value=human[metric])
        for metric in METRICS
        if metric in human
    ]


def _warnings(groups: Sequence[_Group]) -> Iterator[str]:
    yield from _without_control(groups)
    mauves = [row for group in groups for row in group.measured("mauve")]
    if mauves and (fewest := min(row.n or 0 for row in mauves)) < ENOUGH_TEXTS:
        yield f"MAUVE of {fewest} texts is noisy; {ENOUGH_TEXTS:,} are recommended"
    if len({(row.n, row.details.features, row.details.max_length) for row in mauves}) > 1:
        yield (
            "MAUVE was computed from different numbers of texts or different features, and does not compare; "
            "run `instruct evaluate` again"
        )
    for name, rows in ((one_line(name, 60), rows) for group in groups for name, rows in group.rows.items()):
        if "repetition" in rows:
            empty, count = rows["repetition"].details.empty, rows["repetition"].details.continuations
            if 100 * empty > _EMPTY_PERCENT * count:
                yield f"{empty} of {count} continuations of {name} are empty"
        if "rouge1" in rows:
            unseen, count = rows["rouge1"].details.without_tokens, rows["rouge1"].n or 0
            if 100 * unseen > _UNSEEN_PERCENT * count:
                yield (
                    f"ROUGE sees no token in {unseen} of {count} pairs of {name}: it reads the letters a to z and "
                    "digits only"
                )


def _without_control(groups: Sequence[_Group]) -> Iterator[str]:
    """A warning for each objective that is compared with MLE on sampled texts, but not with MLE at its entropy."""
    controlled = {group.control_of for group in groups if group.sampled}
    compared = [group for group in groups if group.control_of is None and group.sampled]
    for group in compared if len(compared) > 1 else ():
        if group.objective not in (None, "none", "mle") and group.name not in controlled:
            controls = [rows.get("matched_temperature") for rows in group.rows.values()]
            reasons = [control.details.reason for control in controls if control and control.details.reason]
            why = f" ({one_line(reasons[0], 200)})" if reasons else ""
            yield (
                f"{one_line(group.name, 60)} has no matched-temperature control{why}: its difference from MLE on "
                "sampled texts may be sharpening, which a lower temperature gives for nothing"
            )


def _measured_differently(metrics: Metrics, steps: Mapping[str, Any]) -> Iterator[str]:
    """A warning for each metric whose systems were measured on different human texts or with different settings."""
    rows = [row for rows in metrics.texts.values() for row in rows.values()]
    for part in dict.fromkeys(row.part for row in rows):
        names = dict.fromkeys(row.system for row in rows if row.part == part)
        records = [steps[step] for name in names if (step := metric_step(part, name)) in steps]
        shared = [{key: value for key, value in record["inputs"].items() if key not in _OWN} for record in records]
        if any(inputs != shared[0] for inputs in shared):
            yield (
                f"{part} was measured on different texts, or with different settings, for different systems; run "
                "`instruct evaluate` again"
            )


def text_tables(measurements: Sequence[Measurement], claims: Sequence[Claim]) -> list[Table]:
    """The metrics of every system, the tests between them."""
    systems = text_systems(measurements)
    human = text_systems(measurements, HUMAN).get("human", {})
    metrics = [metric for metric in METRICS if any(metric in rows for rows in systems.values())]
    columns = [
        Column("metric", lambda metric: METRICS[metric].label, text=True),
        Column("read as", lambda metric: METRICS[metric].reading, text=True),
    ]
    columns += [Column(_heading(name, rows), _figure).within(rows.get) for name, rows in systems.items()]
    columns += [Column("human", _figure).within(human.get)]
    tests = [
        Column("metric", lambda claim: METRICS[claim.measure].label, text=True),
        *PAIR,
        *DIFFERENCE,
        *TESTED,
        Column("test"),
        Column("trainings"),
        Column("texts", lambda claim: claim.n if "clusters" in claim.params else None),
        CLUSTERS,
    ]
    rows = of_family(claims, TEXTS)
    return [
        columns_table("Texts", metrics, columns, _ABOUT_METRICS),
        columns_table("Texts: differences", rows, tests, _ABOUT_TESTS),
    ]


def _heading(name: str, rows: Mapping[str, Measurement]) -> str:
    """The system, the temperature of a control, and the number of trainings if there are several."""
    trainings = next(iter(rows.values())).details.trainings
    about = [f"{trainings} seeds"] if trainings > 1 else []
    matched = rows.get("matched_temperature")
    if matched and matched.value is not None:
        about.insert(0, f"T {matched.value:.3f}")
    return f"{name} ({', '.join(about)})" if about else name


def _figure(row: Measurement) -> str:
    return number(row.value, row.interval) + (f" ({span(row.interval)})" if row.interval else "")
