"""What `instruct bench` finds, as report.json holds it."""

from __future__ import annotations

from instruct.analysis.results import Interval, Record

JUDGED = "win rate − ½"  # how the measures of judges begin


class BenchSystem(Record):
    """An objective, or MLE at the temperature that gives it an objective's entropy.

    `figures`: mean over `trainings`, `deviations` between them. `minutes` and `gib` are of one training, the means of
    what was measured; `rates` the cross-entropy that chose `learning_rate`, by rate.
    """

    name: str
    trainings: int
    learning_rate: float | None
    rates: dict[str, float]
    figures: dict[str, float]
    deviations: dict[str, float]
    minutes: float | None
    gib: float | None


class BenchDifference(Record):
    """The first system's figure minus the second's, over `trainings` with the same seeds and `n` prompts or rows.

    `interval` and `p` cover other seeds and other prompts; `p_holm` is corrected for all tests of the table.
    `finding`: better, worse, no difference, or too few seeds.
    """

    measure: str
    first: str
    second: str
    trainings: int
    n: int
    difference: float | None
    interval: Interval | None
    p: float | None
    p_holm: float | None
    finding: str


class Bench(Record):
    """Objectives side by side. `rows`: those of each part; `notes`: what was not measured, and why."""

    rows: dict[str, int]
    systems: list[BenchSystem]
    differences: list[BenchDifference]
    notes: list[str]
