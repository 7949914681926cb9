"""What a report says about few-shot tasks. Rates are percentages."""

from __future__ import annotations

from pydantic import Field

from instruct.analysis.results import Interval, Record


class TaskFigure(Record):
    """A system's answers to a task, under its name in metrics.json, on `rows` of `of` test rows.

    `interval`: Wilson's, 95 %. `floor`: the demonstrations' own vote, None for fixed ones. `most_frequent`: always the
    most frequent label. `in_training`: test rows that are among the demonstrations' split. `shortened`: rows whose
    prompt did not fit with all `shots`. `macro_f1`: None unless the task asks for it.
    """

    task: str
    system: str
    rule: str
    shots: int
    rows: int
    of: int
    accuracy: float
    interval: Interval
    macro_f1: float | None
    floor: float | None
    most_frequent: float
    in_training: int
    shortened: int


class VoteFigure(Record):
    """A system's answers beside the vote of the demonstrations' labels, where demonstrations are retrieved.

    `like_vote`: the share of answers that are the vote's. `vote_right`, `vote_wrong`: rows on which the vote is right
    or wrong; `right_with`, `right_against`: the system's accuracy on them, None without such rows.
    """

    task: str
    system: str
    like_vote: float
    vote_right: int
    right_with: float | None
    vote_wrong: int
    right_against: float | None


class TaskDifference(Record):
    """Two systems on the same `n` test rows: the first's `metric` minus the second's, in points (100 times the metric).

    `interval` is the bootstrap's over rows. `first_alone`, `second_alone`: rows on which only one of them is right, or
    one has the larger value; `p` is McNemar's exact test of these, for other metrics than right and wrong the paired
    permutation test. None if there are none. `p_holm`: corrected for all tests of a report.
    """

    task: str
    metric: str = "accuracy"
    first: str
    second: str
    n: int
    difference: float
    interval: Interval | None
    first_alone: int
    second_alone: int
    p: float | None
    p_holm: float | None


class Loss(Record):
    """A trained system's mean over the tasks of `Forgetting`, in percent, minus the base's, in points, paired by row.

    `interval` is 95 %; `p` is that of the paired permutation test, `p_holm` corrected for all systems. They cover other
    rows of these tasks, not other trainings.
    """

    system: str
    value: float
    difference: float
    interval: Interval | None
    p: float | None
    p_holm: float | None


class Forgetting(Record):
    """What the untrained base could do, and the trained systems after it: the mean over `tasks`, `n` rows in all."""

    tasks: list[str]
    n: int
    base: str
    value: float
    losses: list[Loss]


class HarnessFigure(Record):
    """A metric of a system in a task of lm-evaluation-harness, as it gives it.

    `chat`: asked in the model's chat template. `shortened`: requests whose beginning did not fit the context. `draws`:
    those of demonstrations that the value is the mean of, with the `lowest` and `highest`.
    """

    task: str
    system: str
    shots: int | None
    rows: int | None
    metric: str
    value: float
    standard_error: float | None
    chat: bool = False
    shortened: int = 0
    draws: int = 1
    lowest: float | None = None
    highest: float | None = None


class TaskReport(Record):
    """All tasks of a run."""

    figures: list[TaskFigure]
    votes: list[VoteFigure]
    differences: list[TaskDifference]
    harness: list[HarnessFigure]
    forgetting: Forgetting | None = Field(default=None, exclude_if=lambda part: part is None)
