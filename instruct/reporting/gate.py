"""The gate of `instruct report --fail-under`: whether the leading figures reach a threshold."""

from __future__ import annotations

from collections.abc import Iterator

from instruct.analysis.results import SINGLE_SEEDS, Claim
from instruct.base.errors import GateError, InputError, one_line
from instruct.reporting.model import ReportData
from instruct.scores.claims import mirrored

# In percent, under the leading policy: the win rate of the pairs with a verdict, or the lower end of its interval, with
# the pairs without one lost.
METRICS = ("win_rate", "win_rate_low")


def check_gate(
    report: ReportData,
    fail_under: float,
    metric: str = "win_rate",
    *,
    judge: str | None = None,
    candidate: str | None = None,
    allow_weak_judge: bool = False,
) -> str:
    """Compare every leading figure with a threshold in percent; an undefined figure fails.

    A comparison whose judging has not finished, or has not begun although the config names it, fails: half of the pairs
    say little about the other half.

    Args:
        judge: check its comparisons only.
        candidate: check this system's comparisons only, also those in which it is the baseline; a single training seed
            is checked if it is named.
        allow_weak_judge: a judge whose card warns against its figures may pass.

    Returns:
        The figures, in a line.

    Raises:
        InputError: a threshold outside 0 to 100, an unknown metric, or nothing of that judge and candidate in the
            report.
        GateError: a figure is below the threshold or undefined; the message names each.
    """
    check_threshold(fail_under)
    if metric not in METRICS:
        raise InputError(f"`metric` {one_line(metric, 40)}: unknown metric; give one of {', '.join(METRICS)}")
    held, below = [], []
    for claim, partial, warning in _claims(report, candidate):
        if judge not in (None, claim.judge):
            continue
        name, value = _name(claim.judge, claim.candidate, claim.baseline), _figure(claim, metric)
        held.append(f"{name}: {'none' if value is None else f'{value:.2f}'}")
        problem = _problem(claim, partial, metric, fail_under)
        if not problem and warning and not allow_weak_judge:
            problem = f"the judge's card warns: {one_line(warning, 200)} (`allow_weak_judge` lets it pass)"
        if problem:
            below.append(f"{name}: {problem}")
    for pair in report.not_judged:
        if judge in (None, pair.judge) and candidate in (None, pair.candidate, pair.baseline):
            names = (pair.candidate, pair.baseline)[:: -1 if candidate == pair.baseline else 1]
            held.append(name := _name(pair.judge, *names))
            below.append(f"{name}: not judged")
    if not held:
        known = [_name(claim.judge, claim.candidate, claim.baseline) for claim, _, _ in _claims(report, None)]
        raise InputError(f"`judge` and `candidate` select no comparison; the report has {', '.join(known) or 'none'}")
    if below:
        raise GateError(f"below `fail_under` {fail_under:g}: {'; '.join(below)}")
    return f"{metric} is at least {fail_under:g}: {'; '.join(held)}"


def check_threshold(fail_under: float) -> None:
    """Refuse a threshold that is not a percentage: InputError."""
    if not 0 <= fail_under <= 100:  # nor is NaN
        raise InputError(f"`fail_under` {fail_under:g}: must be a percentage from 0 to 100")
    if 0 < fail_under < 1:
        raise InputError(
            f"`fail_under` {fail_under:g}: is below 1 %; for {100 * fail_under:g} % give {100 * fail_under:g}"
        )


def _claims(report: ReportData, candidate: str | None) -> Iterator[tuple[Claim, bool, str | None]]:
    """What the headlines claim, or all that is about the `candidate`, which is then that of each claim; whether judging
    has not finished, and what the judge's card warns of."""
    over_seeds = {None, *(name for spread in report.seeds for name in (spread.candidate, spread.baseline))}
    for judge in report.judges:
        made = [(spread, False) for spread in report.seeds if spread.judge == judge.name]
        every = candidate not in over_seeds
        made += [(each.claim, each.partial) for each in judge.comparisons if every or each.claim.family != SINGLE_SEEDS]
        for claim, partial in made:
            seen = mirrored(claim) if candidate == claim.baseline else claim
            if candidate in (None, seen.candidate):
                yield seen, partial, judge.warning


def _figure(claim: Claim, metric: str) -> float | None:
    if claim.value is None:
        return None
    ends = [claim.value] if metric == "win_rate" else claim.interval
    return ends[0] if ends else None


def _problem(claim: Claim, partial: bool, metric: str, fail_under: float) -> str | None:
    """Why the gate is not reached; None if it is."""
    value = _figure(claim, metric)
    if value is None:
        return f"{metric} is undefined"
    if partial:
        return "judging has not finished"
    if value < fail_under:
        return f"{metric} is {value:.2f}"
    if (metric != "win_rate" or claim.missing) and fail_under >= 50 and claim.finding != "candidate":
        missing = f" with {claim.missing} verdicts missing" if claim.missing else ""
        return f"{metric} is {value:.2f}, but no difference is shown{missing}"
    return None


def _name(judge: str | None, candidate: str, baseline: str) -> str:
    return f"{one_line(judge, 60)} on {one_line(candidate, 60)} against {one_line(baseline, 60)}"
