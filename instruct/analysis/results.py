"""The parts of report.json that come from statistics alone; docs/statistics.md explains each figure.

Rates and intervals are percentages, differences percentage points, lengths characters; intervals are at 95 %. None
(null) where a figure is not defined.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from instruct.analysis.inference import FEW_UNITS, Estimate, smallest_difference

Recorded = TypeVar("Recorded", bound="Record")

# A claim's value: a win rate in percent, a difference in percentage points, or a difference in the unit of the metric.
Kind = Literal["rate", "points", "metric"]
# By kind, the value of two equal systems.
NULL: dict[Kind, float] = {"rate": 50.0, "points": 0.0, "metric": 0.0}
# What the mean of a judge's verdicts is called.
WIN_RATE = "win rate"
# In the params of claims on what was trained elsewhere.
ELSEWHERE = "elsewhere"
# The family of claims on one of several training seeds, which alone show nothing.
SINGLE_SEEDS = "single seeds"
Finding = Literal["candidate", "baseline", "no difference", "too few"]
# The lower and the upper bound.
Interval = Annotated[list[float], Field(min_length=2, max_length=2)]


def rounded(value: Any) -> Any:
    """Figures to the six decimals of report.json, as AlpacaEval's leaderboards print them; intervals, too."""
    if isinstance(value, list | tuple):
        return [rounded(end) for end in value]
    return round(value, 6) if isinstance(value, float) else value


class Record(BaseModel):
    """A part of report.json: every key is required, and no other key is allowed."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


def recorded(kind: type[Recorded], source: object, /, **known: Any) -> Recorded:
    """What was computed as a part of report.json, see `rounded`; `known`: more fields, taken as they are."""
    computed = {name: rounded(getattr(source, name)) for name in kind.model_fields if hasattr(source, name)}
    return kind(**computed | known)


class Counts(Record):
    """Pairs by their outcome for the candidate, and the rates that no test is of.

    `weighted`: the judge grades its preferences (AlpacaEval 2): the win rate and its bounds then come from the grades,
    and the counts and `discrete_win_rate` from preferences above, at and below a tie. The ties: `contradicted` pairs,
    whose verdict changed with the order, `identical` answers, which the judge was not asked about, and ties that the
    judge called.
    """

    weighted: bool
    win: int
    tie: int
    contradicted: int
    identical: int
    loss: int
    unparsed: int
    failed: int
    discrete_win_rate: float | None
    bounds: Interval | None

    @property
    def n(self) -> int:
        """All pairs, with those that have no verdict."""
        return self.win + self.tie + self.loss + self.unread

    @property
    def decided(self) -> int:
        """Pairs with a winner."""
        return self.win + self.loss

    @property
    def called(self) -> int:
        """Ties that the judge called."""
        return self.tie - self.contradicted - self.identical

    @property
    def unread(self) -> int:
        """Pairs without a verdict."""
        return self.unparsed + self.failed


class Claim(Record):
    """A candidate against a baseline in one measure: the form of every comparison that a report makes.

    `value`: by its `kind`, which no name of a measure tells, the candidate's win rate, or its figure minus the
    baseline's in points or in the unit of the metric, over `n` prompts, texts or rows and so many `trainings` of each.
    `interval` and the two-sided `p` are those of `test`; `adjusted_p` is corrected by Holm's method for the `claims` of
    the same `family` that have a p, and None where a report does not correct. `better`: which values are; empty where a
    measure has no better side, or nobody knows it. `enough`: whether there is a p, and LEAST_DECIDED decided units,
    FEW_UNITS of a measure without bounds, and LEAST_SEEDS of several trainings; None: no finding rests on this claim.
    The `finding` follows `adjusted_p`.
    `through`: the third system that both were compared with. `params`: what one test alone has, see docs/statistics.md.

    `counts`: of a claim on a judge's verdicts. `excluding`: where no difference is shown, the interval outside which
    two one-sided tests at 5 %, by so many `claims`, reject every difference: of one claim that of 90 %.

    Where values are `missing`, `value` and `standard_error` are those of the `n` units that have one. Of a measure from
    0 to 1 `interval` and `p` are the weakest of these units and of all units with the missing ones lost, or won: the
    interval from the lower end with all lost to the upper end with all won, and the larger p, 1 where these are on
    different sides. Of others (`unbounded` in `params`) they are of the `n` units alone.
    """

    measure: str
    kind: Kind
    candidate: str
    baseline: str
    test: str
    n: int
    value: float | None
    standard_error: float | None = None
    interval: Interval | None = None
    excluding: Interval | None = None
    p: float | None = None
    adjusted_p: float | None = None
    claims: int = 1
    family: str = ""
    better: Literal["higher", "lower", ""] = "higher"
    enough: bool | None = None
    finding: Finding | None = None
    judge: str | None = None
    policy: str | None = None
    task: str | None = None
    through: str | None = None
    trainings: int = 1
    missing: int = 0
    counts: Counts | None = Field(default=None, exclude_if=lambda counts: counts is None)
    params: dict[str, Any] = {}
    _estimate: Estimate | None = PrivateAttr(None)

    @property
    def in_points(self) -> bool:
        """Whether the value is in percent or percentage points, not in the unit of a metric."""
        return self.kind != "metric"

    @property
    def has_winner(self) -> bool:
        """Whether one of the two systems is found to be better, or higher."""
        return self.finding in ("candidate", "baseline")

    @property
    def error(self) -> Interval | float | None:
        """What the digits of its value follow."""
        return self.interval or self.standard_error

    @property
    def null(self) -> float:
        """The value of two equal systems."""
        return NULL[self.kind]

    @property
    def excluded(self) -> float | None:
        """Beyond which difference, in the unit of the value, all are excluded; None where none is."""
        most = max((abs(end - self.null) for end in self.excluding or ()), default=None)
        impossible = most is None or (self.in_points and most >= 100 - self.null)
        return None if impossible else rounded(most)

    @property
    def detectable(self) -> float | None:
        """The true difference of the systems, in points, that such units show in four of five cases, of a win rate the
        distance from 50; None where it is not defined, no two systems differ that much, or too few units tell."""
        units, most, value = self.params.get("clusters", self.n), 100 - self.null, self.value
        if not self.in_points or value is None or self.interval is None:
            return None
        if units < FEW_UNITS:
            return None
        half = value - self.interval[0] if value > self.null else self.interval[1] - value  # towards no difference
        smallest = smallest_difference(self.standard_error, self.claims, half)
        # Below the least that one tie more or less changes, the units hardly differ.
        return smallest if smallest is not None and most / units <= smallest < most else None

    @property
    def gain(self) -> float | None:
        """By how much the candidate is better, in the measure's unit."""
        if self.value is None:
            return None
        gain = self.value - self.null
        return -gain if self.better == "lower" else gain


class StyleTerm(Record):
    """What a standard deviation of a feature of style adds to the log-odds of a win; `p`: that it adds nothing."""

    name: str
    coefficient: float
    interval: Interval | None
    p: float | None


class LengthFigures(Record):
    """Verdicts by answer length under the leading policy, over the judged pairs with both answers available.

    `term`: of the length alone; None, and `note` says why, where it cannot be estimated.
    """

    candidate_mean: float
    baseline_mean: float
    term: StyleTerm | None
    note: str | None


class StyleControl(Record):
    """Arena-Hard's style control over the `n` judged pairs with both answers available: `score`, at their mean style.

    `terms`: of the features in which pairs differ. `note`: why there is no score, or a caveat.
    """

    n: int
    score: float | None
    score_interval: Interval | None
    terms: list[StyleTerm]
    note: str | None


class Part(Record):
    """The figures of the pairs from one data set, under the leading policy; `unread` pairs have no verdict."""

    dataset: str
    n: int
    win: int
    tie: int
    loss: int
    unread: int
    win_rate: float | None
    interval: Interval | None


class PairAgreement(Record):
    """Agreement of two judges over the `n` pairs that both read: percent, and Cohen's kappa."""

    judges: list[str]
    n: int
    agreement: float | None
    kappa: float | None


class PredictionPowered(Record):
    """The win rate as people would see it: their `labels` on some of the `pairs`, and the judge's verdicts on all;
    where they labeled all, by their labels alone.

    `weight`: how much the judge counts (0: not at all); `effective_labels`: how many labels without a judge would give
    the same interval; `labels_needed`: labels for an interval of +-`precision` points, None if all pairs are too few.
    `labels_only` and `judge_only` are the win rates by either alone. `claim`: what is said of the corrected rate.
    """

    claim: Claim
    labels: int
    pairs: int
    weight: float
    labels_only: float
    labels_only_interval: Interval
    judge_only: float
    effective_labels: float | None
    precision: float
    labels_needed: int | None

    @property
    def win_rate(self) -> float | None:
        """The corrected rate."""
        return self.claim.value

    @property
    def interval(self) -> Interval | None:
        """Its interval."""
        return self.claim.interval
