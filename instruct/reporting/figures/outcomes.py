"""Stacked bars of wins, ties and losses, a row per comparison: Figures 3 to 6 of the EMO paper (arXiv 2310.04691)."""

from __future__ import annotations

import textwrap
from typing import Any

from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.model import JudgeReport

# The light colors of report.css: any two differ in lightness, too. Contradicted and identical pairs are hatched.
_PARTS: dict[str, tuple[str, str, tuple[str, str] | None]] = {
    "first named wins": (canvas.BLUE, "white", None),
    "tie": ("#D5D3CD", canvas.INK, None),
    "judge contradicted itself": ("#9A8B6A", canvas.INK, ("////", "#7A6C4C")),
    "identical answers": ("#ECEAE4", canvas.INK, ("....", "#A8A59C")),
    "first named loses": (canvas.ORANGE, canvas.INK, None),
    "no verdict": ("#3D4248", "white", None),
}
_ROW, _BAR = 0.62, 0.56


def outcomes(judge: JudgeReport, name: str) -> canvas.Drawing:
    """The outcomes under each comparison's leading policy, by one judge."""
    rows = [
        {
            "names": [comparison.candidate, comparison.baseline],
            "policy": comparison.leading,
            "figures": comparison.leading_figures.model_dump(),
            "partial": comparison.partial,
        }
        for comparison in judge.comparisons
    ]
    data = {"judge": judge.name, "model": judge.model, "warning": judge.warning, "rows": rows}
    return canvas.Drawing(name, f"Wins, ties and losses by the verdicts of {judge.name}", data, _draw)


def _draw(data: dict[str, Any]) -> canvas.Figure:
    from matplotlib.patches import Patch

    rows = data["rows"]
    warning = textwrap.wrap(one_line(data["warning"] or "", 400), 100)
    names = [canvas.versus(*row["names"]) for row in rows]
    left, right, bottom = canvas.left_margin(names), 1.45, 0.68
    top = 0.85 + (0.18 * len(warning) + 0.3 if warning else 0)
    height = top + _ROW * len(rows) + bottom
    policies = ", ".join(dict.fromkeys(row["policy"] for row in rows))
    subtitle = f"{one_line(data['model'], 70)}, policy: {policies}"
    figure = canvas.empty_figure(height, f"Verdicts of {one_line(data['judge'], 60)}", subtitle)
    width = canvas.WIDTH - left - right
    axes = canvas.axes_at(figure, left, top, width, _ROW * len(rows))
    for place, row in enumerate(rows):
        _draw_row(axes, place, row, width)
    _style(axes, names)
    if warning:
        style = {"facecolor": "#FFF1E8", "edgecolor": canvas.ALERT, "linewidth": 0.8, "boxstyle": "round,pad=0.45"}
        figure.text(
            0.23 / canvas.WIDTH, 1 - 0.86 / height, "\n".join(warning), va="top", size=8.5, color=canvas.ALERT,
            weight="bold", linespacing=1.35, bbox=style,
        )  # fmt: skip
    kinds = {"judge contradicted itself": "contradicted", "identical answers": "identical"}
    absent = {part for part, kind in kinds.items() if not any(row["figures"][kind] for row in rows)}
    handles = [
        Patch(facecolor=color, label=part, **_hatched(hatch))
        for part, (color, _, hatch) in _PARTS.items()
        if part not in absent
    ]
    spacing = {"handlelength": 1, "handleheight": 1, "columnspacing": 1.5, "handletextpad": 0.5}
    canvas.legend(figure, handles, "lower left", (left / canvas.WIDTH, 0.02), ncols=len(handles), **spacing)
    return figure


def _draw_row(axes: canvas.Axes, place: int, row: dict[str, Any], inches: float) -> None:
    """One bar, in percent of all pairs; `inches` is the width of the whole bar."""
    from matplotlib.patheffects import withStroke

    figures = row["figures"]
    contradicted, identical = figures["contradicted"], figures["identical"]
    called, unread = figures["tie"] - contradicted - identical, figures["unparsed"] + figures["failed"]
    counts = (figures["win"], called, contradicted, identical, figures["loss"], unread)
    start = 0.0
    narrow: list[tuple[float, str]] = []
    for count, (color, ink, hatch) in zip(counts, _PARTS.values(), strict=True):
        if not count:
            continue
        share = 100 * count / figures["n"]
        axes.barh(place, share, _BAR, left=start, color=color, **_hatched(hatch))
        axes.barh(place, share, _BAR, left=start, color="none", edgecolor="white", linewidth=0.4)
        text, middle = str(count), start + share / 2
        if share / 100 * inches > 0.1 * len(text) + 0.06:
            halo = [withStroke(linewidth=4, foreground=color)] if hatch else []
            axes.text(
                middle, place, text, ha="center", va="center_baseline", color=ink, size=10, weight="bold",
                path_effects=halo,
            )  # fmt: skip
        else:
            narrow.append((middle, text))
        start += share
    _draw_narrow(axes, place, narrow, inches)
    rate, error = figures["win_rate"], figures["standard_error"]
    said = "no verdict" if rate is None else f"{rate:.1f} %" + ("" if error is None else f" ± {error:.1f}")
    pairs = f"n = {figures['n_judged']}" + (", PARTIAL" if row["partial"] else "")
    axes.text(102, place - 0.13, said, ha="left", va="center", color=canvas.INK, size=10, weight="bold", clip_on=False)
    axes.text(102, place + 0.2, pairs, ha="left", va="center", color=canvas.FAINT, size=8, clip_on=False)


def _hatched(hatch: tuple[str, str] | None) -> dict[str, Any]:
    """What draws a hatch, in its color, and no edge."""
    return {"linewidth": 0} | ({"hatch": hatch[0], "edgecolor": hatch[1]} if hatch else {})


def _draw_narrow(axes: canvas.Axes, row: int, labels: list[tuple[float, str]], inches: float) -> None:
    """Counts of parts too narrow for them: above the bar, side by side, within its ends."""
    widths = [100 * (0.09 * len(text) + 0.06) / inches for _, text in labels]
    edge = 100.0
    for index in reversed(range(len(labels))):
        middle, text = labels[index]
        half = widths[index] / 2
        place = max(sum(widths[:index]) + half, min(middle, edge - half))
        axes.text(place, row - _BAR / 2 - 0.02, text, ha="center", va="bottom", color=canvas.INK, size=8)
        edge = place - half


def _style(axes: canvas.Axes, names: list[str]) -> None:
    axes.set_xlim(0, 100)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=10, labelcolor=canvas.INK)
    axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.text(102, -0.62, "win rate ± SE", ha="left", va="bottom", color=canvas.FAINT, size=8, clip_on=False)
