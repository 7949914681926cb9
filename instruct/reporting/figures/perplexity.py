"""Perplexity on held-out rows over training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from instruct.errors import one_line
from instruct.reporting.figures.canvas import COLOURS, INK, WIDTH, Drawing, axes_at, picture_of, show_spikes
from instruct.reporting.model import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_LEFT, _RIGHT, _HEIGHT, _BELOW = 0.75, 0.25, 2.6, 0.55


def perplexity_curves(trainings: list[Training]) -> Drawing | None:
    """A line per system; None unless a system was evaluated at two steps."""
    found = [
        {"name": each.system, "objective": each.objective} | each.evaluations.model_dump()
        for each in trainings
        if each.evaluations
    ]
    title = "Training: perplexity on held-out rows over the steps"
    return Drawing("perplexity", title, found, _draw) if any(len(each["step"]) > 1 for each in found) else None


def _draw(found: list[dict[str, Any]]) -> Picture:
    names = [f"{one_line(each['name'], 40)} ({one_line(each['objective'], 40)})" for each in found]
    columns = 2 if max(map(len, names)) <= 45 else 1
    top = 1.0 + 0.21 * math.ceil(len(found) / columns)
    height = top + _HEIGHT + _BELOW
    picture = picture_of(height, "Perplexity while training", "Per token of the held-out rows")
    axes = axes_at(picture, _LEFT, top, WIDTH - _LEFT - _RIGHT, _HEIGHT)
    for number, (each, name) in enumerate(zip(found, names, strict=True)):
        values = [math.nan if value is None else value for value in each["perplexity"]]
        style: Any = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-" if number < len(COLOURS) else "--"}
        axes.plot(each["step"], values, linewidth=1.4, marker="o", markersize=3, label=name, **style)
    show_spikes(axes, [value for each in found for value in each["perplexity"] if value is not None])
    axes.set_xlabel("step", size=8, color=INK)
    axes.set_ylabel("perplexity", size=8, color=INK)
    picture.legend(
        *axes.get_legend_handles_labels(), loc="upper left", ncols=columns,
        bbox_to_anchor=(0.15 / WIDTH, 1 - 0.7 / height), frameon=False, fontsize=9, columnspacing=2, borderaxespad=0,
    )  # fmt: skip
    return picture
