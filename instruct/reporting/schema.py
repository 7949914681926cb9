"""What report.json holds. Every name, note and message in it is text that somebody else may have written: escape it.

    {"run", "created", "versions", "machine",       from manifest.json
     "config": {...},                               the experiment in a few words, from config.yaml
     "systems": [System],                           an entry per outputs/NAME.json: what answered
     "phases": [Phase],                             the steps of the run and their minutes
     "judges": [Judge]}                             what the judge is, and its comparisons

A Judge has `comparisons: [Comparison]`; a Comparison has the candidate's `policies`: a Tally under each policy that the
judgements allow, and `leading`, the name of the one that the judge's card puts first. Rates are percent, errors and
bounds percentage points, None (null) where they are not defined. No prompt and no answer stands in a report.
"""

from __future__ import annotations

from typing import Any, TypedDict


class System(TypedDict):
    """The answers of one system. Tokens and `truncated` (at the length limit) are None for answers from elsewhere."""

    name: str
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
    """A candidate against a baseline before one judge. `warnings`: why the figures may not be what they seem."""

    candidate: str
    baseline: str
    leading: str
    policies: dict[str, TallyFigures]
    orders: str  # both | one | mixed: in how many orders the pairs were shown
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


class Phase(TypedDict):
    """A step of the run: `minutes` of the attempt that finished, None while it has not."""

    step: str
    status: str
    minutes: float | None
    attempts: int


class Report(TypedDict):
    """The whole of report.json."""

    run: str
    created: str
    versions: dict[str, str]
    machine: dict[str, Any]
    config: dict[str, str]
    systems: list[System]
    phases: list[Phase]
    judges: list[Judge]
