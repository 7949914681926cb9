"""Length: the win rate by the difference in length, a panel per comparison, and how long each system's answers are."""

from __future__ import annotations

import math
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.model import JudgeReport, SystemReport

_MOST_PANELS = 12
_PANEL, _GAP = 1.75, 0.95
_SYSTEM = 1.0


def win_rate_by_length(judges: list[JudgeReport]) -> canvas.Drawing | None:
    """By judge and comparison; None if no comparison has both answers."""
    panels = [
        {
            "judge": judge.name,
            "names": [comparison.candidate, comparison.baseline],
            "bins": [each.model_dump() for each in length.by_difference],
            "win_rate": comparison.leading_figures.win_rate,
        }
        for judge in judges
        for comparison in judge.comparisons
        if (length := comparison.length) and length.by_difference
    ]
    title = "Win rate by length difference: candidate's answer minus baseline's"
    return canvas.Drawing("length_difference", title, panels, _draw_differences) if panels else None


def answer_lengths(systems: list[SystemReport]) -> canvas.Drawing | None:
    """A histogram per system, on one axis; None without answers."""
    rows = [
        {
            "name": system.name,
            "n": system.n,
            "mean": system.health.mean_characters,
            "median": system.health.median_characters,
            **system.health.length_histogram.model_dump(),
        }
        for system in systems
    ]
    return canvas.Drawing("answer_lengths", "Length of each system's answers", rows, _draw_lengths) if rows else None


def _draw_differences(panels: list[dict[str, Any]]) -> canvas.Figure:
    shown = panels[:_MOST_PANELS]
    columns = min(2, len(shown))
    rows = math.ceil(len(shown) / columns)
    left, right, top = 0.65, 0.25, 1.2
    height = top + rows * (_PANEL + _GAP)
    more = f"; the first {len(shown)} of {len(panels)} comparisons" if len(shown) < len(panels) else ""
    subtitle = f"Bins: characters longer than the baseline's answer, with 95 % intervals; line: all pairs{more}"
    figure = canvas.empty_figure(height, "Win rate by difference in length", subtitle)
    width = (canvas.WIDTH - columns * (left + right)) / columns
    for place, panel in enumerate(shown):
        row, column = divmod(place, columns)
        axes = canvas.axes_at(
            figure, left + column * (width + left + right), top + row * (_PANEL + _GAP), width, _PANEL
        )
        _draw_panel(axes, panel, 30 if columns == 2 else 70)
    return figure


def _draw_panel(axes: canvas.Axes, panel: dict[str, Any], limit: int) -> None:
    bins = panel["bins"]
    axes.set_title(
        canvas.abreast(*panel["names"], most=limit), loc="left", size=9, weight="bold", color=canvas.INK, pad=15
    )
    axes.text(
        0, 1.04, f"by {one_line(panel['judge'], limit + 10)}", transform=axes.transAxes, size=8, color=canvas.FAINT
    )
    canvas.even_line(axes)
    for place, each in enumerate(bins):
        if each["interval"]:
            axes.plot([place, place], each["interval"], color=canvas.BLUE, linewidth=2)
        axes.plot(place, each["win_rate"], "o", color=canvas.BLUE, markersize=6, clip_on=False, zorder=3)
    if panel["win_rate"] is not None:
        axes.axhline(panel["win_rate"], color=canvas.ORANGE, linewidth=1.2, zorder=0)
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.set_xticks(range(len(bins)), [f"{_signed(each['low'])}\nto {_signed(each['high'])}" for each in bins])
    axes.tick_params(axis="x", length=0)
    for place, each in enumerate(bins):
        axes.annotate(
            f"n = {each['n']}", (place, 0), xytext=(0, -25), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="top", size=7, color=canvas.FAINT, annotation_clip=False,
        )  # fmt: skip


def _signed(characters: int) -> str:
    return f"{characters:+d}".replace("-", "\N{MINUS SIGN}") if characters else "0"


def _draw_lengths(rows: list[dict[str, Any]]) -> canvas.Figure:
    labels = [one_line(row["name"], 28) for row in rows]
    left, right, top, bottom = canvas.left_margin(labels), 1.6, 0.85, 0.6
    height = top + _SYSTEM * len(rows) + bottom
    figure = canvas.empty_figure(height, "Length of the answers", "Share of each system's answers by characters")
    edges = rows[0]["edges"]
    width = edges[1] - edges[0]
    wider = len(edges) > 2 and edges[-1] - edges[-2] > width  # the last bar holds all that is longer
    end = edges[-2] + 2 * width if wider else edges[-1]
    most = max(count / row["n"] for row in rows for count in row["counts"])
    for place, row in enumerate(rows):
        axes = canvas.axes_at(figure, left, top + place * _SYSTEM, canvas.WIDTH - left - right, _SYSTEM - 0.12)
        starts = [*edges[:-2], edges[-2] + width if wider else edges[-2]]
        shares = [count / row["n"] for count in row["counts"]]
        bars = axes.bar(starts, shares, width, align="edge", color=canvas.BLUE, edgecolor="white", linewidth=0.4)
        if wider:
            bars[-1].set_alpha(0.5)
        if row["median"] < edges[-2] or not wider:
            axes.axvline(row["median"], color=canvas.INK, linewidth=1.2, linestyle=(0, (2, 1)))
        axes.set_xlim(0, end)
        axes.set_ylim(0, 1.08 * most)
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        beside: Any = {"transform": axes.transAxes, "clip_on": False}
        axes.text(-0.02, 0.5, labels[place], ha="right", va="center", size=10, color=canvas.INK, **beside)
        axes.text(1.02, 0.62, f"median {row['median']:.0f}", va="center", size=10, weight="bold", **beside)
        axes.text(
            1.02, 0.38, f"mean {row['mean']:.0f}, n = {row['n']}", va="center", size=8, color=canvas.FAINT, **beside
        )
        _label_lengths(axes, edges[-2] if wider else edges[-1], last=place == len(rows) - 1)
    said = "Dashed: the median." + (f" Pale: {edges[-2]} characters and more, up to {edges[-1] - 1}." if wider else "")
    figure.text(left / canvas.WIDTH, 0.1 / height, said, size=8, color=canvas.FAINT)
    return figure


def _label_lengths(axes: canvas.Axes, bound: int, last: bool) -> None:
    """Ticks up to `bound`, beyond which the axis has no scale; numbers only below the last system."""
    from matplotlib.ticker import MaxNLocator

    places = [tick for tick in MaxNLocator(6, integer=True).tick_values(0, bound) if 0 <= tick <= bound]
    axes.set_xticks(places, [f"{tick:.0f}" if last else "" for tick in places])
