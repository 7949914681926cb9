"""What an objective does to a label: its pull over probability, entropy and cost (instruct check)."""

from __future__ import annotations

from functools import partial

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
    titles = title, f"second and third panel: a label of probability {at:g}"
    return canvas.Drawing("pull", title, curves, partial(_draw, titles))


def _draw(titles: tuple[str, str], pulls: dict[str, list[list[float]]]) -> canvas.Figure:
    figure, every = canvas.panels(titles, 3, (1.95, 0.6), (0.5, 0.07, 0.75), columns=3)
    largest = max(pull for points in pulls.values() for _, pull in points)
    for axes, (label, curves) in zip(every, _PANELS.items(), strict=True):
        for color, (curve, words) in zip(canvas.COLORS, curves.items(), strict=False):
            axes.plot(*zip(*pulls[curve], strict=True), color=color, label=words, linewidth=1.8)
        axes.axhline(1, color=canvas.LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
        axes.set_ylim(min(0, *(pull for curve in curves for _, pull in pulls[curve])), 1.1 * max(1, largest))
        axes.set_xlabel(label, color=canvas.FAINT)
    every[0].set_xscale("log")
    every[0].xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # mathematics is not parsed in names
    every[0].legend(borderaxespad=0.5)
    return figure
