"""The figures of a report, each as PNG and SVG: planned once for report.json and for drawing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.reporting.figures.canvas import Drawing
from instruct.reporting.figures.lengths import answer_lengths, win_rate_by_length
from instruct.reporting.figures.outcomes import outcomes
from instruct.reporting.figures.stopping import stopping
from instruct.reporting.figures.texts import divergence_curves, precision_recall
from instruct.reporting.figures.training import perplexity_curves, task_curves, training_curves
from instruct.reporting.figures.win_rates import win_rates
from instruct.reporting.model import Figure, JudgeReport, ReportData

_FOLDER = "figures"
TEXT_FIGURES = ("precision_recall", "divergence_curve")
_TRAINING = ("training", "perplexity", "task_curves")
_OWN = ("win_rates", "stopping", "length_difference", "answer_lengths", *_TRAINING, *TEXT_FIGURES)


def outcome_names(judges: list[JudgeReport]) -> dict[str, str]:
    """The name of the figure, a file's stem, with each judge's outcomes.

    Names that differ only in case, or that come down to the same stem, get a number.
    """
    found: dict[str, str] = {}
    for number, judge in enumerate(judges, 1):
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", judge.name).strip("-")[:60] or "judge"
        taken = {other.lower() for other in [*_OWN, *found.values()]}
        found[judge.name] = f"{stem}-{number}" if stem.lower() in taken else stem
    return found


def drawings(report: ReportData) -> list[Drawing]:
    """The figures of a report in reading order; `report.figures` is not read."""
    judges = report.judges
    names = outcome_names(judges)
    found = [
        *(outcomes(judge, names[judge.name]) for judge in judges),
        win_rates(judges),
        stopping(judges),
        win_rate_by_length(judges),
        answer_lengths(report.systems),
        training_curves(report.trainings),
        perplexity_curves(report.trainings),
        task_curves(report.trainings),
        precision_recall(report.texts),
        divergence_curves(report.texts),
    ]
    return [drawing for drawing in found if drawing]


def figures(report: ReportData) -> list[Figure]:
    """What report.json says of them."""
    return [
        Figure(
            name=drawing.name,
            title=drawing.title,
            png=f"{_FOLDER}/{drawing.name}.png",
            svg=f"{_FOLDER}/{drawing.name}.svg",
        )
        for drawing in drawings(report)
    ]


def draw_figures(report: ReportData, folder: Path) -> None:
    """Draw them into figures/ of `folder`; one that shows just this already is left as it is."""
    for drawing in drawings(report):
        drawing.save(folder / _FOLDER)


class DrawnFigure:
    """A figure that a notebook shows; drawn when it is asked for, from the report alone."""

    def __init__(self, drawing: Drawing) -> None:
        self.name, self.title, self._drawing = drawing.name, drawing.title, drawing

    @property
    def svg(self) -> str:
        """The figure as SVG."""
        return self._drawing.drawn("svg").decode()

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write FILE.svg, FILE.png (200 dpi) or FILE.pdf, whole or not at all.

        Raises:
            InputError: another extension, or a place that cannot be written.
        """
        path = Path(path).expanduser()
        kind = path.suffix.lower()[1:]
        if kind not in ("svg", "png", "pdf"):
            raise InputError(f"{path}: the extension must be .svg, .png or .pdf; rename the file")
        write_atomically(path, self._drawing.drawn(kind))


class DrawnFigures(list[Figure]):
    """`Report.figures`: what report.json lists, and by name the figures themselves: `figures["win_rates"]`."""

    def __init__(self, report: ReportData) -> None:
        super().__init__(report.figures)
        self._report = report

    def __getitem__(self, name: Any) -> Any:
        if not isinstance(name, str):
            return super().__getitem__(name)
        for drawing in drawings(self._report):
            if drawing.name == name:
                return DrawnFigure(drawing)
        raise KeyError(f"no figure {name!r} in this report; it has {', '.join(each.name for each in self) or 'none'}")
