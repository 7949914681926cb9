"""The report's part about texts: systems by metrics, with intervals, tests between them, and the control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruct.analysis.holm import holm
from instruct.analysis.inference import bootstrap_interval, sign_flip_test
from instruct.analysis.jackknife import Estimate, difference, estimate
from instruct.analysis.text_results import (
    TextFigure,
    TextMetricName,
    TextReport,
    TextSystem,
    TextTest,
    TextTestName,
)
from instruct.base.errors import one_line
from instruct.measuring.metrics import Metrics, metric_step
from instruct.measuring.texts.mauve import ENOUGH_TEXTS
from instruct.measuring.texts.model import Distances, SystemTexts
from instruct.reporting.seeds import seeds_of
from instruct.reporting.text_figures import METRICS, Columns, Figure
from instruct.training.options import without_seed

# Values of each text by metric and system, as `instruct evaluate` kept them.
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
    texts: dict[int | None, SystemTexts]
    figures: dict[TextMetricName, dict[int | None, Figure]]


def text_report(
    metrics: Metrics, values: Values, config: Mapping[str, Any], steps: Mapping[str, Any]
) -> TextReport | None:
    """The report of metrics.json; None: it has nothing about texts.

    Args:
        values: those of each text by metric and system; what is missing has no interval and no test.
        config: what the run ran with: its systems' objectives and seeds.
        steps: the manifest's: what each metric of each system was measured from.
    """
    groups = _groups(metrics, values, config)
    if not any(group.figures for group in groups):
        return None
    shown = [group for group in groups if group.figures]
    return TextReport(
        systems=[_system(group) for group in shown],
        tests=_tests(shown, config),
        human=_human(metrics),
        warnings=[*_warnings(shown, config), *_measured_differently(metrics, steps)],
    )


def _groups(metrics: Metrics, values: Values, config: Mapping[str, Any]) -> list[_Group]:
    seeds = seeds_of(config)
    found: dict[str, _Group] = {}
    for name, texts in metrics.texts.items():
        control = texts.matched
        seed = seeds.get(control.system if control else name)
        base = without_seed(name, seed)
        of = without_seed(control.system, seed) if control else None
        group = found.setdefault(base, _Group(base, of, {}, {}, {}))
        group.names[seed], group.texts[seed] = name, texts
        own = {metric: each[name] for metric, each in values.items() if name in each}
        for key, metric in METRICS.items():
            figure = metric.read(texts, own)
            if figure:
                group.figures.setdefault(key, {})[seed] = figure
    order = {name: place for place, name in enumerate(config.get("systems") or {})}
    places = {group.name: min(order.get(name, len(order)) for name in group.names.values()) for group in found.values()}
    # A control follows its system.
    return sorted(
        found.values(),
        key=lambda group: (places.get(group.control_of or group.name, len(order)), bool(group.control_of)),
    )


def _system(group: _Group) -> TextSystem:
    figures = []
    for key, by_seed in group.figures.items():
        found = estimate([each.measured for each in by_seed.values()])
        figures.append(TextFigure(metric=key, value=found.value, interval=METRICS[key].cut(found.interval)))
    curves = [texts.mauve.curve for texts in group.texts.values() if texts.mauve]
    return TextSystem(
        name=group.name,
        names=list(group.names.values()),
        control_of=group.control_of,
        temperatures=[texts.matched.temperature for texts in group.texts.values() if texts.matched],
        figures=sorted(figures, key=lambda figure: list(METRICS).index(figure.metric)),
        curve=_mean_points(curves),
        by_temperature=_by_temperature([texts.distances for texts in group.texts.values() if texts.distances]),
    )


def _by_temperature(found: Sequence[Distances]) -> list[list[float]]:
    """Temperature, forward and reverse cross-entropy of a system, means over its trainings; [] if it has one alone."""
    paths = [sorted([each, *each.curve], key=lambda at: at.temperature) for each in found if each.curve]
    return _mean_points(
        [[(at.temperature, at.forward_cross_entropy, at.reverse_cross_entropy) for at in path] for path in paths]
    )


def _mean_points(paths: Sequence[Sequence[tuple[float, ...]]]) -> list[list[float]]:
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
        if key in first.figures and key in second.figures and (test := _test(key, first, second))
    ]
    for test, corrected in zip(tests, holm([test.p for test in tests]), strict=True):
        test.p_holm = corrected
    return tests


def _test(key: TextMetricName, first: _Group, second: _Group) -> TextTest | None:
    """None: the systems share no text."""
    ours, theirs = first.figures[key], second.figures[key]
    seeds = [seed for seed in ours if seed in theirs]
    # A system without training seeds, such as the untrained model, is compared with each training of the other.
    pairs = [(ours[seed], theirs[seed]) for seed in seeds]
    if not pairs and (len(ours) == 1 or len(theirs) == 1):
        several = max(len(ours), len(theirs))
        first_side, second_side = list(ours.values()), list(theirs.values())
        pairs = list(
            zip(
                first_side * (several if len(first_side) == 1 else 1),
                second_side * (several if len(second_side) == 1 else 1),
                strict=True,
            )
        )
    if not pairs:
        return None
    compared = _compared(pairs)
    if compared is None:
        return None
    found, test = compared
    return TextTest(
        metric=key,
        first=first.name,
        second=second.name,
        trainings=len(pairs),
        difference=found.value,
        interval=found.interval,
        p=found.p,
        p_holm=None,
        test=test,
    )


def _compared(pairs: Sequence[tuple[Figure, Figure]]) -> tuple[Estimate, TextTestName] | None:
    """The mean difference over trainings, and how it is tested; None: they have different texts."""
    one, other = pairs[0]
    if len(pairs) == 1 and one.by_text is not None and other.by_text is not None:
        if one.by_text.keys() != other.by_text.keys():
            return None
        differences = np.array([value - other.by_text[key] for key, value in one.by_text.items()])
        interval = bootstrap_interval(differences) if np.ptp(differences) else None
        percent = None if interval is None else [end / 100 for end in interval]
        return Estimate(float(differences.mean()), percent, sign_flip_test(differences)[0]), "permutation"
    if any((a.by_text or {}).keys() != (b.by_text or {}).keys() for a, b in pairs):
        return None
    shapes = {None if each.measured.without is None else len(each.measured.without) for pair in pairs for each in pair}
    if len(shapes) > 1:
        return None
    return difference([a.measured for a, _ in pairs], [b.measured for _, b in pairs]), "jackknife"


def _human(metrics: Metrics) -> list[TextFigure]:
    """Of the first system's prefixes; all systems continue the same ones."""
    found: dict[str, float] = {}
    for texts in reversed(metrics.texts.values()):
        if texts.diversity:
            found |= texts.diversity.human
        if texts.oracle_perplexity and texts.oracle_perplexity.human is not None:
            found["oracle_perplexity"] = texts.oracle_perplexity.human
    return [TextFigure(metric=key, value=found[key], interval=None) for key in METRICS if key in found]


def _warnings(groups: Sequence[_Group], config: Mapping[str, Any]) -> list[str]:
    controlled = {group.control_of for group in groups if _is_sampled(group)}
    found = []
    compared = [group for group in groups if group.control_of is None and _is_sampled(group)]
    systems = config.get("systems") or {}
    for group in compared if len(compared) > 1 else ():
        objective = (systems.get(next(iter(group.names.values()))) or {}).get("objective")
        if objective not in (None, "none", "mle") and group.name not in controlled:
            reasons = [texts.no_control for texts in group.texts.values() if texts.no_control]
            why = f" ({one_line(reasons[0], 200)})" if reasons else ""
            found.append(
                f"{one_line(group.name, 60)} has no matched-temperature control{why}: its difference from MLE on "
                "sampled texts may be sharpening, which a lower temperature gives for nothing"
            )
    mauves = {name: texts.mauve for group in groups for name, texts in _named(group) if texts.mauve}
    if mauves:
        sizes = {each.texts for each in mauves.values()}
        if min(sizes) < ENOUGH_TEXTS:
            found.append(f"MAUVE of {min(sizes)} texts is noisy; {ENOUGH_TEXTS:,} are recommended")
        if len({(each.texts, each.features, each.max_length) for each in mauves.values()}) > 1:
            found.append(
                "MAUVE was computed from different numbers of texts or different features, and does not compare; "
                "run `instruct evaluate` again"
            )
    for group in groups:
        for name, texts in _named(group):
            rouge, diversity = texts.rouge, texts.diversity
            if diversity and 100 * diversity.empty > _EMPTY_PERCENT * diversity.continuations:
                found.append(
                    f"{diversity.empty} of {diversity.continuations} continuations of {one_line(name, 60)} are empty"
                )
            if rouge and 100 * rouge.without_tokens > _UNSEEN_PERCENT * rouge.texts:
                found.append(
                    f"ROUGE sees no token in {rouge.without_tokens} of {rouge.texts} pairs of {one_line(name, 60)}: it "
                    "reads the letters a to z and digits only"
                )
    return found


def _measured_differently(metrics: Metrics, steps: Mapping[str, Any]) -> list[str]:
    """A warning for each metric whose systems were measured on different human texts or with different settings."""
    found = []
    for metric in SystemTexts.model_fields:
        names = [name for name, texts in metrics.texts.items() if getattr(texts, metric) is not None]
        records = [steps[step] for name in names if (step := metric_step(metric, name)) in steps]
        shared = [{key: value for key, value in each["inputs"].items() if key not in _OWN} for each in records]
        if any(each != shared[0] for each in shared):
            found.append(
                f"{metric} was measured on different texts, or with different settings, for different systems; run "
                "`instruct evaluate` again"
            )
    return found


def _named(group: _Group) -> list[tuple[str, SystemTexts]]:
    return [(name, group.texts[seed]) for seed, name in group.names.items()]


def _is_sampled(group: _Group) -> bool:
    return any(METRICS[key].sampled for key in group.figures)
