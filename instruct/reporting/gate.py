"""The gate of `instruct report --fail-under`: whether the leading figures reach a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from instruct.base.errors import GateError, InputError, one_line
from instruct.reporting.model import ComparisonReport, JudgeReport, ReportData

# The win rate under the leading policy, or the lower end of its interval, in percent.
Metric = Literal["win_rate", "win_rate_low"]
METRICS: tuple[str, ...] = get_args(Metric)


def check_gate(
    report: ReportData,
    fail_under: float,
    metric: str = "win_rate",
    *,
    judge: str | None = None,
    candidate: str | None = None,
) -> str:
    """Compare every leading figure with a threshold in percent; an undefined figure fails.

    A comparison whose judging has not finished, or has not begun although the config names it, fails: half of the pairs
    say little about the other half.

    Args:
        judge, candidate: check these comparisons only.

    Returns:
        The figures, in a line.

    Raises:
        InputError: a threshold outside 0 to 100, an unknown metric, or nothing of that judge and candidate in the
            report.
        GateError: a figure is below the threshold or undefined; the message names each.
    """
    check_threshold(fail_under)
    if metric not in METRICS:
        raise InputError(f"--metric {one_line(metric, 40)}: unknown metric; give one of {', '.join(METRICS)}")
    wanted = (judge, candidate)

    def chosen(*names: str) -> bool:
        return all(want in (None, name) for want, name in zip(wanted, names, strict=True))

    held, below = [], []
    for of, comparison in _comparisons(report):
        if not chosen(of.name, comparison.candidate):
            continue
        name = _name(of.name, comparison.candidate, comparison.baseline)
        value = _figure(comparison, metric)
        held.append(f"{name}: {'none' if value is None else f'{value:.2f}'}")
        if value is None:
            below.append(f"{name}: {metric} is undefined")
        elif comparison.partial:
            below.append(f"{name}: judging has not finished")
        elif value < fail_under:
            below.append(f"{name}: {metric} is {value:.2f}")
    for each in report.not_judged:
        if chosen(each.judge, each.candidate):
            held.append(name := _name(each.judge, each.candidate, each.baseline))
            below.append(f"{name}: not judged")
    if not held:
        known = dict.fromkeys(f"{of.name} on {each.candidate}" for of, each in _comparisons(report))
        raise InputError(
            "--judge and --candidate select no comparison; the report has "
            + (", ".join(one_line(name, 80) for name in known) or "none")
        )
    if below:
        raise GateError(f"below --fail-under {fail_under:g}: {'; '.join(below)}")
    return f"{metric} is at least {fail_under:g}: {'; '.join(held)}"


def check_threshold(fail_under: float) -> None:
    """Refuse a threshold that is not a percentage: InputError."""
    if not 0 <= fail_under <= 100:  # nor is NaN
        raise InputError(f"--fail-under {fail_under:g}: must be a percentage from 0 to 100")
    if 0 < fail_under < 1:
        raise InputError(
            f"--fail-under {fail_under:g}: is below 1 %; for {100 * fail_under:g} % give {100 * fail_under:g}"
        )


def _comparisons(report: ReportData) -> Iterator[tuple[JudgeReport, ComparisonReport]]:
    for judge in report.judges:
        for comparison in judge.comparisons:
            yield judge, comparison


def _figure(comparison: ComparisonReport, metric: str) -> float | None:
    figures = comparison.leading_figures
    if metric == "win_rate":
        return figures.win_rate
    return figures.interval[0] if figures.interval else None


def _name(judge: str, candidate: str, baseline: str) -> str:
    return f"{one_line(judge, 60)} on {one_line(candidate, 60)} against {one_line(baseline, 60)}"
