"""Figures of judges' verdicts: outcomes, and win rates with their intervals."""

from __future__ import annotations

import math
import textwrap
from operator import attrgetter
from typing import Any, NamedTuple

from instruct.analysis.results import Claim
from instruct.base.errors import one_line
from instruct.reporting.digits import number, span
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import ALERT, BLUE, FAINT, INK, ORANGE, ROW, WIDTH, Drawing
from instruct.reporting.model import ComparisonReport, JudgeReport, compared_by
from instruct.reporting.text import EXPLORATORY

_WARNING = " (WARNING: see the figure of its verdicts)"
_MOST_ROWS = 60  # of a forest plot on a page
_BAR_ROW, _BAR = 0.62, 0.56


class _Part(NamedTuple):
    """A part of a bar: what it is called, its color, that of its count, its hatch, and what Counts call it."""

    label: str
    color: str
    ink: str
    counted: str
    hatch: dict[str, Any] = {}


# The light colors of report.css: any two differ in lightness, too. Contradicted and identical pairs are hatched.
_PARTS = [
    _Part("first named wins", BLUE, "white", "win"),
    _Part("tie", "#D5D3CD", INK, "called"),
    _Part("judge contradicted itself", "#9A8B6A", INK, "contradicted", {"hatch": "////", "edgecolor": "#7A6C4C"}),
    _Part("identical answers", "#ECEAE4", INK, "identical", {"hatch": "....", "edgecolor": "#A8A59C"}),
    _Part("first named loses", ORANGE, INK, "loss"),
    _Part("no verdict", "#3D4248", "white", "unread"),
]


def outcomes(judge: JudgeReport, name: str) -> Drawing:
    """Stacked bars of wins, ties and losses, a row per comparison under its leading policy.

    As Figures 3 to 6 of the EMO paper (arXiv 2310.04691).
    """
    return Drawing(name, f"Wins, ties and losses by the verdicts of {judge.name}", judge, _draw_outcomes)


def _draw_outcomes(judge: JudgeReport) -> canvas.Figure:
    from matplotlib.patches import Patch

    warning = textwrap.wrap(one_line(judge.warning or "", 400), 100)
    names = [_in_two_lines(comparison) for comparison in judge.comparisons]
    left, right, top = canvas.left_margin(names), 1.45, 0.85 + (0.18 * len(warning) + 0.3 if warning else 0)
    policies = ", ".join(dict.fromkeys(str(comparison.claim.policy) for comparison in judge.comparisons))
    titles = f"Verdicts of {one_line(judge.name, 60)}", f"{one_line(judge.model, 70)}, policy: {policies}"
    figure, (axes,) = canvas.panels(titles, 1, (_BAR_ROW * len(names), 0.68), (left, right, top))
    for place, comparison in enumerate(judge.comparisons):
        _draw_bar(axes, place, comparison, WIDTH - left - right)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=10, labelcolor=INK)
    axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.text(102, -0.62, "win rate ± SE", va="bottom", color=FAINT, size=8)
    if warning:
        box = {"facecolor": "#FFF1E8", "edgecolor": ALERT, "linewidth": 0.8, "boxstyle": "round,pad=0.45"}
        style: Any = {"size": 8.5, "color": ALERT, "weight": "bold", "linespacing": 1.35, "bbox": box}
        figure.text(0.23 / WIDTH, 1 - 0.86 / figure.get_figheight(), "\n".join(warning), va="top", **style)
    every = [comparison.counts for comparison in judge.comparisons]
    shown = [part for part in _PARTS if any(map(attrgetter(part.counted), every))]
    handles = [Patch(facecolor=part.color, label=part.label, linewidth=0, **part.hatch) for part in shown]
    spacing: Any = {"handlelength": 1, "handleheight": 1, "columnspacing": 1.5, "handletextpad": 0.5}
    place_of_legend = left / WIDTH, 0.02
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=place_of_legend, ncols=len(shown), **spacing)
    return figure


def _in_two_lines(comparison: ComparisonReport) -> str:
    """The two names of a comparison; on one line if together they are short."""
    first, second = (one_line(name, 28) for name in (comparison.candidate, comparison.baseline))
    return f"{first} vs{' ' if len(first + second) <= 20 else chr(10)}{second}"


def _draw_bar(axes: canvas.Axes, place: int, comparison: ComparisonReport, inches: float) -> None:
    """One bar, in percent of all pairs; `inches` is the width of the whole bar."""
    from matplotlib.patheffects import withStroke

    made, pairs, start = comparison.claim, comparison.counts, 0.0
    narrow: list[tuple[float, str]] = []
    for part in _PARTS:
        if not (count := getattr(pairs, part.counted)):
            continue
        share = 100 * count / pairs.n
        axes.barh(place, share, _BAR, left=start, color=part.color, linewidth=0, **part.hatch)
        axes.barh(place, share, _BAR, left=start, color="none", edgecolor="white", linewidth=0.4)
        text, middle = str(count), start + share / 2
        if share / 100 * inches > 0.1 * len(text) + 0.06:
            halo: Any = {"path_effects": [withStroke(linewidth=4, foreground=part.color)] if part.hatch else []}
            style: Any = {"ha": "center", "va": "center_baseline", "weight": "bold"} | halo
            axes.text(middle, place, text, color=part.ink, size=10, **style)
        else:
            narrow.append((middle, text))
        start += share
    _draw_narrow(axes, place, narrow, inches)
    rate, error = made.value, pairs.standard_error
    said = "no verdict" if rate is None else f"{number(rate, made.error)} %"
    said += "" if error is None else f" ± {number(error, made.error)}"
    axes.text(102, place - 0.13, said, va="center", color=INK, size=10, weight="bold")
    axes.text(102, place + 0.2, f"n = {made.n}" + ", PARTIAL" * comparison.partial, va="center", color=FAINT, size=8)


def _draw_narrow(axes: canvas.Axes, row: int, labels: list[tuple[float, str]], inches: float) -> None:
    """Counts of parts too narrow for them: above the bar, side by side, within its ends."""
    widths = [100 * (0.09 * len(text) + 0.06) / inches for _, text in labels]
    edge = 100.0
    for index in reversed(range(len(labels))):
        middle, text = labels[index]
        half = widths[index] / 2
        place = max(sum(widths[:index]) + half, min(middle, edge - half))
        axes.text(place, row - _BAR / 2 - 0.02, text, ha="center", va="bottom", color=INK, size=8)
        edge = place - half


def win_rates(judges: list[JudgeReport]) -> Drawing | None:
    """A forest plot over judges, comparisons and policies, with 95 % intervals; None without a verdict."""
    rows = [
        _Rate(judge, comparison, claim)
        for judge, comparison in compared_by(judges)
        for claim in (comparison.claim, comparison.strict)
        if claim is not None
    ]
    if len(rows) > _MOST_ROWS:
        rows = [row for row in rows if row.leads]
    title = "Win rates with their 95 % intervals, by judge, comparison and policy"
    return Drawing("win_rates", title, rows, _draw_win_rates) if rows else None


class _Rate(NamedTuple):
    """A comparison by one judge under one policy."""

    judge: JudgeReport
    comparison: ComparisonReport
    claim: Claim

    @property
    def leads(self) -> bool:
        """Whether the judge's card puts this policy first."""
        return self.claim is self.comparison.claim


def _draw_win_rates(rows: list[_Rate]) -> canvas.Figure:
    from matplotlib.lines import Line2D

    lines = _lines(rows)
    left, right = 3.65, 2.0
    titles = "Win rates", "With 95 % intervals; a tie is half a win"
    figure, (axes,) = canvas.panels(titles, 1, (ROW * len(lines), 0.75), (left, right, 0.8))
    canvas.as_forest(axes, len(lines), _limits(rows), 50)
    axes.xaxis.set_major_formatter(canvas.percent)
    for place, (text, row) in enumerate(lines):
        if row is None:
            color = ALERT if text.endswith(_WARNING) else INK
            canvas.beside(axes, 0.15 - left, place, text, weight="bold", size=9, color=color)
            continue
        color, claim = INK if row.leads else FAINT, row.claim
        canvas.beside(axes, 0.3 - left, place, text, size=9, color=color)
        canvas.beside(axes, -0.15, place, str(claim.policy), size=8, color=color, ha="right")
        canvas.beside(axes, WIDTH - left - right + 0.15, place, _said(row), size=8, color=color)
        if claim.value is not None:
            canvas.mark(axes, place, claim.value, _shown_interval(claim), row.leads)
    if not all(row.leads for row in rows):
        styles = (BLUE, BLUE, "the judge's leading policy"), (FAINT, "white", f"another policy ({EXPLORATORY})")
        handles = [
            Line2D([], [], marker="o", color=color, markerfacecolor=face, label=label) for color, face, label in styles
        ]
        corner = left / WIDTH, 0.1 / figure.get_figheight()
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=corner, ncols=2, columnspacing=1.5)
    return figure


def _lines(rows: list[_Rate]) -> list[tuple[str, _Rate | None]]:
    """A line for each judge and each of its rows; a comparison is named on its first row."""
    lines: list[tuple[str, _Rate | None]] = []
    judge, comparison = None, None
    for row in rows:
        if row.judge is not judge:
            lines.append((one_line(row.judge.name, 50) + _WARNING * bool(row.judge.warning), None))
            comparison = None
        names = canvas.abreast(row.comparison.candidate, row.comparison.baseline, 32)
        lines.append(("" if row.comparison is comparison else names, row))
        judge, comparison = row.judge, row.comparison
    return lines


def _limits(rows: list[_Rate]) -> tuple[float, float]:
    """The ends of the axis: all intervals and 50, rounded outward to tens."""
    ends = [end for row in rows for end in (row.claim.value, *(row.claim.interval or ())) if end is not None]
    low, high = 10 * math.floor(min([45, *ends]) / 10), 10 * math.ceil(max([55, *ends]) / 10)
    return max(0, low), min(100, high)


def _said(row: _Rate) -> str:
    claim = row.claim
    if claim.value is None:
        return "no verdict"
    interval = f" ({span(shown)})" if (shown := _shown_interval(claim)) else ", too few"
    return f"{number(claim.value, claim.error)}{interval}, n = {claim.n}" + ", PARTIAL" * row.comparison.partial


def _shown_interval(claim: Claim) -> list[float] | None:
    """With too few pairs an interval is not drawn."""
    return None if claim.finding == "too few" else claim.interval
