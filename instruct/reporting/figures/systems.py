"""Figures of systems: the length of their answers, their training, and the texts that they write."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import BLUE, COLORS, FAINT, INK, LINE, WIDTH, Drawing
from instruct.reporting.model import EvaluationLog, SystemReport, TaskLog, Training, TrainingLog
from instruct.reporting.texts import control_of, text_systems
from instruct.run.measurements import Measurement
from instruct.training.options import without_seed

# The curves of a system's trainings, each a column of values by name, after the system's label.
Curves = tuple[str, list[dict[str, list[Any]]]]
# A system, and its measurements about texts by metric.
TextSystem = tuple[str, Mapping[str, Measurement]]
_BOTH_WAYS = ("forward_cross_entropy", "reverse_cross_entropy")
_CURVES = {
    "ce": "cross-entropy (nats per token)",
    "cost": "transport cost",
    "ratio": "ratio of cross-entropy to cost",
    "grad_norm": "gradient norm",
}
_FEW_POINTS = 40
_SPIKE = 20  # times the median
_SQUARE = ((3.9, 0.65), (0.75, WIDTH - 0.75 - 3.9, 0.95))  # the size and the margins of a panel for texts


def answer_lengths(systems: list[SystemReport]) -> Drawing | None:
    """A histogram per system, on one axis; None without answers."""
    return Drawing("answer_lengths", "Length of each system's answers", systems, _draw_lengths) if systems else None


def _draw_lengths(systems: list[SystemReport]) -> canvas.Figure:
    labels = [one_line(system.name, 28) for system in systems]
    edges = systems[0].health.length_histogram.edges
    left, right, bottom = canvas.left_margin(labels), 1.6, 0.6
    titles = "Length of the answers", "Share of each system's answers by characters"
    figure, every = canvas.panels(titles, len(systems), (0.88, 0.12), (left, right, 0.85), below=bottom)
    width = edges[1] - edges[0]
    wider = len(edges) > 2 and edges[-1] - edges[-2] > width  # the last bar holds all that is longer
    starts = [*edges[:-2], edges[-2] + width if wider else edges[-2]]
    bound = edges[-2] if wider else edges[-1]
    shares = [[count / system.n for count in system.health.length_histogram.counts] for system in systems]
    for axes, system, label, heights in zip(every, systems, labels, shares, strict=True):
        mean, median = system.health.mean_characters, system.health.median_characters
        bars = axes.bar(starts, heights, width, align="edge", color=BLUE, edgecolor="white", linewidth=0.4)
        if wider:
            bars[-1].set_alpha(0.5)
        if median < edges[-2] or not wider:
            axes.axvline(median, color=INK, linewidth=1.2, linestyle=(0, (2, 1)))
        axes.set_xlim(0, edges[-2] + 2 * width if wider else edges[-1])
        axes.set_ylim(0, 1.08 * max(map(max, shares)))
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        beside: Any = {"transform": axes.transAxes, "clip_on": False, "va": "center"}
        axes.text(-0.02, 0.5, label, ha="right", size=10, color=INK, **beside)
        axes.text(1.02, 0.62, f"median {median:.0f}", size=10, weight="bold", **beside)
        axes.text(1.02, 0.38, f"mean {mean:.0f}, n = {system.n}", size=8, color=FAINT, **beside)
        _label_lengths(axes, bound, last=system is systems[-1])
    said = "Dashed: the median." + (f" Pale: {bound} characters and more, up to {edges[-1] - 1}." if wider else "")
    figure.text(left / WIDTH, 0.1 / figure.get_figheight(), said, size=8, color=FAINT)
    return figure


def _label_lengths(axes: canvas.Axes, bound: int, last: bool) -> None:
    """Ticks up to `bound`, beyond which the axis has no scale; numbers only below the last system."""
    from matplotlib.ticker import MaxNLocator

    places = [tick for tick in MaxNLocator(6, integer=True).tick_values(0, bound) if 0 <= tick <= bound]
    axes.set_xticks(places, [f"{tick:.0f}" if last else "" for tick in places])


def training_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per training; None if nothing was logged."""
    systems = _by_system((training, training.log) for training in trainings)
    title = "Training: cross-entropy, transport cost, their ratio and the gradient norm over the steps"
    draw = partial(_draw_curves, ("Training", "As logged, over optimizer steps"), _CURVES)
    return Drawing("training", title, systems, draw) if systems else None


def task_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per task and metric, a line per training; None if no task was asked while training."""
    systems = _by_system((training, training.tasks) for training in trainings)
    keys = dict.fromkeys(key for _, logs in systems for log in logs for key in log if key != "step")
    panels = {key: one_line(key, 50) for key in keys}
    draw = partial(_draw_curves, ("Tasks while training", "Over optimizer steps"), panels)
    return Drawing("task_curves", "Training: scores of tasks over the steps", systems, draw) if systems else None


def perplexity_curves(trainings: list[Training]) -> Drawing | None:
    """A line per training; None unless one was evaluated at two steps."""
    systems = _by_system((training, training.evaluations) for training in trainings)
    title = "Training: perplexity on held-out rows over the steps"
    titles = "Perplexity while training", "Per token of the held-out rows"
    draw = partial(_draw_curves, titles, {"perplexity": "perplexity"}, size=(2.6, 0.55), columns=1)
    drawn = any(len(log["step"]) > 1 for _, logs in systems for log in logs)
    return Drawing("perplexity", title, systems, draw) if drawn else None


def _by_system(logs: Iterable[tuple[Training, TrainingLog | EvaluationLog | TaskLog | None]]) -> list[Curves]:
    """Each system with the logs of its seeds; logs without a value are left out."""
    systems: dict[tuple[str, str], list[dict[str, list[Any]]]] = {}
    for training, log in logs:
        columns = log.model_dump() if log else {}
        columns |= columns.pop("scores", {})
        if any(value is not None for key, column in columns.items() if key != "step" for value in column):
            name = without_seed(training.system, training.seed)
            systems.setdefault((name, training.objective), []).append(columns)
    return [(_label(name, objective, len(logs)), logs) for (name, objective), logs in systems.items()]


def _label(name: str, objective: str, seeds: int) -> str:
    of = "" if objective == name else f" ({one_line(objective, 40)})"
    return one_line(name, 40) + of + (f", {seeds} seeds" if seeds > 1 else "")


def _draw_curves(
    titles: tuple[str, str],
    panels: Mapping[str, str],
    systems: list[Curves],
    size: tuple[float, float] = (1.75, 0.75),
    columns: int = 2,
) -> canvas.Figure:
    """A panel for each key of `panels` that has a value, below a legend of the systems."""
    from matplotlib.lines import Line2D

    shown = [key for key in panels if _values(systems, key)]
    labels = [label for label, _ in systems]
    of_legend = 2 if max(map(len, labels)) <= 45 else 1
    top = 1.0 + 0.21 * math.ceil(len(labels) / of_legend)
    figure, every = canvas.panels(titles, len(shown), size, (0.75, 0.25, top), columns)
    handles = [Line2D([], [], linewidth=1.4, label=label, **_style(number)) for number, label in enumerate(labels)]
    corner = 0.15 / WIDTH, 1 - 0.7 / figure.get_figheight()
    style: Any = {"ncols": of_legend, "fontsize": 9, "columnspacing": 2}
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, **style)
    for axes, key in zip(every, shown, strict=True):
        axes.set_title(panels[key])
        _plot(axes, systems, key)
    return figure


def _values(systems: list[Curves], key: str) -> list[float]:
    return [value for _, logs in systems for log in logs for value in log.get(key, ()) if value is not None]


def _style(number: int) -> dict[str, Any]:
    return {"color": COLORS[number % len(COLORS)], "linestyle": "-" if number < len(COLORS) else "--"}


def _plot(axes: canvas.Axes, systems: list[Curves], key: str) -> None:
    """A line per training that has any value; a logarithmic axis if a few positive values would flatten the rest."""
    for number, (_, logs) in enumerate(systems):
        for log in logs:
            values = [math.nan if value is None else value for value in log.get(key, ())]
            if not all(map(math.isnan, values)):
                few: Any = {"marker": "o", "markersize": 3} if len(values) <= _FEW_POINTS else {}
                axes.plot(log["step"], values, linewidth=1.4, **_style(number), **few)
    axes.set_xlabel("step", labelpad=1)
    shown = _values(systems, key)
    if min(shown) > 0 and max(shown) > _SPIKE * statistics.median(shown):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter("")


def divergence_curves(measurements: Iterable[Measurement]) -> Drawing | None:
    """MAUVE's divergence curve of each system; None without MAUVE."""
    systems = [
        (name, rows)
        for name, rows in text_systems(measurements).items()
        if "mauve" in rows and rows["mauve"].details.curve
    ]
    title = "Texts: MAUVE's divergence curves; the area under a curve is MAUVE"
    return Drawing("divergence_curve", title, systems, _draw_divergence) if systems else None


def precision_recall(measurements: Iterable[Measurement]) -> Drawing | None:
    """Forward against reverse cross-entropy, with the curve of MLE at other temperatures."""
    systems = [(name, rows) for name, rows in text_systems(measurements).items() if rows.keys() >= set(_BOTH_WAYS)]
    title = "Texts: precision against recall, as reverse against forward cross-entropy"
    return Drawing("precision_recall", title, systems, _draw_plane) if systems else None


def _colors(systems: list[TextSystem]) -> list[str]:
    """A color for each system; a control has its system's."""
    names = [control_of(rows) or name for name, rows in systems]
    return [COLORS[list(dict.fromkeys(names)).index(name) % len(COLORS)] for name in names]


def _square(titles: tuple[str, str]) -> tuple[canvas.Figure, canvas.Axes]:
    figure, (axes,) = canvas.panels(titles, 1, *_SQUARE)
    return figure, axes


def _legend(axes: canvas.Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1 + 0.2 / 3.9, 1), fontsize=9)


def _draw_divergence(systems: list[TextSystem]) -> canvas.Figure:
    figure, axes = _square(("MAUVE's divergence curves", "Up and to the right: closer to human text"))
    for (name, rows), color in zip(systems, _colors(systems), strict=True):
        line = ":" if control_of(rows) else "-"
        curve = zip(*rows["mauve"].details.curve, strict=True)
        axes.plot(*curve, linewidth=1.6, label=one_line(name, 34), color=color, linestyle=line)
    axes.set(xlim=(0, 1.01), ylim=(0, 1.01))
    axes.set_xlabel("similarity of the system's texts to the mixture (precision)")
    axes.set_ylabel("similarity of human texts to the mixture (recall)")
    _legend(axes)
    return figure


def _draw_plane(systems: list[TextSystem]) -> canvas.Figure:
    figure, axes = _square(("Precision and recall", "Nats per token; down: precision, left: recall"))
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
    _legend(axes)
    return figure


def _value_and_span(row: Measurement) -> tuple[float, list[list[float]] | None]:
    """A figure, and how far its interval reaches to both sides."""
    value = row.value or 0.0
    if row.interval is None:
        return value, None
    low, high = row.interval
    return value, [[value - low], [high - value]]
