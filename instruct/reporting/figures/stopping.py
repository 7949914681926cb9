"""The confidence sequence of judging that was to stop early: win rate and interval after each number of pairs."""

from __future__ import annotations

import math
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.model import JudgeReport

_PANEL, _GAP, _TOP = 1.7, 0.75, 1.0
# More panels than this do not fit on a page.
_MOST = 6


def stopping(judges: list[JudgeReport]) -> canvas.Drawing | None:
    """A panel per comparison, the first six; None if no judge was to stop early."""
    panels = [
        {
            "name": f"{one_line(judge.name, 40)}: {canvas.abreast(each.candidate, each.baseline, most=60)}",
            **each.sequential.model_dump(),
        }
        for judge in judges
        for each in judge.comparisons
        if each.sequential and each.sequential.looks
    ][:_MOST]
    title = "The win rate and its confidence sequence over the pairs judged, in a random order"
    return canvas.Drawing("stopping", title, panels, _draw) if panels else None


def _draw(panels: list[dict[str, Any]]) -> canvas.Figure:
    left, right = 0.65, 0.25
    height = _TOP + len(panels) * (_PANEL + _GAP)
    subtitle = "Win rate and 95 % confidence sequence over the pairs judged, in a random order"
    figure = canvas.empty_figure(height, "When judging could stop", subtitle)
    for number, panel in enumerate(panels):
        axes = canvas.axes_at(figure, left, _TOP + number * (_PANEL + _GAP), canvas.WIDTH - left - right, _PANEL)
        axes.set_title(panel["name"], loc="left", size=9, weight="bold", color=canvas.INK)
        axes.set_xlabel("pairs judged", size=8, color=canvas.INK, labelpad=1)
        axes.set_xlim(0, panel["pairs"])
        axes.set_ylim(0, 100)
        axes.yaxis.set_major_formatter(canvas.percent)
        canvas.even_line(axes)
        n = [0, *(look["n"] for look in panel["looks"])]
        low, high = ([end, *(look["interval"][side] for look in panel["looks"])] for side, end in ((0, 0), (1, 100)))
        rates = [math.nan if look["win_rate"] is None else look["win_rate"] for look in panel["looks"]]
        axes.fill_between(n, low, high, color=canvas.BLUE, alpha=0.2, linewidth=0)
        axes.plot(n[1:], rates, color=canvas.BLUE, linewidth=1.4)
        if panel["judged"] < panel["pairs"]:
            axes.axvline(panel["judged"], color=canvas.FAINT, linewidth=1)
            said = f"{panel['judged']} of {panel['pairs']}"
            near_the_end = panel["judged"] > 0.8 * panel["pairs"]
            side, away = ("right", -4) if near_the_end else ("left", 4)
            beside: Any = {"xytext": (away, -10), "textcoords": "offset points", "ha": side}
            axes.annotate(said, (panel["judged"], 100), size=8, color=canvas.FAINT, **beside)
    return figure
