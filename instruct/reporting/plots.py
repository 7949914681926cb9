"""Stacked bars of wins, ties and losses, a row a comparison: Figures 3 to 6 of the EMO paper (arXiv 2310.04691)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.errors import one_line
from instruct.reporting.schema import Comparison, Judge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and orange of Okabe and Ito's palette stay apart for every kind of colour blindness, and in grey.
_PARTS = {
    "first named wins": ("#0072B2", "white"),
    "tie": ("#DDDDDD", "#222222"),
    "first named loses": ("#E69F00", "#222222"),
    "no verdict": ("#777777", "white"),
}
_INK, _FAINT, _ALERT = "#222222", "#666666", "#A02C00"
_WIDTH, _ROW, _BAR = 8.0, 0.62, 0.56
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
    "font.size": 10,
    "text.parse_math": False,  # names are foreign text: a dollar sign is a dollar sign
    "svg.hashsalt": "instruct",
    "svg.fonttype": "path",
}


def draw_comparisons(judge: Judge, stem: Path) -> None:
    """Write `stem`.png (200 dpi) and `stem`.svg: the outcomes under each comparison's leading policy.

    The same report gives the same bytes with the same matplotlib. Each file is written whole or not at all, and left
    as it is where it shows just this already.
    """
    digest = _digest(judge)
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Description": digest},
        ".svg": {"Description": digest, "Date": None},
    }
    paths = {suffix: stem.with_name(stem.name + suffix) for suffix in metadata}
    if all(path.is_file() and digest.encode() in path.read_bytes() for path in paths.values()):
        return
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks
        figure = _figure(judge)
        for suffix, path in paths.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix[1:], facecolor="white", dpi=200, metadata=metadata[suffix])
            _write_whole(path, buffer.getvalue())


def _digest(judge: Judge) -> str:
    """Of all that a figure shows and of what draws it: to draw takes longer than the rest of a report."""
    shown = {key: judge[key] for key in ("name", "model", "warning")}
    keys = ("candidate", "baseline", "leading", "policies", "partial")
    rows = [{key: comparison[key] for key in keys} for comparison in judge["comparisons"]]  # type: ignore[literal-required]
    drawn_by = [Path(__file__).read_text(encoding="utf-8"), importlib.metadata.version("matplotlib")]
    return hashlib.sha256(json.dumps([shown, rows, drawn_by]).encode()).hexdigest()


def _figure(judge: Judge) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    comparisons = judge["comparisons"]
    warning = textwrap.wrap(one_line(judge["warning"] or "", 400), 100)
    names = [_row_name(comparison) for comparison in comparisons]
    left = min(2.6, 0.35 + 0.083 * max(len(line) for name in names for line in name.split("\n")))
    right, top, bottom = 1.45, 0.85 + (0.18 * len(warning) + 0.3 if warning else 0), 0.68
    height = top + _ROW * len(comparisons) + bottom
    figure = Figure(figsize=(_WIDTH, height))
    width = _WIDTH - left - right
    axes = figure.add_axes((left / _WIDTH, bottom / height, width / _WIDTH, _ROW * len(comparisons) / height))
    for row, comparison in enumerate(comparisons):
        _draw_row(axes, row, comparison, width)
    _style(axes, names)

    policies = ", ".join(dict.fromkeys(comparison["leading"] for comparison in comparisons))
    figure.text(
        0.15 / _WIDTH, 1 - 0.2 / height, f"Verdicts of {one_line(judge['name'], 60)}", va="top", size=13, weight="bold"
    )
    subtitle = f"{one_line(judge['model'], 70)}, policy: {policies}"
    figure.text(0.15 / _WIDTH, 1 - 0.47 / height, subtitle, va="top", size=9, color=_FAINT)
    if warning:
        style = {"facecolor": "#FFF1E8", "edgecolor": _ALERT, "linewidth": 0.8, "boxstyle": "round,pad=0.45"}
        place = (0.23 / _WIDTH, 1 - 0.86 / height)
        figure.text(
            *place, "\n".join(warning), va="top", size=8.5, color=_ALERT, weight="bold", linespacing=1.35, bbox=style
        )
    handles = [Patch(color=colour, label=part) for part, (colour, _) in _PARTS.items()]
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(left / _WIDTH, 0.02), ncols=len(handles), frameon=False,
        fontsize=8, handlelength=1, handleheight=1, columnspacing=1.5, handletextpad=0.5, borderaxespad=0,
    )  # fmt: skip
    return figure


def _draw_row(axes: Axes, row: int, comparison: Comparison, inches: float) -> None:
    """One bar, in percent of all pairs; `inches` is what the whole of it is wide."""
    figures = comparison["policies"][comparison["leading"]]
    counts = (figures["win"], figures["tie"], figures["loss"], figures["unparsed"] + figures["failed"])
    start = 0.0
    narrow: list[tuple[float, str]] = []
    for count, (colour, ink) in zip(counts, _PARTS.values(), strict=True):
        if not count:
            continue
        share = 100 * count / figures["n"]
        axes.barh(row, share, _BAR, left=start, color=colour, edgecolor="white", linewidth=0.4)
        text, middle = str(count), start + share / 2
        if share / 100 * inches > 0.1 * len(text) + 0.06:
            axes.text(middle, row, text, ha="center", va="center_baseline", color=ink, size=10, weight="bold")
        else:
            narrow.append((middle, text))
        start += share
    _draw_narrow(axes, row, narrow, inches)
    rate, error = figures["win_rate"], figures["standard_error"]
    said = "no verdict" if rate is None else f"{rate:.1f} %" + ("" if error is None else f" ± {error:.1f}")
    pairs = f"n = {figures['n_judged']}" + (", PARTIAL" if comparison["partial"] else "")
    axes.text(102, row - 0.13, said, ha="left", va="center", color=_INK, size=10, weight="bold", clip_on=False)
    axes.text(102, row + 0.2, pairs, ha="left", va="center", color=_FAINT, size=8, clip_on=False)


def _draw_narrow(axes: Axes, row: int, labels: list[tuple[float, str]], inches: float) -> None:
    """Counts of parts too narrow to hold them: above the bar, side by side, none beyond its ends."""
    widths = [100 * (0.09 * len(text) + 0.06) / inches for _, text in labels]
    edge = 100.0
    for index in reversed(range(len(labels))):
        middle, text = labels[index]
        half = widths[index] / 2
        place = max(sum(widths[:index]) + half, min(middle, edge - half))
        axes.text(place, row - _BAR / 2 - 0.02, text, ha="center", va="bottom", color=_INK, size=8)
        edge = place - half


def _style(axes: Axes, names: list[str]) -> None:
    axes.set_xlim(0, 100)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, pad=6, labelcolor=_INK)
    axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.tick_params(axis="x", length=3, labelsize=8, color=_FAINT, labelcolor=_FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#BBBBBB")
    axes.text(102, -0.62, "win rate ± SE", ha="left", va="bottom", color=_FAINT, size=8, clip_on=False)


def _row_name(comparison: Comparison) -> str:
    first, second = (one_line(name, 28) for name in (comparison["candidate"], comparison["baseline"]))
    return f"{first} vs{' ' if len(first + second) <= 20 else chr(10)}{second}"


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)
