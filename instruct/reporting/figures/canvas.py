"""What a figure is, and the three kinds of them: stacked bars, a forest plot and curves, each as SVG and PDF."""

from __future__ import annotations

import io
import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from instruct.base.files import ending_of, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's palette: distinct for every kind of color blindness, its first two colors in gray too.
BLUE, ORANGE = "#0072B2", "#E69F00"
COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#222222")
INK, FAINT, ALERT, LINE = "#222222", "#666666", "#A02C00", "#BBBBBB"
WIDTH = 8.0  # inches, as wide as a page
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "font.size": 9,
    "text.parse_math": False,  # names are foreign text: a dollar sign is a dollar sign
    "svg.hashsalt": "instruct",
    "svg.fonttype": "path",
    "axes.edgecolor": LINE,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.labelsize": 8,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.color": FAINT,
    "xtick.labelsize": 8,
}
# For the page, and for papers.
KINDS = ("svg", "pdf")
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
_BAR, _ROW, _PANEL = 0.62, 0.27, 2.5  # inches: a row of bars, one of a forest plot, and a panel of curves
_FEW_POINTS = 40
_SPIKE = 20  # times the median


class Content(Protocol):
    """What a figure shows, with the kind of figure that it is."""

    def draw(self) -> Figure:
        """Draw it."""


@dataclass(frozen=True)
class Drawing:
    """A figure: the stem of its files, its title, and what it shows. A notebook shows it."""

    name: str
    title: str
    data: Content

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
            # A name in a script that the font lacks, and names of wide letters that leave a figure no room.
            warnings.filterwarnings("ignore", message="Glyph .* missing|constrained_layout not applied")
            figure = self.data.draw()
            for kind in kinds:
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, facecolor="white", metadata=_METADATA[kind])
                files[kind] = buffer.getvalue()
        return files


class Part(NamedTuple):
    """A part of each bar: what it is called, its color, that of its counts, and its hatch."""

    label: str
    color: str
    ink: str
    hatch: dict[str, Any] = {}


class Bar(NamedTuple):
    """A stacked bar: its label, the count of each part, and what is said beside it."""

    label: str
    counts: Sequence[int]
    said: str


@dataclass(frozen=True)
class Bars:
    """Stacked bars of shares, with their counts in them, below a warning."""

    heading: str
    warning: str
    parts: Sequence[Part]
    rows: Sequence[Bar]

    def draw(self) -> Figure:
        """Draw a row for each bar, in percent of all its counts."""
        from matplotlib.patheffects import withStroke

        lines = self.warning.count("\n") + bool(self.warning)
        figure, (axes,) = _panels(self.heading, _BAR * len(self.rows) + 0.2 * lines, 1)
        places = range(len(self.rows))
        starts = [0.0] * len(self.rows)
        drawn: list[Any] = []
        for number, part in enumerate(self.parts):
            counts = [row.counts[number] for row in self.rows]
            shares = [100 * row.counts[number] / (sum(row.counts) or 1) for row in self.rows]
            bars = axes.barh(places, shares, 0.8, left=starts, color=part.color, linewidth=0, **part.hatch)
            drawn.append(bars)
            inside = [str(count) if share > 2.5 else "" for count, share in zip(counts, shares, strict=True)]
            halo: Any = {"path_effects": [withStroke(linewidth=4, foreground=part.color)]} if part.hatch else {}
            axes.bar_label(bars, inside, label_type="center", color=part.ink, weight="bold", **halo)
            starts = [start + share for start, share in zip(starts, shares, strict=True)]
        _rows(axes, [(row.label, row.said) for row in self.rows])
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of pairs")
        axes.set_title(self.warning, color=ALERT)
        labels = [part.label for part in self.parts]
        style: Any = {"ncols": len(labels) or 1, "handlelength": 1, "columnspacing": 1.2}
        figure.legend(drawn, labels, loc="outside lower left", **style)
        return figure


class Row(NamedTuple):
    """A row of a forest plot: its label, what is said beside it, a figure with its interval, and whether it leads."""

    label: str
    said: str
    figure: float | None
    interval: Sequence[float] | None
    leads: bool = True


@dataclass(frozen=True)
class Forest:
    """Figures with their intervals, in panels with a title; `even`: where systems are equal."""

    heading: str
    panels: Sequence[tuple[str, Sequence[Row]]]
    even: float
    unit: str = ""
    shared: bool = False
    """Whether all panels have one axis."""

    def draw(self) -> Figure:
        """Draw a row for each figure, and a dashed line where systems are equal."""
        sizes = [len(rows) for _, rows in self.panels]
        height = _ROW * sum(sizes) + 0.6 * len(sizes)
        figure, every = _panels(self.heading, height, len(sizes), sharex=self.shared, height_ratios=sizes)
        figure.set_layout_engine("constrained", h_pad=0.12)
        for axes, (title, rows) in zip(every, self.panels, strict=True):
            for place, row in enumerate(rows):
                color, face = (BLUE, BLUE) if row.leads else (FAINT, "white")
                if row.interval:
                    axes.plot(row.interval, [place, place], color=color, linewidth=2 if row.leads else 1.2)
                if row.figure is not None:
                    axes.plot(row.figure, place, "o", color=color, markerfacecolor=face, markersize=5)
            axes.axvline(self.even, color=LINE, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
            axes.set_title(title).set_in_layout(False)  # a long one may go beyond its axes
            _rows(axes, [(row.label, row.said) for row in rows])
        every[-1].set_xlabel(self.unit)
        return figure


class Line(NamedTuple):
    """A line in a panel: its label, the color's number, its points, and how it is drawn otherwise."""

    label: str
    color: int
    xs: Sequence[float]
    ys: Sequence[float]
    style: dict[str, Any] = {}


class Panel(NamedTuple):
    """Curves with the same axes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Curves:
    """Curves in panels, two side by side."""

    heading: str
    panels: Sequence[Panel]

    def draw(self) -> Figure:
        """Draw a panel for each quantity, above a legend; its axis is logarithmic if few values would flatten most."""
        rows, columns = -(-len(self.panels) // 2), min(2, len(self.panels))
        figure, every = _panels(self.heading, _PANEL * rows * (3 - columns), rows, columns)
        handles = {}
        for axes, (title, x, y, lines) in zip(every, self.panels, strict=False):
            for line in lines:
                few: Any = {"marker": "o", "markersize": 3} if len(line.xs) <= _FEW_POINTS else {}
                color = COLORS[line.color % len(COLORS)]
                dashes = "-" if line.color < len(COLORS) else "--"
                style = {"color": color, "linewidth": 1.4, "linestyle": dashes, **few, **line.style}
                (handles[line.label],) = axes.plot(line.xs, line.ys, **style)
            axes.set(title=title, xlabel=x, ylabel=y)
            values = [value for line in lines for value in line.ys if not math.isnan(value)]
            if min(values) > 0 and max(values) > _SPIKE * statistics.median(values):
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
                axes.yaxis.set_minor_formatter("")
        for axes in every[len(self.panels) :]:
            axes.remove()
        handles.pop("", None)
        several = 2 if max(map(len, handles), default=0) <= 45 else 1
        figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=several)
        return figure


def _panels(heading: str, height: float, rows: int, columns: int = 1, **layout: Any) -> tuple[Figure, list[Axes]]:
    """A figure with its heading, and its panels; they take `height` inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height + 1.3), layout="constrained")
    figure.suptitle(heading, x=0.02, ha="left", size=11, weight="bold")
    return figure, [*figure.subplots(rows, columns, squeeze=False, **layout).flat]


def _rows(axes: Axes, rows: Sequence[tuple[str, str]]) -> None:
    """Label each row of a figure, the first one on top, and say something beside it."""
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    beside: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "size": 8}
    for place, (_, said) in enumerate(rows):
        axes.annotate(said, (1, place), (8, 0), **beside)
