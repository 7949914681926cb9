"""The parts of report.json that statistics alone fill; docs/statistics.md says what each figure means.

Rates and intervals are percent, differences percentage points, lengths characters; intervals are at 95 %.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class SignTest(TypedDict):
    """The exact sign test over the `n` pairs that are no tie; `p` None without any."""

    p: float | None
    n: int


class PermutationTest(TypedDict):
    """The sign-flip test of the mean score against 1/2; all flips are counted where `resamples` is a power of two."""

    p: float | None
    resamples: int


class Significance(TypedDict):
    """Could a judge that sees no difference have said this? Two-sided p-values, under the leading policy."""

    sign_test: SignTest
    permutation_test: PermutationTest


class LengthBin(TypedDict):
    """The `n` judged pairs whose candidate's answer is `low` to `high` characters longer than the baseline's."""

    low: int
    high: int
    n: int
    win_rate: float
    interval: list[float] | None


class LengthAdjusted(TypedDict):
    """What the win rate were with answers of one length, by `model`; `note`: why there is none, or what to mind."""

    win_rate: float | None
    interval: list[float] | None
    model: str
    note: str | None


class LengthFigures(TypedDict):
    """How verdicts go with length, over the judged pairs whose answers are both at hand: leading policy, characters."""

    candidate_mean: float
    baseline_mean: float
    by_difference: list[LengthBin]
    adjusted: LengthAdjusted


class Part(TypedDict):
    """The figures of the pairs of one data set, under the leading policy; `unread` have no verdict."""

    dataset: str
    n: int
    win: int
    tie: int
    loss: int
    unread: int
    win_rate: float | None
    interval: list[float] | None


class Power(TypedDict):
    """What this many pairs could show: `smallest_difference` from 50 in points, and the pairs that this one needs.

    Both None where they are not defined, and `note` says why; else it says what they were computed from.
    """

    smallest_difference: float | None
    pairs_needed: int | None
    note: str


class Paired(TypedDict):
    """Two candidates against one `baseline`, by one judge under one `policy`, on the `n` prompts judged for both.

    `difference`: the first's win rate minus the second's on those prompts, in points, with its bootstrap interval.
    """

    judge: str
    policy: str
    first: str
    second: str
    baseline: str
    n: int
    difference: float | None
    interval: list[float] | None
    p: float | None


class PairAgreement(TypedDict):
    """How two judges agree over the `n` pairs that both read: percent, and Cohen's kappa (None: undefined)."""

    judges: list[str]
    n: int
    agreement: float | None
    kappa: float | None
