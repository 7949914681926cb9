"""The parts of report.json that are not about verdicts: metrics of texts, tasks, and what `instruct bench` finds.

Figures of texts are in the units of docs/text_metrics.md, rates of tasks are percentages; intervals are at 95 %. None
(null) where a figure is not defined.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instruct.analysis.results import Interval, Record

_Predicting = Literal["perplexity", "entropy", "forward_cross_entropy", "reverse_cross_entropy"]
_Distance = Literal["total_variation", "jensen_shannon"]
_Likeness = Literal["oracle_perplexity", "mauve", "rouge1", "rouge2", "rougeL", "rougeL_whole"]
_Diversity = Literal["distinct_1", "distinct_2", "self_bleu", "repetition", "zipf"]
# Of how a system predicts human texts, and of texts that it writes.
SampledMetricName = Literal[_Likeness, _Diversity]
TextMetricName = Literal[_Predicting, _Distance, SampledMetricName]
TextTestName = Literal["permutation", "jackknife"]


class TextFigure(Record):
    """One metric of one system: the mean over its trainings, which `interval` covers together with other texts."""

    metric: TextMetricName
    value: float
    interval: Interval | None


class TextSystem(Record):
    """A system, or several that differ in their training seed alone.

    `names` are those in metrics.json, one per training. `control_of`: the system whose entropy this control, MLE at
    `temperatures` (one per training), was matched to; None: it is no control. `curve`: MAUVE's divergence curve.
    `by_temperature`: of MLE, temperature, forward and reverse cross-entropy from the reference model, coldest first.
    """

    name: str
    names: list[str]
    control_of: str | None
    temperatures: list[float]
    figures: list[TextFigure]
    curve: list[Annotated[list[float], Field(min_length=2, max_length=2)]]
    by_temperature: list[Annotated[list[float], Field(min_length=3, max_length=3)]]

    def figure(self, metric: str) -> TextFigure | None:
        """The system's figure by a metric."""
        return next((figure for figure in self.figures if figure.metric == metric), None)


class TextTest(Record):
    """The first system's figure minus the second's on the same texts, over the trainings with the same seeds.

    `test`: `permutation` (prefixes, sign flips) or `jackknife` (Student's t over groups of prefixes, and trainings).
    `p` is two-sided; `p_holm` is corrected for all tests of the report.
    """

    metric: TextMetricName
    first: str
    second: str
    trainings: int
    difference: float
    interval: Interval | None
    p: float | None
    p_holm: float | None
    test: TextTestName


class TextReport(Record):
    """All systems with metrics of texts. `human`: the diversity of human continuations of the same prefixes."""

    systems: list[TextSystem]
    tests: list[TextTest]
    human: list[TextFigure]
    warnings: list[str]


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
