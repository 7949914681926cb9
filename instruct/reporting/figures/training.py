"""Curves over training steps: what was logged, and the perplexity on held-out rows. Seeds of a system share a color."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from instruct.errors import one_line
from instruct.reporting.figures.canvas import COLOURS, INK, WIDTH, Drawing, axes_at, picture_of, show_spikes
from instruct.reporting.model import EvaluationLog, Training, TrainingLog
from instruct.training.options import seed_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

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


def training_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per training; None if nothing was logged."""
    found = _logged([(each, each.log) for each in trainings])
    title = "Training: cross-entropy, transport cost, their ratio and the gradient norm over the steps"
    return Drawing("training", title, found, _draw_logs) if found else None


def perplexity_curves(trainings: list[Training]) -> Drawing | None:
    """A line per training; None unless one was evaluated at two steps."""
    found = _logged([(each, each.evaluations) for each in trainings])
    title = "Training: perplexity on held-out rows over the steps"
    drawn = any(len(each["log"]["step"]) > 1 for each in found)
    return Drawing("perplexity", title, found, _draw_perplexity) if drawn else None


def _logged(logs: list[tuple[Training, TrainingLog | EvaluationLog | None]]) -> list[dict[str, Any]]:
    """The logs that have a value, each with its system's name, without the seed, and objective."""
    found = []
    for training, log in logs:
        values = log.model_dump() if log else {}
        if any(value is not None for key, column in values.items() if key != "step" for value in column):
            suffix = "" if training.seed is None else seed_name("", training.seed)
            name = training.system.removesuffix(suffix)
            found.append({"name": name, "objective": training.objective, "log": values})
    return found


def _draw_logs(found: list[dict[str, Any]]) -> Picture:
    shown = [key for key in _CURVES if any(value is not None for each in found for value in each["log"][key])]
    height = math.ceil(len(shown) / 2) * (_PANEL + _GAP)
    picture, top = _picture(found, height, "Training", "As logged, over optimizer steps")
    for place, key in enumerate(shown):
        row, column = divmod(place, 2)
        left, width = _LEFT + column * WIDTH / 2, WIDTH / 2 - _LEFT - _RIGHT
        axes = axes_at(picture, left, top + row * (_PANEL + _GAP), width, _PANEL)
        axes.set_title(_CURVES[key], loc="left", size=9, weight="bold", color=INK)
        _plot(axes, found, key)
    return picture


def _draw_perplexity(found: list[dict[str, Any]]) -> Picture:
    picture, top = _picture(found, _HEIGHT + _BELOW, "Perplexity while training", "Per token of the held-out rows")
    axes = axes_at(picture, _LEFT, top, WIDTH - _LEFT - _RIGHT, _HEIGHT)
    axes.set_ylabel("perplexity", size=8, color=INK)
    _plot(axes, found, "perplexity")
    return picture


def _systems(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Name and objective of each training; those of a system's seeds are equal."""
    return [(each["name"], each["objective"]) for each in found]


def _styles(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Color and dashes of each system."""
    return {
        system: {"color": COLOURS[number % len(COLOURS)], "linestyle": "-" if number < len(COLOURS) else "--"}
        for number, system in enumerate(dict.fromkeys(_systems(found)))
    }


def _label(name: str, objective: str, seeds: int) -> str:
    of = "" if objective == name else f" ({one_line(objective, 40)})"
    return one_line(name, 40) + of + (f", {seeds} seeds" if seeds > 1 else "")


def _picture(found: list[dict[str, Any]], panels: float, title: str, subtitle: str) -> tuple[Picture, float]:
    """A picture with a legend, and where its panels begin; `panels`: their height. Both in inches."""
    from matplotlib.lines import Line2D

    styles = _styles(found)
    labels = [_label(*system, _systems(found).count(system)) for system in styles]
    columns = 2 if max(map(len, labels)) <= 45 else 1
    top = _TOP + 0.21 * math.ceil(len(labels) / columns)
    picture = picture_of(top + panels, title, subtitle)
    picture.legend(
        [Line2D([], [], linewidth=1.4, **style) for style in styles.values()],
        labels, loc="upper left", ncols=columns,
        bbox_to_anchor=(0.15 / WIDTH, 1 - 0.7 / (top + panels)),
        frameon=False, fontsize=9, columnspacing=2, borderaxespad=0,
    )  # fmt: skip
    return picture, top


def _plot(axes: Axes, found: list[dict[str, Any]], key: str) -> None:
    """A line per training that has any value."""
    styles = _styles(found)
    for each, system in zip(found, _systems(found), strict=True):
        values = [math.nan if value is None else value for value in each["log"][key]]
        if not all(map(math.isnan, values)):
            few: Any = {"marker": "o", "markersize": 3} if len(values) <= _FEW_POINTS else {}
            axes.plot(each["log"]["step"], values, linewidth=1.4, **styles[system], **few)
    axes.set_xlabel("step", size=8, color=INK, labelpad=1)
    show_spikes(axes, [value for each in found for value in each["log"][key] if value is not None])
