"""What each figure of a report shows: verdicts, win rates, a bench's differences, trainings and texts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from instruct.analysis.results import Claim
from instruct.base.errors import one_line
from instruct.reporting.bench import difference_of
from instruct.reporting.digits import number, span
from instruct.reporting.figures.canvas import (
    BLUE,
    FAINT,
    INK,
    LINE,
    ORANGE,
    Bar,
    Bars,
    Curves,
    Drawing,
    Forest,
    Line,
    Panel,
    Part,
    Row,
)
from instruct.reporting.model import ComparisonReport, JudgeReport, Training, compared_by
from instruct.reporting.text import EXPLORATORY, finding
from instruct.reporting.texts import control_of, text_systems
from instruct.run.measurements import Measurement
from instruct.scores.claims import stated
from instruct.training.options import without_seed

_MOST_ROWS = 60  # of a forest plot on a page
# By what Counts call them. The light colors of report.css: any two differ in lightness, too.
_PARTS = {
    "win": Part("first named wins", BLUE, "white"),
    "called": Part("tie", "#D5D3CD", INK),
    "contradicted": Part("judge contradicted itself", "#9A8B6A", INK, {"hatch": "////", "edgecolor": "#7A6C4C"}),
    "identical": Part("identical answers", "#ECEAE4", INK, {"hatch": "....", "edgecolor": "#A8A59C"}),
    "loss": Part("first named loses", ORANGE, INK),
    "unread": Part("no verdict", "#3D4248", "white"),
}
_CURVES = {
    "ce": "cross-entropy (nats per token)",
    "cost": "transport cost",
    "ratio": "ratio of cross-entropy to cost",
    "grad_norm": "gradient norm",
    "perplexity": "perplexity on held-out rows",
}
_BOTH_WAYS = ("forward_cross_entropy", "reverse_cross_entropy")


def outcomes(judge: JudgeReport, name: str) -> Drawing:
    """Wins, ties and losses, a bar per comparison under its leading policy.

    As Figures 3 to 6 of the EMO paper (arXiv 2310.04691).
    """
    every = [comparison.counts for comparison in judge.comparisons]
    kinds = [kind for kind in _PARTS if any(map(attrgetter(kind), every))]
    bars = []
    for comparison, counts in zip(judge.comparisons, every, strict=True):
        claim, error = comparison.claim, comparison.claim.standard_error
        said = "no verdict" if claim.value is None else f"win rate {number(claim.value, claim.error)} %"
        said += "" if error is None else f" ± {number(error, claim.error)} (SE)"
        said += f"\nn = {claim.n}" + ", PARTIAL" * comparison.partial
        label = textwrap.fill(_names(comparison, 28), 28)
        bars.append(Bar(label, [getattr(counts, kind) for kind in kinds], said))
    policies = ", ".join(dict.fromkeys(str(comparison.claim.policy) for comparison in judge.comparisons))
    heading = f"Verdicts of {one_line(judge.name, 60)}\n{one_line(judge.model, 70)}, policy: {policies}"
    warning = "\n".join(textwrap.wrap(one_line(judge.warning or "", 400), 64))
    shown = Bars(heading, warning, [_PARTS[kind] for kind in kinds], bars)
    return Drawing(name, f"Wins, ties and losses by the verdicts of {judge.name}", shown)


def win_rates(judges: list[JudgeReport]) -> Drawing | None:
    """A forest plot over judges, comparisons and policies, with 95 % intervals; None without a verdict."""
    compared = compared_by(judges)
    several = sum(1 + (comparison.strict is not None) for _, comparison in compared) <= _MOST_ROWS
    if not compared:
        return None
    panels: dict[str, list[Row]] = {}
    for judge, comparison in compared:
        rows = panels.setdefault(judge.name, [])
        rows.append(_rate(comparison.claim, f"{_names(comparison, 16)}, {comparison.claim.policy}", comparison.partial))
        if comparison.strict and several:
            label = f"{comparison.strict.policy} ({EXPLORATORY})"
            rows.append(_rate(comparison.strict, label, comparison.partial, leads=False))
    warned = {judge.name: " (WARNING: see its verdicts)" * bool(judge.warning) for judge in judges}
    titled = [(one_line(name, 40) + warned[name], own) for name, own in panels.items()]
    shown = Forest("Win rates\nWith 95 % intervals; a tie is half a win", titled, 50, "win rate (%)", shared=True)
    return Drawing("win_rates", "Win rates with their 95 % intervals, by judge, comparison and policy", shown)


def _rate(claim: Claim, label: str, partial: bool, leads: bool = True) -> Row:
    interval = stated(claim).interval
    said = "no verdict"
    if claim.value is not None:
        within = f" ({span(interval)})" if interval else ", too few"
        said = f"{number(claim.value, claim.error)}{within}, n = {claim.n}" + ", PARTIAL" * partial
    return Row(label, said, claim.value, interval, leads)


def _names(comparison: ComparisonReport, most: int) -> str:
    """The two names of a comparison; each is cut to `most` letters if together they are longer than two such names."""
    first, second = (one_line(name, 2 * most) for name in (comparison.candidate, comparison.baseline))
    if len(first + second) > 2 * most:
        first, second = one_line(first, most), one_line(second, most)
    return f"{first} vs {second}"


def differences(claims: Iterable[Claim]) -> Drawing | None:
    """A forest plot of a bench's differences, a panel for each measure; None without any."""
    by_measure: dict[str, list[Row]] = {}
    for claim in map(stated, claims):
        if claim.value is not None:
            names = f"{one_line(claim.candidate, 20)} − {one_line(claim.baseline, 28)}"
            said = f"{number(claim.value, claim.interval, sign=True)}, {finding(claim)}"
            rows = by_measure.setdefault(one_line(difference_of(claim), 60), [])
            rows.append(Row(names, said, claim.value, claim.interval))
    shown = Forest("Differences\nThe first minus the second, with 95 % intervals", [*by_measure.items()], 0)
    title = "Objectives: their differences with 95 % intervals, by measure"
    return Drawing("differences", title, shown) if by_measure else None


def training_curves(trainings: Iterable[Training]) -> Drawing | None:
    """A panel per logged quantity, a line per training; None if nothing was logged."""
    systems: dict[tuple[str, str], list[dict[str, tuple[list[int], list[float]]]]] = {}
    for training in trainings:
        if logged := _logged(training):
            systems.setdefault((without_seed(training.system, training.seed), training.objective), []).append(logged)
    lines: dict[str, list[Line]] = {key: [] for key in _CURVES}
    for color, ((name, objective), seeds) in enumerate(systems.items()):
        label = one_line(name, 40) + ("" if objective == name else f" ({one_line(objective, 40)})")
        label += f", {len(seeds)} seeds" if len(seeds) > 1 else ""
        for logged in seeds:
            for key, curve in logged.items():
                lines[key].append(Line(label, color, *curve))
    panels = [Panel(_CURVES[key], "step", "", every) for key, every in lines.items() if every]
    shown = Curves("Training\nAs logged, over optimizer steps", panels)
    return Drawing("training", "Training: what was logged over the steps", shown) if panels else None


def _logged(training: Training) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and values of what a training logged, without what has no value."""
    logs = [log.model_dump() for log in (training.log, training.evaluations) if log]
    return {
        key: (log["step"], [math.nan if value is None else value for value in log[key]])
        for log in logs
        for key in _CURVES
        if any(value is not None for value in log.get(key, []))
    }


def precision_recall(measurements: Iterable[Measurement]) -> Drawing | None:
    """Forward against reverse cross-entropy, with the curve of MLE at other temperatures."""
    systems = {name: rows for name, rows in text_systems(measurements).items() if rows.keys() >= set(_BOTH_WAYS)}
    colors = list(dict.fromkeys(control_of(rows) or name for name, rows in systems.items()))
    forward, reverse = _BOTH_WAYS
    lines = []
    for name, rows in systems.items():
        if by_temperature := (rows[forward].details.model_extra or {}).get("by_temperature"):
            temperatures, xs, ys = zip(*by_temperature, strict=True)
            label = f"{one_line(name, 20)} at temperatures {temperatures[0]:g} to {temperatures[-1]:g}"
            lines.append(Line(label, 0, xs, ys, {"color": LINE}))
        color = colors.index(control_of(rows) or name)  # a control has its system's
        x, y = rows[forward].value or 0.0, rows[reverse].value or 0.0
        error: dict[str, Any] = {"color": FAINT, "linewidth": 0.8, "marker": ""}
        lines += [Line("", color, span, [y, y], error) for span in [rows[forward].interval] if span]
        lines += [Line("", color, [x, x], span, error) for span in [rows[reverse].interval] if span]
        mark = {"marker": "s", "markerfacecolor": "white"} if control_of(rows) else {"marker": "o"}
        lines.append(Line(one_line(name, 34), color, [x], [y], {**mark, "markersize": 6, "linestyle": "none"}))
    axes = "forward cross-entropy: what human text the system misses", "reverse: how unlikely its own choices are"
    shown = Curves("Precision and recall\nNats per token; down: precision, left: recall", [Panel("", *axes, lines)])
    title = "Texts: precision against recall, as reverse against forward cross-entropy"
    return Drawing("precision_recall", title, shown) if systems else None
