"""What report.json holds. Every name, note and message in it is text that somebody else may have written: escape it.

Rates are percent, errors and bounds percentage points; None (null) where they are not defined. No prompt and no answer
stands in a report.
"""

from __future__ import annotations

from typing import Any, TypedDict

# Raised when a key of report.json changes its meaning or goes; a new key leaves it.
SCHEMA_VERSION = 1


class System(TypedDict):
    """The answers of one system. Tokens and `truncated` (at the length limit) are None for answers from elsewhere.

    `generator`: who made them, by the answers' own word.
    """

    name: str
    generator: str
    sha256: str
    n: int
    mean_characters: float | None
    mean_tokens: float | None
    truncated: int | None
    engine: str | None


class TallyFigures(TypedDict):
    """One policy's outcomes for the candidate, in pairs, and the figures that statistics.Tally computes from them."""

    n: int
    n_judged: int
    win: int
    tie: int
    loss: int
    unparsed: int
    failed: int
    win_rate: float | None
    standard_error: float | None
    interval: list[float] | None
    bounds: list[float] | None
    finding: str  # candidate | baseline | no difference | too few
    reversible: bool


class Comparison(TypedDict):
    """A candidate against a baseline by one judge's verdicts; `leading` is the policy that the judge's card puts first.

    `pairs_judged` of `pairs_expected` were shown in all orders; `partial`: judging has not finished; `warnings`: why
    the figures may not be what they seem.
    """

    candidate: str
    baseline: str
    leading: str
    policies: dict[str, TallyFigures]
    orders: str  # both | one: in how many orders the pairs were shown
    pairs_judged: int
    pairs_expected: int
    partial: bool
    consistency: float | None
    consistency_n: int
    first_position_rate: float | None
    first_position_n: int
    warnings: list[str]


class Judge(TypedDict):
    """A judge's card in short. `human_agreement` is None where nobody measured it; `warning` must stand prominently."""

    name: str
    description: str
    model: str
    human_agreement: dict[str, Any] | None
    warning: str | None
    notes: str | None
    comparisons: list[Comparison]


class Unjudged(TypedDict):
    """A comparison that the config names and of which there is no verdict."""

    judge: str
    candidate: str
    baseline: str


class Training(TypedDict):
    """How a system was trained. `rows` were trained on, `truncated` of them cut; None where the run does not say."""

    system: str
    objective: str
    rows: int | None
    truncated: int | None
    epochs: float | None
    steps: int | None
    learning_rate: float | None


class Phase(TypedDict):
    """A step of the run: `minutes` of the attempt that finished, None while it has not."""

    step: str
    status: str
    minutes: float | None
    attempts: int


class Report(TypedDict):
    """The whole of report.json. `config` is the experiment in a few words; `sha256` names data and weights."""

    schema_version: int
    run: str
    created: str
    judges: list[Judge]
    not_judged: list[Unjudged]
    systems: list[System]
    trainings: list[Training]
    config: dict[str, str]
    phases: list[Phase]
    machine: dict[str, Any]
    versions: dict[str, str]
    sha256: dict[str, str]
