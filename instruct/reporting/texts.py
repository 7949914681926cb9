"""The report's part about texts: systems by metrics, with intervals, tests between them, and the control."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruct.analysis.holm import holm
from instruct.analysis.inference import bootstrap_interval, sign_flip_test
from instruct.analysis.jackknife import JackknifeEstimate, difference, estimate
from instruct.analysis.text_results import (
    TextFigure,
    TextMetricName,
    TextReport,
    TextSystem,
    TextTest,
    TextTestName,
)
from instruct.base.errors import one_line
from instruct.measuring.texts.mauve import ENOUGH_TEXTS
from instruct.reporting.claims import seeds_of
from instruct.reporting.text_figures import METRICS, Columns, TextSample, text_sample
from instruct.run.measurements import Measurement, Metrics, metric_step
from instruct.training.options import without_seed

# Values of each text by part and system, as `instruct evaluate` kept them.
Values = Mapping[str, Mapping[str, Columns]]
# What a metric is measured from that is a system's own (instruct.measuring).
_OWN = {"weights", "at", "temperatures", "continuations"}
_UNSEEN_PERCENT = _EMPTY_PERCENT = 5


@dataclass(frozen=True)
class _Group:
    """Systems that differ in their training seed alone: their texts by seed, None for one without seeds."""

    name: str
    control_of: str | None
    names: dict[int | None, str]
    rows: dict[int | None, Mapping[str, Measurement]]
    samples: dict[TextMetricName, dict[int | None, TextSample]]

    def named(self) -> list[tuple[str, Mapping[str, Measurement]]]:
        """The rows of each training's system."""
        return [(name, self.rows[seed]) for seed, name in self.names.items()]

    def measured(self, metric: str) -> dict[str, Measurement]:
        """The rows of a metric that have a value, by system."""
        known = {name: rows.get(metric) for name, rows in self.named()}
        return {name: row for name, row in known.items() if row and row.value is not None}


def text_report(
    metrics: Metrics, values: Values, config: Mapping[str, Any], steps: Mapping[str, Any]
) -> TextReport | None:
    """The report of metrics.json; None: it has nothing about texts.

    Args:
        values: those of each text by part and system; what is missing has no interval and no test.
        config: what the run ran with: its systems' objectives and seeds.
        steps: the manifest's: what each metric of each system was measured from.
    """
    groups = _groups(metrics, values, config)
    if not any(group.samples for group in groups):
        return None
    shown = [group for group in groups if group.samples]
    return TextReport(
        systems=[_system(group) for group in shown],
        tests=_tests(shown, config),
        human=_human(metrics),
        warnings=[
            *steps.get("texts", {}).get("results", {}).get("warnings", []),
            *_warnings(shown, config),
            *_measured_differently(metrics, steps),
        ],
    )


def _groups(metrics: Metrics, values: Values, config: Mapping[str, Any]) -> list[_Group]:
    seeds = seeds_of(config)
    groups: dict[str, _Group] = {}
    for name, rows in metrics.texts.items():
        control = rows.get("matched_temperature")
        of_system = control.details.system if control else None
        seed = seeds.get(of_system or name)
        base = without_seed(name, seed)
        of = without_seed(of_system, seed) if of_system else None
        group = groups.setdefault(base, _Group(base, of, {}, {}, {}))
        group.names[seed], group.rows[seed] = name, rows
        for key in METRICS:
            if key in rows and (sample := text_sample(rows[key], values.get(rows[key].part, {}).get(name, {}))):
                group.samples.setdefault(key, {})[seed] = sample
    order = {name: place for place, name in enumerate(config.get("systems") or {})}
    places = {
        group.name: min(order.get(name, len(order)) for name in group.names.values()) for group in groups.values()
    }
    # A control follows its system.
    return sorted(
        groups.values(),
        key=lambda group: (places.get(group.control_of or group.name, len(order)), bool(group.control_of)),
    )


def _system(group: _Group) -> TextSystem:
    figures = []
    for key, by_seed in group.samples.items():
        mean = estimate([sample.measured for sample in by_seed.values()])
        figures.append(TextFigure(metric=key, value=mean.value, interval=METRICS[key].cut(mean.interval)))
    temperatures = [row.value for row in group.measured("matched_temperature").values()]
    return TextSystem(
        name=group.name,
        names=list(group.names.values()),
        control_of=group.control_of,
        temperatures=[temperature for temperature in temperatures if temperature is not None],
        figures=sorted(figures, key=lambda figure: list(METRICS).index(figure.metric)),
        curve=_mean_points([row.details.curve for row in group.measured("mauve").values()]),
        by_temperature=_by_temperature(group),
    )


def _by_temperature(group: _Group) -> list[list[float]]:
    """Temperature, forward and reverse cross-entropy of a system, means over its trainings; [] if it has one alone."""
    forward, reverse = (
        [
            sorted([[row.details.temperature, row.value or 0.0], *row.details.curve], key=lambda point: point[0])
            for row in group.measured(f"{way}_cross_entropy").values()
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


def _tests(groups: Sequence[_Group], config: Mapping[str, Any]) -> list[TextTest]:
    """Every system against MLE (or the first system) and against its control, by every metric of both."""
    by_name = {group.name: group for group in groups}
    objectives = {
        group.name: (config.get("systems") or {}).get(next(iter(group.names.values())), {}).get("objective")
        for group in groups
    }
    systems = [group for group in groups if group.control_of is None]
    if not systems:
        return []
    standard = next((group for group in systems if objectives[group.name] == "mle"), systems[0])
    pairs = [(group, standard) for group in systems if group is not standard]
    pairs += [(by_name[group.control_of], group) for group in groups if group.control_of in by_name]
    tests = [
        test
        for key in METRICS
        for first, second in pairs
        if key in first.samples and key in second.samples and (test := _test(key, first, second))
    ]
    for test, corrected in zip(tests, holm([test.p for test in tests]), strict=True):
        test.p_holm = corrected
    return tests


def _test(key: TextMetricName, first: _Group, second: _Group) -> TextTest | None:
    """None: the systems share no text."""
    ours, theirs = first.samples[key], second.samples[key]
    pairs = [(sample, theirs[seed]) for seed, sample in ours.items() if seed in theirs]
    if not pairs and 1 in (len(ours), len(theirs)):
        # A system without training seeds, such as the untrained model, is compared with each training of the other.
        pairs = list(itertools.product(ours.values(), theirs.values()))
    compared = _compared(pairs) if pairs else None
    if compared is None:
        return None
    estimated, test = compared
    return TextTest(
        metric=key,
        first=first.name,
        second=second.name,
        trainings=len(pairs),
        difference=estimated.value,
        interval=estimated.interval,
        p=estimated.p,
        p_holm=None,
        test=test,
    )


def _compared(pairs: Sequence[tuple[TextSample, TextSample]]) -> tuple[JackknifeEstimate, TextTestName] | None:
    """The mean difference over trainings, and how it is tested; None: they have different texts."""
    one, other = pairs[0]
    if len(pairs) == 1 and one.by_text is not None and other.by_text is not None:
        if one.by_text.keys() != other.by_text.keys():
            return None
        differences = np.array([value - other.by_text[key] for key, value in one.by_text.items()])
        interval = bootstrap_interval(differences) if np.ptp(differences) else None
        percent = None if interval is None else [end / 100 for end in interval]
        return JackknifeEstimate(float(differences.mean()), percent, sign_flip_test(differences)[0]), "permutation"
    if any((a.by_text or {}).keys() != (b.by_text or {}).keys() for a, b in pairs):
        return None
    shapes = {None if each.measured.without is None else len(each.measured.without) for pair in pairs for each in pair}
    if len(shapes) > 1:
        return None
    return difference([a.measured for a, _ in pairs], [b.measured for _, b in pairs]), "jackknife"


def _human(metrics: Metrics) -> list[TextFigure]:
    """Of the first system's prefixes; all systems continue the same ones."""
    human: dict[str, float] = {}
    for row in reversed(metrics.measurements):
        value = row.details.human
        if value is not None:
            human[row.metric] = value
    return [TextFigure(metric=key, value=human[key], interval=None) for key in METRICS if key in human]


def _warnings(groups: Sequence[_Group], config: Mapping[str, Any]) -> list[str]:
    controlled = {group.control_of for group in groups if _is_sampled(group)}
    warnings = []
    compared = [group for group in groups if group.control_of is None and _is_sampled(group)]
    systems = config.get("systems") or {}
    for group in compared if len(compared) > 1 else ():
        objective = (systems.get(next(iter(group.names.values()))) or {}).get("objective")
        if objective not in (None, "none", "mle") and group.name not in controlled:
            controls = [rows.get("matched_temperature") for rows in group.rows.values()]
            reasons = [control.details.reason for control in controls if control and control.details.reason]
            why = f" ({one_line(reasons[0], 200)})" if reasons else ""
            warnings.append(
                f"{one_line(group.name, 60)} has no matched-temperature control{why}: its difference from MLE on "
                "sampled texts may be sharpening, which a lower temperature gives for nothing"
            )
    mauves = [row for group in groups for row in group.measured("mauve").values()]
    if mauves:
        fewest = min(row.n or 0 for row in mauves)
        if fewest < ENOUGH_TEXTS:
            warnings.append(f"MAUVE of {fewest} texts is noisy; {ENOUGH_TEXTS:,} are recommended")
        if len({(row.n, row.details.features, row.details.max_length) for row in mauves}) > 1:
            warnings.append(
                "MAUVE was computed from different numbers of texts or different features, and does not compare; "
                "run `instruct evaluate` again"
            )
    for group in groups:
        for name, rows in group.named():
            if "repetition" in rows:
                empty, count = rows["repetition"].details.empty, rows["repetition"].details.continuations
                if 100 * empty > _EMPTY_PERCENT * count:
                    warnings.append(f"{empty} of {count} continuations of {one_line(name, 60)} are empty")
            if "rouge1" in rows:
                unseen, count = rows["rouge1"].details.without_tokens, rows["rouge1"].n or 0
                if 100 * unseen > _UNSEEN_PERCENT * count:
                    warnings.append(
                        f"ROUGE sees no token in {unseen} of {count} pairs of {one_line(name, 60)}: it reads the "
                        "letters a to z and digits only"
                    )
    return warnings


def _measured_differently(metrics: Metrics, steps: Mapping[str, Any]) -> list[str]:
    """A warning for each metric whose systems were measured on different human texts or with different settings."""
    rows = [row for rows in metrics.texts.values() for row in rows.values()]
    warnings = []
    for part in dict.fromkeys(row.part for row in rows):
        names = dict.fromkeys(row.system for row in rows if row.part == part)
        records = [steps[step] for name in names if (step := metric_step(part, name)) in steps]
        shared = [{key: value for key, value in record["inputs"].items() if key not in _OWN} for record in records]
        if any(inputs != shared[0] for inputs in shared):
            warnings.append(
                f"{part} was measured on different texts, or with different settings, for different systems; run "
                "`instruct evaluate` again"
            )
    return warnings


def _is_sampled(group: _Group) -> bool:
    return any(METRICS[key].sampled for key in group.samples)
