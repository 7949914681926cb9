"""What an objective does to a label: its induced target, and its pull over probability, entropy and cost."""

from __future__ import annotations

from functools import partial
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas

_SITUATIONS = 3  # that are drawn, the first
_PARTS = ("label", "rival", "near", "far", "others")
_PULLS: dict[str, dict[str, str | None]] = {
    "label's probability": {"spread": "rest spread", "conflict": "rest on one token"},
    "entropy of the rest (nats)": {"entropy": None},
    "cost of the one other token": {"cost": None},
}


def objective_figure(
    name: str, at: float, targets: dict[str, Any], curves: dict[str, list[list[float]]]
) -> canvas.Drawing:
    """Where the gradient leads, and the pull on a label, relative to cross-entropy's.

    Args:
        at: the label's probability in the last two panels.
        targets: see `instruct.objectives.check.targets`.
        curves: points of each curve, see `instruct.objectives.check.pull_curves`.
    """
    title = f"{one_line(name, 50)}: where the gradient leads, and its pull on the label"
    titles = title, "tokens: the label, its rival, the nearest and the farthest by embedding, and all others together"
    shown = dict(list(targets.items())[:_SITUATIONS])
    return canvas.Drawing(one_line(name, 60), title, (shown, curves), partial(_draw, titles, at))


def _draw(
    titles: tuple[str, str], at: float, data: tuple[dict[str, Any], dict[str, list[list[float]]]]
) -> canvas.Figure:
    targets, pulls = data
    figure, every = canvas.panels(titles, 6, (1.5, 0.7), (0.5, 0.07, 0.95), columns=3)
    for axes, (situation, found) in zip(every, targets.items(), strict=False):
        places = range(len(_PARTS))
        axes.bar([place - 0.2 for place in places], found.model, 0.4, color=canvas.LINE, label="the model")
        axes.bar([place + 0.2 for place in places], found.target, 0.4, color=canvas.BLUE, label="where it leads")
        axes.axhline(0, color=canvas.LINE, linewidth=0.8)
        axes.set_xticks(places, _PARTS)
        axes.tick_params("x", labelsize=7, length=0)
        axes.set_ylim(min(0, *found.target) - 0.02, max(1, *found.target) + 0.05)
        axes.set_title(situation)
    every[0].legend(loc="upper right", bbox_to_anchor=(1, 0.9))
    largest = max(pull for points in pulls.values() for _, pull in points)
    for axes, (label, curves) in zip(every[_SITUATIONS:], _PULLS.items(), strict=True):
        for color, (curve, words) in zip(canvas.COLORS, curves.items(), strict=False):
            axes.plot(*zip(*pulls[curve], strict=True), color=color, label=words, linewidth=1.8)
        axes.axhline(1, color=canvas.LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
        axes.set_ylim(min(0, *(pull for curve in curves for _, pull in pulls[curve])), 1.1 * max(1, largest))
        axes.set_xlabel(label, color=canvas.FAINT)
        axes.set_title("pull, relative to cross-entropy" if "probability" in label else f"at probability {at:g}")
    every[_SITUATIONS].set_xscale("log")
    every[_SITUATIONS].xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # mathematics is not parsed in names
    every[_SITUATIONS].legend(borderaxespad=0.5)
    return figure
