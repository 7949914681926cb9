"""What `instruct validate` measured of a judge on other pairs: kept in the run, and what it would make of win rates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from instruct.analysis.judge_errors import Rate, corrected_rate
from instruct.analysis.results import CorrectedRate, rounded
from instruct.base.errors import InputError, first_problem, one_line
from instruct.base.files import read_text, write_atomically
from instruct.base.parsing import parse_json
from instruct.judging.comparison import judged_comparisons
from instruct.reporting.model import ComparisonReport
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement

# Whose figures in agreement.json are about the verdicts under a policy.
_RATERS = {"single": "judge", "strict": "strict", "averaged": "averaged"}


class Validation(BaseModel):
    """An agreement.json, as far as reports need it: the judge's `sensitivity` by rater and what it is about."""

    model_config = ConfigDict(extra="ignore")

    judge: str
    card_sha256: str | None
    set: str
    warnings: list[str]
    measurements: list[Measurement]

    @model_validator(mode="after")
    def _has_percentages(self) -> Validation:
        self.measurements = [row for row in self.measurements if row.metric == "sensitivity" and row.interval]
        for row in self.measurements:
            low, high = row.interval or (0.0, 0.0)
            if row.value is None or not 0 <= low <= row.value <= high <= 100:
                raise ValueError(f"a sensitivity of {row.value} with the interval {row.interval}")
        return self

    def right(self, policy: str, about: str = "") -> tuple[Rate, int] | None:
        """How often the judge is right where a label is no tie, and of how many; None: not measured, or on too few."""
        for row in self.measurements:
            if (row.system, getattr(row.details, "about", "")) == (_RATERS.get(policy), about):
                return Rate(row.value or 0.0, row.interval or ()), row.n or 0
        return None

    def problem(self, step: Mapping[str, Any]) -> str | None:
        """Why it is not about the verdicts that a step of the run made."""
        card = step.get("inputs", {}).get("card")
        return None if card is not None and card == self.card_sha256 else "is of another card than judged in this run"


def keep_judge_errors(run: RunDirectory, path: str | Path) -> None:
    """Keep an agreement.json in the run, whose reports then use it; an earlier one of the same judge is replaced.

    Raises:
        InputError: an invalid file, of a judge or a card that did not judge in this run, or of the run's own labels.
    """
    path = Path(path).expanduser()
    try:
        validation = Validation.model_validate(parse_json(read_text(path)))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        invalid = first_problem(error) if isinstance(error, ValidationError) else one_line(reason)
        raise InputError(f"{path}: {invalid}; give an agreement.json of `instruct validate`") from None
    steps = [step for key, step in judged_comparisons(run.manifest()) if key.judge == validation.judge]
    problem = next(filter(None, map(validation.problem, steps)), None)
    if not steps:
        problem = f"is of the judge {one_line(validation.judge, 60)}, which did not judge in {run.folder}"
    elif validation.set == f"{run.folder.resolve().name}-labels":
        problem = "is of this run's own labels, which correct its win rates without assumptions"
    if problem:
        raise InputError(f"{path}: {problem}; give one of this judge on other pairs")
    kept = validations_in(run.judge_errors) | {validation.judge: validation}
    write_atomically(run.judge_errors, "".join(f"{each.model_dump_json()}\n" for each in kept.values()))


def validations_in(path: Path) -> dict[str, Validation]:
    """What `keep_judge_errors` kept, by judge.

    Raises:
        InputError: the file cannot be read.
    """
    lines = path.read_bytes().splitlines() if path.is_file() else []
    try:
        return {each.judge: each for each in map(Validation.model_validate_json, lines)}
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; delete the file") from None


def corrected_rates(
    comparison: ComparisonReport, validation: Validation, step: Mapping[str, Any]
) -> list[CorrectedRate]:
    """The win rate under the leading policy if the judge errs as it did elsewhere, once the claims are settled."""
    policy, names, figures = comparison.leading, (comparison.candidate, comparison.baseline), comparison.leading_figures
    if figures.claim.value is None or figures.claim.interval is None:
        return []
    shared = validation.right(policy)
    why = validation.problem(step)
    if figures.kind == "weighted":
        why = why or "the judge grades its preferences, and only whom it prefers was measured"
    elif shared is None:
        why = why or f"too few labels, or none under the policy {policy}"
    if why or shared is None:
        return [CorrectedRate(errors="shared", set=validation.set, note=why)]
    judged = Rate(figures.claim.value, figures.claim.interval)
    rates = [_corrected("shared", validation.set, judged, [shared])]
    for order in (1, -1):
        group = " against ".join(names[::order])
        sides = [validation.right(policy, f"{side}, {group}") for side in ("first", "second")[::order]]
        if all(sides):
            rates.append(_corrected("apart", validation.set, judged, [side for side in sides if side]))
    return rates


def _corrected(
    errors: Literal["shared", "apart"], name: str, judged: Rate, sides: list[tuple[Rate, int]]
) -> CorrectedRate:
    right = [rate for rate, _ in sides]
    value, interval = corrected_rate(judged, right)
    note = None
    if value is None:
        note = "the labels do not show that the judge is better than chance"
    elif interval is None:
        note = "no win rate gives such verdicts"
    return CorrectedRate(
        errors=errors,
        set=name,
        labels=sum(n for _, n in sides),
        sensitivity=rounded(right[0].value),
        sensitivity_interval=rounded(right[0].interval),
        specificity=rounded(right[-1].value),
        specificity_interval=rounded(right[-1].interval),
        win_rate=None if note else rounded(value),
        interval=rounded(interval),
        note=note,
    )
