"""Systems ranked against a common baseline: a forest plot with simultaneous intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import BLUE, FAINT, INK, ROW, WIDTH, Drawing, beside, empty_figure, forest_axes

_GAP, _TOP = 0.7, 1.05
# The most systems that fit on a page; the best are drawn.
_MOST_ROWS = 60


def ranked_systems(ranked: Sequence[dict[str, Any]]) -> Drawing | None:
    """A panel per ranking, each a rankings.Ranking as a mapping; None without one."""
    title = "Win rates against a common baseline, with simultaneous 95 % intervals and rank intervals"
    return Drawing("ranking", title, list(ranked), _draw) if ranked else None


def _draw(panels: list[dict[str, Any]]) -> canvas.Figure:
    panels = [panel | {"standings": panel["standings"][:_MOST_ROWS]} for panel in panels]
    left, right = 3.0, 2.2
    width = WIDTH - left - right
    rows = sum(len(panel["standings"]) for panel in panels)
    height = _TOP + rows * ROW + len(panels) * _GAP
    figure = empty_figure(height, "Systems ranked", "Win rates with simultaneous 95 % intervals; a tie is half a win")
    top = _TOP
    for panel in panels:
        systems = panel["standings"]
        axes = forest_axes(figure, (left, top, width), len(systems), (0, 100))
        top += len(systems) * ROW + _GAP
        title = f"{one_line(panel['judge'], 40)}, against {one_line(panel['baseline'], 40)}"
        beside(axes, 0.15 - left, -0.85, title, size=9, weight="bold", color=INK)
        for place, system in enumerate(systems):
            low, high = system["rank_interval"]
            ranks = f"rank {low}" if low == high else f"rank {low}–{high}"
            said = f"{system['win_rate']:.1f} ({system['interval'][0]:.1f}–{system['interval'][1]:.1f}), {ranks}"
            beside(axes, 0.3 - left, place, one_line(system["name"], 36), size=9, color=INK)
            beside(axes, width + 0.15, place, said, size=8, color=FAINT)
            axes.plot(system["interval"], [place, place], color=BLUE, linewidth=2)
            axes.plot(system["win_rate"], place, "o", color=BLUE, markersize=5, clip_on=False, zorder=3)
    return figure
