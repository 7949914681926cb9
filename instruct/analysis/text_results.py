"""The part of report.json about texts that systems wrote, and how well they predict human ones.

Figures are in the units of docs/text_metrics.md; intervals are at 95 %. None (null) where a figure is not defined.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instruct.analysis.results import Interval, Record

TextMetricName = Literal[
    "perplexity", "entropy", "forward_cross_entropy", "reverse_cross_entropy", "total_variation", "jensen_shannon",
    "oracle_perplexity", "mauve", "rouge1", "rouge2", "rougeL", "rougeL_whole", "distinct_1", "distinct_2", "self_bleu",
    "repetition", "zipf",
]  # fmt: skip
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
        return next((each for each in self.figures if each.metric == metric), None)


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
