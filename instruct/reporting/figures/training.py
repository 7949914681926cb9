"""Curves over training steps: what was logged, and the perplexity on held-out rows. Seeds of a system share a color."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import COLORS, FAINT, INK, WIDTH, Drawing, axes_at, empty_figure, legend
from instruct.reporting.model import EvaluationLog, TaskLog, Training, TrainingLog
from instruct.training.options import without_seed

_CURVES = {
    "ce": "cross-entropy (nats per token)",
    "cost": "transport cost",
    "ratio": "ratio of cross-entropy to cost",
    "grad_norm": "gradient norm",
}
_LEFT, _RIGHT, _TOP = 0.75, 0.25, 1.0
_PANEL, _GAP = 1.75, 0.75
_HEIGHT, _BELOW = 2.6, 0.55
_FEW_POINTS = 40
_SPIKE = 20  # times the median


def training_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per training; None if nothing was logged."""
    systems = _by_system([(each, each.log) for each in trainings])
    title = "Training: cross-entropy, transport cost, their ratio and the gradient norm over the steps"
    return Drawing("training", title, systems, _draw_logs) if systems else None


def task_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per task and metric, a line per training; None if no task was asked while training."""
    systems = _by_system([(each, each.tasks) for each in trainings])
    title = "Training: scores of tasks over the steps"
    return Drawing("task_curves", title, systems, _draw_tasks) if systems else None


def perplexity_curves(trainings: list[Training]) -> Drawing | None:
    """A line per training; None unless one was evaluated at two steps."""
    systems = _by_system([(each, each.evaluations) for each in trainings])
    title = "Training: perplexity on held-out rows over the steps"
    drawn = any(len(log["step"]) > 1 for system in systems for log in system["logs"])
    return Drawing("perplexity", title, systems, _draw_perplexity) if drawn else None


def _by_system(logs: list[tuple[Training, TrainingLog | EvaluationLog | TaskLog | None]]) -> list[dict[str, Any]]:
    """Each system with the logs of its seeds; logs without a value are left out."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for training, log in logs:
        columns = log.model_dump() if log else {}
        columns |= columns.pop("scores", {})
        if any(value is not None for key, column in columns.items() if key != "step" for value in column):
            name = without_seed(training.system, training.seed)
            found.setdefault((name, training.objective), []).append(columns)
    return [{"name": name, "objective": objective, "logs": logs} for (name, objective), logs in found.items()]


def _draw_logs(systems: list[dict[str, Any]]) -> canvas.Figure:
    return _draw_panels(systems, _CURVES, "Training", "As logged, over optimizer steps")


def _draw_tasks(systems: list[dict[str, Any]]) -> canvas.Figure:
    keys = dict.fromkeys(key for system in systems for log in system["logs"] for key in log if key != "step")
    titles = {key: one_line(key, 50) for key in keys}
    return _draw_panels(systems, titles, "Tasks while training", "Over optimizer steps")


def _draw_panels(systems: list[dict[str, Any]], titles: Mapping[str, str], title: str, subtitle: str) -> canvas.Figure:
    """A panel for each key that has a value."""
    shown = [key for key in titles if _values(systems, key)]
    figure, top = _figure(systems, math.ceil(len(shown) / 2) * (_PANEL + _GAP), title, subtitle)
    for place, key in enumerate(shown):
        row, column = divmod(place, 2)
        left, width = _LEFT + column * WIDTH / 2, WIDTH / 2 - _LEFT - _RIGHT
        axes = axes_at(figure, left, top + row * (_PANEL + _GAP), width, _PANEL)
        axes.set_title(titles[key], loc="left", size=9, weight="bold", color=INK)
        _plot(axes, systems, key)
    return figure


def _draw_perplexity(systems: list[dict[str, Any]]) -> canvas.Figure:
    figure, top = _figure(systems, _HEIGHT + _BELOW, "Perplexity while training", "Per token of the held-out rows")
    axes = axes_at(figure, _LEFT, top, WIDTH - _LEFT - _RIGHT, _HEIGHT)
    axes.set_ylabel("perplexity", size=8, color=INK)
    _plot(axes, systems, "perplexity")
    return figure


def _values(systems: list[dict[str, Any]], key: str) -> list[float]:
    return [value for system in systems for log in system["logs"] for value in log.get(key, ()) if value is not None]


def _style(number: int) -> dict[str, Any]:
    return {"color": COLORS[number % len(COLORS)], "linestyle": "-" if number < len(COLORS) else "--"}


def _label(system: dict[str, Any]) -> str:
    name, objective, seeds = system["name"], system["objective"], len(system["logs"])
    of = "" if objective == name else f" ({one_line(objective, 40)})"
    return one_line(name, 40) + of + (f", {seeds} seeds" if seeds > 1 else "")


def _figure(systems: list[dict[str, Any]], panels: float, title: str, subtitle: str) -> tuple[canvas.Figure, float]:
    """A figure with a legend, and where its panels begin; `panels`: their height. Both in inches."""
    from matplotlib.lines import Line2D

    labels = list(map(_label, systems))
    columns = 2 if max(map(len, labels)) <= 45 else 1
    top = _TOP + 0.21 * math.ceil(len(labels) / columns)
    figure = empty_figure(top + panels, title, subtitle)
    handles = [Line2D([], [], linewidth=1.4, label=label, **_style(number)) for number, label in enumerate(labels)]
    place = (0.15 / WIDTH, 1 - 0.7 / (top + panels))
    legend(figure, handles, "upper left", place, ncols=columns, fontsize=9, columnspacing=2)
    return figure, top


def _plot(axes: canvas.Axes, systems: list[dict[str, Any]], key: str) -> None:
    """A line per training that has any value; a logarithmic axis if a few positive values would flatten the rest."""
    for number, system in enumerate(systems):
        for log in system["logs"]:
            values = [math.nan if value is None else value for value in log.get(key, ())]
            if not all(map(math.isnan, values)):
                few: Any = {"marker": "o", "markersize": 3} if len(values) <= _FEW_POINTS else {}
                axes.plot(log["step"], values, linewidth=1.4, **_style(number), **few)
    axes.set_xlabel("step", size=8, color=INK, labelpad=1)
    shown = _values(systems, key)
    if min(shown) > 0 and max(shown) > _SPIKE * statistics.median(shown):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter("")
        axes.tick_params(axis="y", which="minor", length=2, color=FAINT)
