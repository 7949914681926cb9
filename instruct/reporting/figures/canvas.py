"""What all figures share: their style, and how they become files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import one_line
from instruct.base.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's palette: distinct for every kind of color blindness, its first two colors in gray too.
BLUE, ORANGE = "#0072B2", "#E69F00"
COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#222222")
INK, FAINT, ALERT, LINE = "#222222", "#666666", "#A02C00", "#BBBBBB"
WIDTH = 8.0  # inches, as wide as a page
ROW = 0.27  # of a forest plot
_LEFT = 0.15
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "font.size": 10,
    "text.parse_math": False,  # names are foreign text: a dollar sign is a dollar sign
    "svg.hashsalt": "instruct",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Drawing:
    """A figure to draw: the stem of its files, its title, its data, and the function that draws it.

    `data` is JSON and all that `draw` reads: a figure is drawn again if either changed.
    """

    name: str
    title: str
    data: Any
    draw: Callable[[Any], Figure]

    def save(self, folder: Path) -> None:
        """Write NAME.png (200 dpi) and NAME.svg.

        The same data give the same bytes with the same matplotlib. Each file is written whole or not at all, and not
        at all if it is up to date.
        """
        digest = self._digest()
        metadata: dict[str, dict[str, Any]] = {
            ".png": {"Description": digest},
            ".svg": {"Description": digest, "Date": None},
        }
        paths = {suffix: folder / (self.name + suffix) for suffix in metadata}
        if all(path.is_file() and digest.encode() in path.read_bytes() for path in paths.values()):
            return
        for suffix, content in self._drawn(metadata).items():
            write_atomically(paths[suffix], content)

    def drawn(self, kind: str) -> bytes:
        """The figure as a file of a kind: svg, png or pdf."""
        about: dict[str, Any] = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}
        return self._drawn({f".{kind}": about[kind]})[f".{kind}"]

    def _drawn(self, metadata: dict[str, dict[str, Any]]) -> dict[str, bytes]:
        """The figure in each format named in `metadata`, drawn once."""
        import matplotlib

        found = {}
        with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks
            figure = self.draw(self.data)
            for suffix, about in metadata.items():
                buffer = io.BytesIO()
                figure.savefig(buffer, format=suffix[1:], facecolor="white", dpi=200, metadata=about)
                found[suffix] = buffer.getvalue()
        return found

    def _digest(self) -> str:
        """Of the figure's data and the code that draws it: drawing takes longer than the rest of a report."""
        code = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))]
        drawn_by = [self.draw.__name__, code, importlib.metadata.version("matplotlib")]
        return hashlib.sha256(json.dumps([self.name, self.data, drawn_by]).encode()).hexdigest()


def empty_figure(height: float, title: str, subtitle: str) -> Figure:
    """An empty figure, `height` inches high, with its title and a line below it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    place = _LEFT / WIDTH
    figure.text(place, 1 - 0.2 / height, title, va="top", size=13, weight="bold")
    figure.text(place, 1 - 0.47 / height, subtitle, va="top", size=9, color=FAINT)
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the figure's left and top."""
    total = figure.get_figheight()
    axes = figure.add_axes((left / WIDTH, 1 - (top + height) / total, width / WIDTH, height / total))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.tick_params(length=3, labelsize=8, color=FAINT, labelcolor=FAINT)
    return axes


def even_line(axes: Axes, upright: bool = False) -> None:
    """A dashed line at 50 %."""
    draw = axes.axvline if upright else axes.axhline
    draw(50, color=LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)


def forest_axes(figure: Figure, place: tuple[float, float, float], rows: int, limits: tuple[float, float]) -> Axes:
    """Axes for a row per rate in percent; `place`: left, top and width in inches."""
    left, top, width = place
    axes = axes_at(figure, left, top, width, ROW * rows)
    axes.set_xlim(*limits)
    axes.set_ylim(rows - 0.5, -0.5)
    even_line(axes, upright=True)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(percent)
    return axes


def beside(axes: Axes, inches: float, row: float, text: str, **style: Any) -> None:
    """Text in a row of a forest plot, `inches` from the left end of the axes, or beyond their right end."""
    width = axes.get_position().width * WIDTH
    known: dict[str, Any] = {
        "ha": "left",
        "va": "center_baseline",
        "clip_on": False,
        "transform": axes.get_yaxis_transform(),
    }
    axes.text(inches / width, row, text, **known | style)


def percent(value: float, _: object = None) -> str:
    """The label of a tick."""
    return f"{value:g} %"


def legend(figure: Figure, handles: Any, loc: Any, place: tuple[float, float], **style: Any) -> None:
    """A legend without a frame; `place`: its corner as parts of the figure."""
    known: dict[str, Any] = {"frameon": False, "borderaxespad": 0, "fontsize": 8}
    figure.legend(handles=handles, loc=loc, bbox_to_anchor=place, **known | style)


def abreast(candidate: str, baseline: str, *, most: int) -> str:
    """The two names of a comparison on one line; each is cut to half of `most` if together they are longer."""
    first, second = (one_line(name, most) for name in (candidate, baseline))
    if len(first + second) > most:
        first, second = (one_line(name, most // 2) for name in (first, second))
    return f"{first} vs {second}"


def versus(candidate: str, baseline: str, limit: int = 28, line: int = 20) -> str:
    """The two names of a comparison; on two lines if together they are longer than `line`."""
    first, second = (one_line(name, limit) for name in (candidate, baseline))
    return f"{first} vs{' ' if len(first + second) <= line else chr(10)}{second}"


def left_margin(labels: list[str], most: float = 2.6) -> float:
    """Inches that the labels of rows need on the left."""
    return min(most, 0.35 + 0.083 * max(len(line) for label in labels for line in label.split("\n")))
