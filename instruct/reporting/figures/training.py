"""Training curves: cross-entropy, transport cost, their ratio and the gradient norm over the steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from instruct.errors import one_line
from instruct.reporting.figures.canvas import COLOURS, INK, WIDTH, Drawing, axes_at, picture_of, show_spikes
from instruct.reporting.model import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_CURVES = {
    "ce": "cross-entropy (nats per token)",
    "cost": "transport cost",
    "ratio": "ratio of cross-entropy to cost",
    "grad_norm": "gradient norm",
}
_PANEL, _GAP = 1.75, 0.75
_FEW_POINTS = 40


def training_curves(trainings: list[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per system; None without a log."""
    logs = [
        {"name": training.system, "objective": training.objective, "log": training.log.model_dump()}
        for training in trainings
        if training.log
    ]
    title = "Training: cross-entropy, transport cost, their ratio and the gradient norm over the steps"
    return Drawing("training", title, logs, _draw) if logs else None


def _draw(logs: list[dict[str, Any]]) -> Picture:
    shown = [key for key in _CURVES if any(value is not None for each in logs for value in each["log"][key])]
    names = [f"{one_line(each['name'], 40)} ({one_line(each['objective'], 40)})" for each in logs]
    columns = 2 if max(map(len, names)) <= 45 else 1
    left, right, top = 0.65, 0.25, 1.0 + 0.21 * math.ceil(len(logs) / columns)
    height = top + max(1, math.ceil(len(shown) / 2)) * (_PANEL + _GAP)
    picture = picture_of(height, "Training", "As logged, over optimizer steps")
    lines: dict[int, Any] = {}
    for place, key in enumerate(shown):
        row, column = divmod(place, 2)
        axes = axes_at(
            picture, left + column * WIDTH / 2, top + row * (_PANEL + _GAP), WIDTH / 2 - left - right, _PANEL
        )
        axes.set_title(_CURVES[key], loc="left", size=9, weight="bold", color=INK)
        axes.set_xlabel("step", size=8, color=INK, labelpad=1)
        for number, each in enumerate(logs):
            values = [math.nan if value is None else value for value in each["log"][key]]
            if all(map(math.isnan, values)):
                continue
            style: Any = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-" if number < len(COLOURS) else "--"}
            few: Any = {"marker": "o", "markersize": 3} if len(values) <= _FEW_POINTS else {}
            (line,) = axes.plot(each["log"]["step"], values, linewidth=1.4, **style, **few)
            lines[number] = line
        show_spikes(axes, [value for each in logs for value in each["log"][key] if value is not None])
    picture.legend(
        lines.values(), [names[number] for number in lines], loc="upper left", ncols=columns,
        bbox_to_anchor=(0.15 / WIDTH, 1 - 0.7 / height),
        frameon=False, fontsize=9, columnspacing=2, borderaxespad=0,
    )  # fmt: skip
    return picture
