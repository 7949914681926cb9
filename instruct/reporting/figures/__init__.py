"""The figures of a report, each as SVG and PDF: planned once for report.json and for drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.base.files import new_stem, write_atomically
from instruct.reporting.bench import bench_differences
from instruct.reporting.figures import shown
from instruct.reporting.figures.canvas import KINDS, Drawing
from instruct.reporting.model import Figure, ReportData

_FOLDER = "figures"
_OWN = ("win_rates", "differences", "training", "precision_recall")


def drawings(report: ReportData) -> list[Drawing]:
    """The figures of a report in reading order; `report.figures` is not read."""
    judges = report.judges
    names: list[str] = []
    for judge in judges:
        names.append(new_stem([judge.name], [*_OWN, *names]))
    every = [
        *map(shown.outcomes, judges, names),
        shown.win_rates(judges),
        shown.differences(bench_differences(report)),
        shown.training_curves(report.trainings),
        shown.precision_recall(report.measurements),
    ]
    return [drawing for drawing in every if drawing]


def figures(report: ReportData) -> list[Figure]:
    """What report.json says of them."""
    names = {drawing.name: drawing.title for drawing in drawings(report)}
    return [
        Figure(name=name, title=title, svg=f"{_FOLDER}/{name}.svg", pdf=f"{_FOLDER}/{name}.pdf")
        for name, title in names.items()
    ]


def draw_figures(report: ReportData, folder: Path) -> None:
    """Draw them into figures/ of `folder`, each file whole or not at all."""
    for drawing in drawings(report):
        for kind, content in drawing.drawn(*KINDS).items():
            write_atomically(folder / _FOLDER / f"{drawing.name}.{kind}", content)


class DrawnFigures(list[Figure]):
    """`Report.figures`: what report.json lists, and by name the figures themselves: `figures["win_rates"]`."""

    def __init__(self, report: ReportData) -> None:
        super().__init__(report.figures)
        self._report = report

    def __getitem__(self, name: Any) -> Any:
        if not isinstance(name, str):
            return super().__getitem__(name)
        drawn = {drawing.name: drawing for drawing in drawings(self._report)}
        if name not in drawn:
            known = ", ".join(figure.name for figure in self) or "none"
            raise KeyError(f"no figure {name!r} in this report; it has {known}")
        return drawn[name]
