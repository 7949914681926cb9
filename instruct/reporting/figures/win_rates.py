"""A forest plot: the win rate of every comparison by every judge under every policy, with its interval."""

from __future__ import annotations

import math
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.model import JudgeReport

# The most rows that fit on a page; beyond it only the leading policies are drawn.
_MOST_ROWS = 60
_WARNING = " (WARNING: see the figure of its verdicts)"


def win_rates(judges: list[JudgeReport]) -> canvas.Drawing | None:
    """Over judges, comparisons and policies, with 95 % intervals; None without a verdict."""
    rows = [
        {
            "judge": judge.name,
            "warning": judge.warning,
            "names": [comparison.candidate, comparison.baseline],
            "policy": policy,
            "leads": policy == comparison.leading,
            "partial": comparison.partial,
            **{key: getattr(figures, key) for key in ("win_rate", "interval", "n_judged", "finding")},
        }
        for judge in judges
        for comparison in judge.comparisons
        for policy, figures in comparison.policies.items()
    ]
    if len(rows) > _MOST_ROWS:
        rows = [row for row in rows if row["leads"]]
    title = "Win rates with their 95 % intervals, by judge, comparison and policy"
    return canvas.Drawing("win_rates", title, rows, _draw) if rows else None


def _draw(rows: list[dict[str, Any]]) -> canvas.Figure:
    from matplotlib.lines import Line2D

    lines = _lines(rows)
    left, right, top, bottom = 3.65, 2.0, 0.8, 0.75
    width = canvas.WIDTH - left - right
    height = top + canvas.ROW * len(lines) + bottom
    figure = canvas.empty_figure(height, "Win rates", "With 95 % intervals; a tie is half a win")
    axes = canvas.forest_axes(figure, (left, top, width), len(lines), _limits(rows))
    axes.locator_params(axis="x", nbins=5)
    for place, (text, row) in enumerate(lines):
        if row is None:
            color = canvas.ALERT if text.endswith(_WARNING) else canvas.INK
            canvas.beside(axes, 0.15 - left, place, text, weight="bold", size=9, color=color)
            continue
        color = canvas.INK if row["leads"] else canvas.FAINT
        canvas.beside(axes, 0.3 - left, place, text, size=9, color=color)
        canvas.beside(axes, -0.15, place, row["policy"], size=8, color=color, ha="right")
        canvas.beside(axes, width + 0.15, place, _said(row), size=8, color=color)
        _mark(axes, place, row)
    handles = [Line2D([], [], color=canvas.BLUE, marker="o", label="the judge's leading policy")]
    if not all(row["leads"] for row in rows):
        handles.append(Line2D([], [], color=canvas.FAINT, marker="o", markerfacecolor="white", label="another policy"))
    canvas.legend(figure, handles, "lower left", (left / canvas.WIDTH, 0.1 / height), ncols=2, columnspacing=1.5)
    return figure


def _lines(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any] | None]]:
    """A line for each judge and each of its rows; a comparison is named on its first row."""
    lines: list[tuple[str, dict[str, Any] | None]] = []
    judge, names = None, None
    for row in rows:
        if row["judge"] != judge:
            judge, names = row["judge"], None
            lines.append((one_line(judge, 50) + _WARNING * bool(row["warning"]), None))
        lines.append(("" if row["names"] == names else canvas.abreast(*row["names"], most=32), row))
        names = row["names"]
    return lines


def _limits(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """The ends of the axis: all intervals and 50, rounded outward to tens."""
    values = [value for row in rows for value in [row["win_rate"], *(row["interval"] or [])] if value is not None]
    low, high = 10 * math.floor(min([45, *values]) / 10), 10 * math.ceil(max([55, *values]) / 10)
    return max(0, low), min(100, high)


def _said(row: dict[str, Any]) -> str:
    if row["win_rate"] is None:
        return "no verdict"
    interval = f" ({row['interval'][0]:.1f}–{row['interval'][1]:.1f})" if _has_interval(row) else ", too few"
    partial = ", PARTIAL" if row["partial"] else ""
    return f"{row['win_rate']:.1f}{interval}, n = {row['n_judged']}{partial}"


def _has_interval(row: dict[str, Any]) -> bool:
    """With too few pairs an interval is not drawn."""
    return row["interval"] is not None and row["finding"] != "too few"


def _mark(axes: canvas.Axes, place: int, row: dict[str, Any]) -> None:
    if row["win_rate"] is None:
        return
    color = canvas.BLUE if row["leads"] else canvas.FAINT
    if _has_interval(row):
        axes.plot(row["interval"], [place, place], color=color, linewidth=2 if row["leads"] else 1.2)
    axes.plot(
        row["win_rate"], place, "o", color=color, markerfacecolor=color if row["leads"] else "white", markersize=5,
        clip_on=False, zorder=3,
    )  # fmt: skip
