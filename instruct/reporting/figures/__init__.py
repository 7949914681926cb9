"""The figures of a report, each as PNG and SVG: what report.json lists and what is drawn are planned here once."""

from __future__ import annotations

from pathlib import Path

from instruct.reporting.figures.canvas import Drawing
from instruct.reporting.figures.lengths import answer_lengths, win_rate_by_length
from instruct.reporting.figures.outcomes import outcomes
from instruct.reporting.figures.training import training_curves
from instruct.reporting.figures.win_rates import win_rates
from instruct.reporting.judges import figure_names
from instruct.reporting.schema import Figure, Judge, Report

_FOLDER = "figures"
_OWN = ("win_rates", "length_difference", "answer_lengths", "training")


def outcome_names(judges: list[Judge]) -> dict[str, str]:
    """Which figure shows the outcomes by each judge."""
    return figure_names(judges, _OWN)


def drawings(report: Report) -> list[Drawing]:
    """What there is to draw of a report, in the order in which a reader wants it; `figures` of it is not read."""
    judges = report["judges"]
    names = outcome_names(judges)
    found = [
        *(outcomes(judge, names[judge["name"]]) for judge in judges),
        win_rates(judges),
        win_rate_by_length(judges),
        answer_lengths(report["systems"]),
        training_curves(report["trainings"]),
    ]
    return [drawing for drawing in found if drawing]


def figures(report: Report) -> list[Figure]:
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


def draw_figures(report: Report, folder: Path) -> None:
    """Draw them into figures/ of `folder`; one that shows just this already is left as it is."""
    for drawing in drawings(report):
        drawing.save(folder / _FOLDER)
