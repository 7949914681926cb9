"""The results of few-shot tasks, as metrics.json holds them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, RootModel

from instruct.analysis.results import Interval


class TaskResult(BaseModel):
    """A system's answers to a task. Rates are percentages.

    Attributes:
        task: the card's name.
        variant: of its wording, None for the card's own.
        rule: how labels are scored.
        shots: the demonstrations of a row, unless some had to be left out.
        retriever: what found them; None for fixed ones.
        rows, of: the test rows that were answered, of how many.
        right: those answered with their label.
        interval: Wilson's, 95 %.
        macro_f1: the unweighted mean of the labels' F1; None unless the card asks for it.
        floor: the accuracy of the demonstrations' own vote, without a model; None for fixed ones.
        most_frequent: the accuracy of always answering the test rows' most frequent label.
        in_training: test rows that are among the demonstrations' split, word for word.
        shortened: rows whose prompt did not fit the context with all demonstrations; `dropped` demonstrations in all.
        answers: how often each label was the answer.
        seconds: that the model took.
    """

    model_config = ConfigDict(extra="forbid")

    task: str
    variant: str | None = None
    rule: str
    shots: int
    retriever: str | None = None
    rows: int
    of: int
    right: int
    accuracy: float
    interval: Interval
    macro_f1: float | None = None
    floor: float | None = None
    most_frequent: float
    in_training: int
    shortened: int
    dropped: int
    answers: dict[str, int]
    seconds: float


class TaskResults(RootModel[dict[str, TaskResult]]):
    """One system's results by task; see `instruct.measuring.tasks.answering.task_key`."""


class HarnessResult(BaseModel):
    """A system's result in a task, or a group of tasks, of lm-evaluation-harness; as lm-eval gives it, not in percent.

    Attributes:
        shots: the demonstrations; None for a group.
        rows: that were answered; None for a group.
        metrics: by lm-eval's names, such as `acc` and `acc_norm`.
        standard_errors: of those metrics that have one.
    """

    model_config = ConfigDict(extra="forbid")

    shots: int | None = None
    rows: int | None = None
    metrics: dict[str, float]
    standard_errors: dict[str, float]


class HarnessResults(RootModel[dict[str, HarnessResult]]):
    """One system's results by lm-eval's task."""
