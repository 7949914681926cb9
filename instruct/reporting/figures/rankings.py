"""Systems ranked against a common baseline: a forest plot with simultaneous intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instruct.base.errors import one_line
from instruct.reporting.figures.canvas import BLUE, FAINT, INK, LINE, WIDTH, Drawing, axes_at, picture_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_ROW, _GAP, _TOP = 0.27, 0.7, 1.05
# The most systems that fit on a page; the best are drawn.
_MOST_ROWS = 60


def ranked_systems(ranked: Sequence[dict[str, Any]]) -> Drawing | None:
    """A panel per ranking, each a rankings.Ranking as a mapping; None without one."""
    title = "Win rates against a common baseline, with simultaneous 95 % intervals and rank intervals"
    return Drawing("ranking", title, list(ranked), _draw) if ranked else None


def _draw(panels: list[dict[str, Any]]) -> Picture:
    panels = [panel | {"standings": panel["standings"][:_MOST_ROWS]} for panel in panels]
    left, right = 3.0, 2.2
    width = WIDTH - left - right
    rows = sum(len(panel["standings"]) for panel in panels)
    height = _TOP + rows * _ROW + len(panels) * _GAP
    picture = picture_of(height, "Systems ranked", "Win rates with simultaneous 95 % intervals; a tie is half a win")
    top = _TOP
    for panel in panels:
        systems = panel["standings"]
        axes = axes_at(picture, left, top, width, len(systems) * _ROW)
        top += len(systems) * _ROW + _GAP
        axes.set_xlim(0, 100)
        axes.set_ylim(len(systems) - 0.5, -0.5)
        axes.axvline(50, color=LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        beyond: Any = {"transform": axes.get_yaxis_transform(), "va": "center_baseline", "clip_on": False}
        title = f"{one_line(panel['judge'], 40)}, against {one_line(panel['baseline'], 40)}"
        axes.text((0.15 - left) / width, -0.85, title, ha="left", size=9, weight="bold", color=INK, **beyond)
        for place, each in enumerate(systems):
            low, high = each["rank_interval"]
            ranks = f"rank {low}" if low == high else f"rank {low}–{high}"
            said = f"{each['win_rate']:.1f} ({each['interval'][0]:.1f}–{each['interval'][1]:.1f}), {ranks}"
            axes.text((0.3 - left) / width, place, one_line(each["name"], 36), ha="left", size=9, color=INK, **beyond)
            axes.text(1 + 0.15 / width, place, said, ha="left", size=8, color=FAINT, **beyond)
            axes.plot(each["interval"], [place, place], color=BLUE, linewidth=2)
            axes.plot(each["win_rate"], place, "o", color=BLUE, markersize=5, clip_on=False, zorder=3)
    return picture
