"""Figures of systems: their training, what a bench finds of them, and the texts that they write."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from instruct.analysis.results import Claim
from instruct.base.errors import one_line
from instruct.reporting.bench import difference_of
from instruct.reporting.digits import number
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import COLORS, FAINT, INK, LINE, ROW, WIDTH, Drawing
from instruct.reporting.model import Training
from instruct.reporting.text import finding
from instruct.reporting.texts import control_of, text_systems
from instruct.run.measurements import Measurement
from instruct.training.options import without_seed

# The curves of a system's trainings, each steps and values by name, after the system's label.
Curves = tuple[str, list[dict[str, tuple[list[int], list[float | None]]]]]
# A system, and its measurements about texts by metric.
TextSystem = tuple[str, Mapping[str, Measurement]]
_BOTH_WAYS = ("forward_cross_entropy", "reverse_cross_entropy")
_CURVES = {
    "ce": "cross-entropy (nats per token)",
    "cost": "transport cost",
    "ratio": "ratio of cross-entropy to cost",
    "grad_norm": "gradient norm",
    "perplexity": "perplexity on held-out rows",
}
_FEW_POINTS = 40
_SPIKE = 20  # times the median


def training_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per training; None if nothing was logged."""
    systems: dict[tuple[str, str], list[dict[str, tuple[list[int], list[float | None]]]]] = {}
    for training in trainings:
        logs = [log.model_dump() for log in (training.log, training.evaluations) if log]
        curves = {key: (log["step"], log[key]) for log in logs for key in log if key != "step"}
        curves = {key: curve for key, curve in curves.items() if any(value is not None for value in curve[1])}
        if curves:
            name = without_seed(training.system, training.seed)
            systems.setdefault((name, training.objective), []).append(curves)
    labeled = [(_label(name, objective, len(seeds)), seeds) for (name, objective), seeds in systems.items()]
    return Drawing("training", "Training: what was logged over the steps", labeled, _draw_curves) if labeled else None


def _label(name: str, objective: str, seeds: int) -> str:
    of = "" if objective == name else f" ({one_line(objective, 40)})"
    return one_line(name, 40) + of + (f", {seeds} seeds" if seeds > 1 else "")


def _draw_curves(systems: list[Curves]) -> canvas.Figure:
    """A panel for each quantity that has a value, below a legend of the systems."""
    from matplotlib.lines import Line2D

    shown = [key for key in _CURVES if _values(systems, key)]
    labels = [label for label, _ in systems]
    of_legend = 2 if max(map(len, labels)) <= 45 else 1
    top = 1.0 + 0.21 * math.ceil(len(labels) / of_legend)
    titles = "Training", "As logged, over optimizer steps"
    figure, every = canvas.panels(titles, len(shown), (1.75, 0.75), (0.75, 0.25, top), columns=2)
    handles = [Line2D([], [], linewidth=1.4, label=label, **_style(number)) for number, label in enumerate(labels)]
    corner = 0.15 / WIDTH, 1 - 0.7 / figure.get_figheight()
    style: Any = {"ncols": of_legend, "fontsize": 9, "columnspacing": 2}
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, **style)
    for axes, key in zip(every, shown, strict=True):
        axes.set_title(_CURVES[key])
        _plot(axes, systems, key)
    return figure


def _values(systems: list[Curves], key: str) -> list[float]:
    return [value for _, logs in systems for log in logs if key in log for value in log[key][1] if value is not None]


def _style(number: int) -> dict[str, Any]:
    return {"color": COLORS[number % len(COLORS)], "linestyle": "-" if number < len(COLORS) else "--"}


def _plot(axes: canvas.Axes, systems: list[Curves], key: str) -> None:
    """A line per training that has any value; a logarithmic axis if a few positive values would flatten the rest."""
    for place, (_, logs) in enumerate(systems):
        for steps, logged in (log[key] for log in logs if key in log):
            values = [math.nan if value is None else value for value in logged]
            few: Any = {"marker": "o", "markersize": 3} if len(values) <= _FEW_POINTS else {}
            axes.plot(steps, values, linewidth=1.4, **_style(place), **few)
    axes.set_xlabel("step", labelpad=1)
    shown = _values(systems, key)
    if min(shown) > 0 and max(shown) > _SPIKE * statistics.median(shown):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter("")


def differences(claims: list[Claim]) -> Drawing | None:
    """A forest plot of a bench's differences, a panel for each measure; None without any."""
    made = [claim for claim in claims if claim.value is not None]
    title = "Objectives: their differences with 95 % intervals, by measure"
    return Drawing("differences", title, made, _draw_differences) if made else None


def _draw_differences(claims: list[Claim]) -> canvas.Figure:
    by_measure: dict[str, list[Claim]] = {}
    for claim in claims:
        by_measure.setdefault(difference_of(claim), []).append(claim)
    rows = max(map(len, by_measure.values()))
    left, right = 3.1, 2.5
    titles = "Differences", "The first minus the second, with 95 % intervals"
    figure, every = canvas.panels(titles, len(by_measure), (ROW * rows, 0.75), (left, right, 1.05))
    for axes, (measure, about) in zip(every, by_measure.items(), strict=True):
        axes.set_title(one_line(measure, 60))
        ends = [0.0, *(end for claim in about for end in (claim.value or 0.0, *(claim.interval or ())))]
        room = 0.05 * (max(ends) - min(ends)) or 1.0
        canvas.as_forest(axes, rows, (min(ends) - room, max(ends) + room), 0)
        for place, claim in enumerate(about):
            names = f"{one_line(claim.candidate, 20)} − {one_line(claim.baseline, 28)}"
            canvas.beside(axes, 0.15 - left, place, names, size=9, color=INK)
            said = f"{number(claim.value, claim.interval, sign=True)}, {finding(claim)}"
            canvas.beside(axes, WIDTH - left - right + 0.15, place, said, size=8, color=INK)
            canvas.mark(axes, place, claim.value or 0.0, claim.interval)
    return figure


def precision_recall(measurements: Iterable[Measurement]) -> Drawing | None:
    """Forward against reverse cross-entropy, with the curve of MLE at other temperatures."""
    systems = [(name, rows) for name, rows in text_systems(measurements).items() if rows.keys() >= set(_BOTH_WAYS)]
    title = "Texts: precision against recall, as reverse against forward cross-entropy"
    return Drawing("precision_recall", title, systems, _draw_plane) if systems else None


def _colors(systems: list[TextSystem]) -> list[str]:
    """A color for each system; a control has its system's."""
    names = [control_of(rows) or name for name, rows in systems]
    return [COLORS[list(dict.fromkeys(names)).index(name) % len(COLORS)] for name in names]


def _draw_plane(systems: list[TextSystem]) -> canvas.Figure:
    titles = "Precision and recall", "Nats per token; down: precision, left: recall"
    side = 3.9
    figure, (axes,) = canvas.panels(titles, 1, (side, 0.65), (0.75, WIDTH - 0.75 - side, 0.95))
    forward, reverse = _BOTH_WAYS
    for name, rows in systems:
        if by_temperature := (rows[forward].details.model_extra or {}).get("by_temperature"):
            temperatures, xs, ys = zip(*by_temperature, strict=True)
            label = f"{one_line(name, 20)} at other temperatures"
            axes.plot(xs, ys, color=LINE, linewidth=1.2, marker=".", zorder=0, label=label)
            axes.annotate(f"T {temperatures[0]:g}", (xs[0], ys[0]), size=7, color=INK)
    for (name, rows), color in zip(systems, _colors(systems), strict=True):
        (x, x_span), (y, y_span) = _value_and_span(rows[forward]), _value_and_span(rows[reverse])
        mark, face = ("s", "white") if control_of(rows) else ("o", color)
        style: Any = {"marker": mark, "markerfacecolor": face, "markersize": 6, "linestyle": "none"}
        label = one_line(name, 34)
        axes.errorbar([x], [y], y_span, x_span, color=color, elinewidth=0.8, ecolor=FAINT, label=label, **style)
    axes.set_xlabel("forward cross-entropy: what human text the system misses")
    axes.set_ylabel("reverse cross-entropy: how unlikely its own choices are")
    axes.margins(0.15)
    axes.legend(loc="upper left", bbox_to_anchor=(1 + 0.2 / side, 1), fontsize=9)
    return figure


def _value_and_span(row: Measurement) -> tuple[float, list[list[float]] | None]:
    """A figure, and how far its interval reaches to both sides."""
    value = row.value or 0.0
    if row.interval is None:
        return value, None
    low, high = row.interval
    return value, [[value - low], [high - value]]
