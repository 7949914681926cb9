"""What an objective does to a label: its pull over probability, entropy and cost (instruct check)."""

from __future__ import annotations

from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas

_PANELS: dict[str, dict[str, str | None]] = {
    "label's probability": {"spread": "rest spread", "conflict": "rest on one token"},
    "entropy of the rest (nats)": {"entropy": None},
    "cost of the one other token": {"cost": None},
}


def pull_figure(name: str, at: float, curves: dict[str, list[list[float]]]) -> canvas.Drawing:
    """The pull on a label, relative to cross-entropy's.

    Args:
        at: the label's probability in the second and the third panel.
        curves: points of each curve, see `instruct.objectives.check.pull_curves`.
    """
    title = f"{one_line(name, 60)}: pull on the label, relative to cross-entropy"
    return canvas.Drawing("pull", title, {"title": title, "at": at, "curves": curves}, _draw)


def _draw(data: dict[str, Any]) -> canvas.Figure:
    figure = canvas.empty_figure(3.3, data["title"], f"second and third panel: a label of probability {data['at']:g}")
    width = 2.1
    largest = max(pull for points in data["curves"].values() for _, pull in points)
    for number, (label, curves) in enumerate(_PANELS.items()):
        axes = canvas.axes_at(figure, 0.5 + number * (width + 0.45), 0.75, width, 1.95)
        for color, (curve, words) in zip(canvas.COLORS, curves.items(), strict=False):
            axes.plot(*zip(*data["curves"][curve], strict=True), color=color, label=words, linewidth=1.8)
        axes.axhline(1, color=canvas.LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
        axes.set_ylim(min(0, *(pull for curve in curves for _, pull in data["curves"][curve])), 1.1 * max(1, largest))
        axes.set_xlabel(label, fontsize=8, color=canvas.FAINT)
        if number == 0:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # mathematics is not parsed in names
            axes.legend(frameon=False, fontsize=8)
    return figure
