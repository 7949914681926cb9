"""What report.json holds. Every name, note and message in it is text that somebody else may have written: escape it.

Rates are percent, errors and bounds percentage points; None (null) where they are not defined. No prompt and no answer
stands in a report.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict  # pydantic cannot read typing's before Python 3.12

from instruct.analysis.results import LengthFigures, PairAgreement, Paired, Part, Power, Significance

# Raised when a key of report.json changes its meaning or goes; a new key leaves it.
SCHEMA_VERSION = 4


class LengthHistogram(TypedDict):
    """Answers by their length: `counts[i]` have from `edges[i]` to below `edges[i + 1]` characters.

    All systems of a report share the edges. The bars are equally wide, but the last may be wider: it holds the rest.
    """

    edges: list[int]
    counts: list[int]


class Health(TypedDict):
    """How many of a system's answers are `empty`, `truncated` (at the length limit) and `repeated`, and how long.

    `repeated`: more than half of the answer's 4-grams repeat an earlier one (instruct.reporting.health). Tokens and
    `truncated` are None for answers from elsewhere.
    """

    empty: int
    truncated: int | None
    repeated: int
    mean_characters: float
    median_characters: float
    mean_tokens: float | None
    length_histogram: LengthHistogram


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
    health: Health


class TallyFigures(TypedDict):
    """One policy's outcomes for the candidate, in pairs, and the figures that statistics.Tally computes from them.

    `kind`: `weighted` where the judge's preferences have shades (AlpacaEval 2): they make the win rate, its error and
    its bounds, and the counts and `discrete_win_rate` are of preferences above, at and below a draw. Else `counted`,
    and both rates are the same. `interval` is the 95 % interval by `interval_method`, which the finding follows;
    `second_interval`, the bootstrap's, is there only if it would lead to another finding.
    """

    kind: str
    n: int
    n_judged: int
    win: int
    tie: int
    loss: int
    unparsed: int
    failed: int
    win_rate: float | None
    discrete_win_rate: float | None
    standard_error: float | None
    interval: list[float] | None
    interval_method: str  # wilson | standard error
    second_interval: list[float] | None
    bounds: list[float] | None
    finding: str  # candidate | baseline | no difference | too few
    reversible: bool


class ReasonCount(TypedDict):
    """How many verdicts (as shown: a pair in both orders has two) have a reason, such as `failed`, `too long`."""

    verdict: str
    reason: str
    n: int


class Ratings(TypedDict):
    """Mean ratings, where the judge rates each answer alone, over the `n` pairs with both."""

    candidate: float
    baseline: float
    n: int


class LengthControl(TypedDict):
    """AlpacaEval's length-controlled win rate; `note`: what it was made from, or, where both are None, why not."""

    win_rate: float | None
    standard_error: float | None
    note: str


class Comparison(TypedDict):
    """A candidate against a baseline by one judge's verdicts; `leading` is the policy that the judge's card puts first.

    `pairs_judged` of `pairs_expected` were shown in all orders; `partial`: judging has not finished, `stopped`: what
    stopped it; `warnings`: why the figures may not be what they seem; `notes`: how the replies were made. In `trimmed`
    pairs the answers were cut to fit the judge. The verdicts rest on `requests`, whoever made them and when.
    Where answers are rated one by one there is no position, and its figures are None. `length` is None where the
    answers are not at hand, `length_control` where AlpacaEval's rate does not apply.
    """

    candidate: str
    baseline: str
    leading: str
    policies: dict[str, TallyFigures]
    orders: str  # both | one: in how many orders the pairs were shown; alone: each answer by itself
    pairs_judged: int
    pairs_expected: int
    partial: bool
    stopped: str | None
    consistency: float | None
    consistency_n: int
    first_position_rate: float | None
    first_position_n: int
    ratings: Ratings | None
    reasons: list[ReasonCount]
    trimmed: int
    significance: Significance
    length: LengthFigures | None
    length_control: LengthControl | None
    parts: list[Part]
    power: Power
    requests: int
    notes: list[str]
    warnings: list[str]


class Judge(TypedDict):
    """A judge's card in short, and what it was paid, in US dollars.

    `human_agreement` is what the card says (None where nobody measured it), `agreement` the same in words. `warning`
    is the card's and must stand prominently; `warnings` are about the card itself, such as one that is gone.
    `other_model`: another model was asked with the card's prompt: never beside published figures.
    """

    name: str
    description: str
    model: str
    other_model: bool
    human_agreement: dict[str, Any] | None
    agreement: str
    warning: str | None
    warnings: list[str]
    notes: str | None
    usd: float
    comparisons: list[Comparison]


class Panel(TypedDict):
    """Several judges of one comparison, each under its leading policy (`policies`, by judge), and their majority."""

    candidate: str
    baseline: str
    policies: dict[str, str]
    agreements: list[PairAgreement]
    majority: TallyFigures


class Unjudged(TypedDict):
    """A comparison that the config names, or a call began, and of which there is no verdict; `stopped`: why not."""

    judge: str
    candidate: str
    baseline: str
    stopped: str | None


class TrainingLog(TypedDict):
    """What was logged at each `step`, means since the log before; None where there is no such value, or no finite one.

    `ce` in nats a token, `cost` and `ratio` as the objective has them, `grad_norm` before clipping.
    """

    step: list[int]
    ce: list[float | None]
    cost: list[float | None]
    ratio: list[float | None]
    grad_norm: list[float | None]


class Training(TypedDict):
    """How a system was trained. `rows` were trained on, `truncated` of them cut; None where the run does not say."""

    system: str
    objective: str
    rows: int | None
    truncated: int | None
    epochs: float | None
    steps: int | None
    learning_rate: float | None
    log: TrainingLog | None


class Phase(TypedDict):
    """A step of the run: `minutes` of the attempt that finished, None while it has not."""

    step: str
    status: str
    minutes: float | None
    attempts: int


class Figure(TypedDict):
    """A picture of the report: `png` and `svg` are its files, relative to report.json; `title` says what it shows."""

    name: str
    title: str
    png: str
    svg: str


class Report(TypedDict):
    """The whole of report.json. `config` is the experiment in a few words; `sha256` names data and weights.

    `usd`: what all replies in the judgement store cost, in US dollars.
    """

    schema_version: int
    run: str
    created: str
    usd: float
    judges: list[Judge]
    panels: list[Panel]
    paired: list[Paired]
    not_judged: list[Unjudged]
    systems: list[System]
    trainings: list[Training]
    figures: list[Figure]
    config: dict[str, str]
    phases: list[Phase]
    machine: dict[str, Any]
    versions: dict[str, str]
    sha256: dict[str, str]
