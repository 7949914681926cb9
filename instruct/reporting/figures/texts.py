"""Figures of sampled texts: MAUVE's divergence curves, and precision against recall of next-token distributions."""

from __future__ import annotations

from typing import Any

from instruct.analysis.text_results import TextReport, TextSystem
from instruct.base.errors import one_line
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import COLORS, FAINT, INK, LINE, WIDTH, Drawing, axes_at, empty_figure

_SIDE, _LEFT, _TOP, _BELOW = 3.9, 0.75, 0.95, 0.65
_STYLES: dict[str, Any] = {"system": {"linestyle": "-", "marker": "o"}, "control": {"linestyle": ":", "marker": "s"}}


def divergence_curves(texts: TextReport | None) -> Drawing | None:
    """MAUVE's divergence curve of each system; None without MAUVE."""
    found = [_named(system) | {"curve": system.curve} for system in _systems(texts) if system.curve]
    title = "Texts: MAUVE's divergence curves; the area under a curve is MAUVE"
    return Drawing("divergence_curve", title, found, _draw_curves) if found else None


def precision_recall(texts: TextReport | None) -> Drawing | None:
    """Forward against reverse cross-entropy, with the curve of MLE at other temperatures."""
    found = []
    for system in _systems(texts):
        axes = [system.figure(key) for key in ("forward_cross_entropy", "reverse_cross_entropy")]
        if all(axes):
            found.append(
                _named(system)
                | {
                    "point": [figure.value for figure in axes if figure],
                    "intervals": [figure.interval for figure in axes if figure],
                    "by_temperature": system.by_temperature,
                }
            )
    title = "Texts: precision against recall, as reverse against forward cross-entropy"
    return Drawing("precision_recall", title, found, _draw_plane) if found else None


def _systems(texts: TextReport | None) -> list[TextSystem]:
    return texts.systems if texts else []


def _named(system: TextSystem) -> dict[str, Any]:
    """A name and a color; a control has its system's color."""
    return {"name": system.name, "of": system.control_of or system.name, "control": system.control_of is not None}


def _styles(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    systems = list(dict.fromkeys(each["of"] for each in found))
    return [
        {"color": COLORS[systems.index(each["of"]) % len(COLORS)]} | _STYLES["control" if each["control"] else "system"]
        for each in found
    ]


def _square(title: str, subtitle: str) -> tuple[canvas.Figure, canvas.Axes]:
    figure = empty_figure(_TOP + _SIDE + _BELOW, title, subtitle)
    return figure, axes_at(figure, _LEFT, _TOP, _SIDE, _SIDE)


def _legend(figure: canvas.Figure, axes: canvas.Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    height = figure.get_figheight()
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=((_LEFT + _SIDE + 0.2) / WIDTH, 1 - _TOP / height),
        frameon=False, fontsize=9, borderaxespad=0,
    )  # fmt: skip


def _draw_curves(found: list[dict[str, Any]]) -> canvas.Figure:
    figure, axes = _square("MAUVE's divergence curves", "Up and to the right: closer to human text")
    for each, style in zip(found, _styles(found), strict=True):
        xs, ys = zip(*each["curve"], strict=True)
        style = {**style, "marker": None}
        axes.plot(xs, ys, linewidth=1.6, label=one_line(each["name"], 34), **style)
    axes.set(xlim=(0, 1.01), ylim=(0, 1.01))
    axes.set_xlabel("similarity of the system's texts to the mixture (precision)", size=8, color=INK)
    axes.set_ylabel("similarity of human texts to the mixture (recall)", size=8, color=INK)
    _legend(figure, axes)
    return figure


def _draw_plane(found: list[dict[str, Any]]) -> canvas.Figure:
    figure, axes = _square("Precision and recall", "Nats per token; down: precision, left: recall")
    for each in found:
        if each["by_temperature"]:
            _, xs, ys = zip(*each["by_temperature"], strict=True)
            label = f"{one_line(each['name'], 20)} at other temperatures"
            axes.plot(xs, ys, color=LINE, linewidth=1.2, marker=".", zorder=0, label=label)
            coldest, *_ = each["by_temperature"]
            axes.annotate(f"T {coldest[0]:g}", (coldest[1], coldest[2]), size=7, color=INK)
    for each, style in zip(found, _styles(found), strict=True):
        x, y = each["point"]
        spans = [
            None if interval is None else [[value - interval[0]], [interval[1] - value]]
            for value, interval in zip((x, y), each["intervals"], strict=True)
        ]
        axes.errorbar(
            [x], [y], xerr=spans[0], yerr=spans[1], color=style["color"], marker=style["marker"], markersize=6,
            markerfacecolor="white" if each["control"] else style["color"], elinewidth=0.8, ecolor=FAINT,
            linestyle="none", label=one_line(each["name"], 34),
        )  # fmt: skip
    axes.set_xlabel("forward cross-entropy: what human text the system misses", size=8, color=INK)
    axes.set_ylabel("reverse cross-entropy: how unlikely its own choices are", size=8, color=INK)
    axes.margins(0.15)
    _legend(figure, axes)
    return figure
