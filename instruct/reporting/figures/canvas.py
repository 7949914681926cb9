"""What all figures share: their style, their places on a page, and how they become files."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import one_line
from instruct.base.files import ending_of, write_atomically

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
    "axes.edgecolor": LINE,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "legend.borderaxespad": 0,
    "legend.fontsize": 8,
    "legend.frameon": False,
    **{f"{axis}tick.{key}": value for axis in "xy" for key, value in (("color", FAINT), ("labelsize", 8))},
    **{f"{axis}tick.major.size": 3 for axis in "xy"},
}
# For the page, and for papers.
KINDS = ("svg", "pdf")
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Drawing:
    """A figure: the stem of its files, its title, its data, and the function that draws it. A notebook shows it."""

    name: str
    title: str
    data: Any
    draw: Callable[[Any], Figure]

    @property
    def svg(self) -> str:
        """The figure as SVG."""
        return self.drawn("svg")["svg"].decode()

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write FILE.svg or FILE.pdf, whole or not at all.

        Raises:
            InputError: another extension, or a place that cannot be written.
        """
        path = Path(path).expanduser()
        kind = ending_of(path, (f".{kind}" for kind in KINDS))[1:]
        write_atomically(path, self.drawn(kind)[kind])

    def drawn(self, *kinds: str) -> dict[str, bytes]:
        """The figure as a file of each kind, drawn once. The same data give the same bytes with the same matplotlib."""
        import matplotlib

        files = {}
        with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks
            figure = self.draw(self.data)
            for kind in kinds:
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, facecolor="white", metadata=_METADATA[kind])
                files[kind] = buffer.getvalue()
        return files


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
    return figure.add_axes((left / WIDTH, 1 - (top + height) / total, width / WIDTH, height / total))


def panels(
    titles: tuple[str, str],
    count: int,
    size: tuple[float, float],
    margins: tuple[float, float, float],
    columns: int = 1,
    below: float = 0.0,
) -> tuple[Figure, list[Axes]]:
    """A figure with its title and the line below it, and `count` panels in columns; all places are in inches.

    Args:
        size: a panel's height, and the space below it.
        margins: the space to the left and to the right of a panel, and above the first row of panels.
        below: further space below all panels.
    """
    (height, gap), (left, right, top) = size, margins
    figure = empty_figure(top + math.ceil(count / columns) * (height + gap) + below, *titles)
    width = WIDTH / columns
    places = [divmod(number, columns) for number in range(count)]
    return figure, [
        axes_at(figure, left + column * width, top + row * (height + gap), width - left - right, height)
        for row, column in places
    ]


def as_forest(axes: Axes, rows: int, limits: tuple[float, float], middle: float) -> None:
    """Make axes those of a forest plot, with a row for each figure, and a dashed line where systems are equal."""
    axes.set_xlim(*limits)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.axvline(middle, color=LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=5)


def mark(axes: Axes, row: float, figure: float, interval: list[float] | None, leads: bool = True) -> None:
    """A figure and its interval in a row of a forest plot."""
    color = BLUE if leads else FAINT
    if interval:
        axes.plot(interval, [row, row], color=color, linewidth=2 if leads else 1.2)
    face = color if leads else "white"
    axes.plot(figure, row, "o", color=color, markerfacecolor=face, markersize=5, clip_on=False, zorder=3)


def beside(axes: Axes, inches: float, row: float, text: str, **style: Any) -> None:
    """Text in a row of a forest plot, `inches` from the left end of the axes, or beyond their right end."""
    place: Mapping[str, Any] = {"va": "center_baseline", "clip_on": False, "transform": axes.get_yaxis_transform()}
    axes.text(inches / (axes.get_position().width * WIDTH), row, text, **place, **style)


def percent(value: float, _: object = None) -> str:
    """The label of a tick."""
    return f"{value:g} %"


def abreast(candidate: str, baseline: str, most: int) -> str:
    """The two names of a comparison on one line; each is cut to half of `most` if together they are longer."""
    first, second = (one_line(name, most) for name in (candidate, baseline))
    if len(first + second) > most:
        first, second = (one_line(name, most // 2) for name in (first, second))
    return f"{first} vs {second}"


def left_margin(labels: list[str]) -> float:
    """Inches that the labels of rows need on the left."""
    return min(2.6, 0.35 + 0.083 * max(len(line) for label in labels for line in label.split("\n")))
