"""The report: what report.json holds, as one pydantic model.

    python -m instruct.reporting.model

writes its JSON Schema to report.schema.json, which the package carries; a test keeps the two in sync.

Rates are percentages, errors and bounds percentage points; None (null) where a figure is not defined. Names, notes and
messages may come from anybody: escape them. A report holds no prompt and no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from instruct.analysis import results
from instruct.analysis.results import Claim, Counts, Record
from instruct.judging.human_agreement import HumanAgreement
from instruct.run.measurements import Measurement
from instruct.training.options import seed_name

# Raised when a key of report.json changes its meaning or is removed; a new key does not raise it.
SCHEMA_VERSION = 7
SCHEMA_PATH = Path(__file__).with_name("report.schema.json")


class Health(Record):
    """How many of a system's answers are `empty`, `truncated` (at the length limit) and `repeated`, and their lengths.

    `failed`: prompts that got no answer, which count nowhere else; the key is left out if there is none.
    `repeated`: more than half of the answer's 4-grams repeat an earlier one (instruct.reporting.provenance). Tokens and
    `truncated` are None for answers from elsewhere.
    """

    failed: int = Field(default=0, exclude_if=lambda count: count == 0)
    empty: int
    truncated: int | None
    repeated: int
    mean_characters: float
    median_characters: float
    mean_tokens: float | None


class SystemReport(Record):
    """The answers of one system. Tokens and `truncated` (at the length limit) are None for answers from elsewhere.

    `generator`: who made them, as the answers say. `mean_tokens` are without thinking, which `mean_thinking_tokens`
    counts; the key is left out if there was none. `weights`: "checked" if those that answered were found to be those
    that were trained, or "not checked: " and why; left out for the base and for answers from elsewhere.
    """

    name: str
    generator: str
    n: int
    mean_characters: float | None
    mean_tokens: float | None
    mean_thinking_tokens: float | None = Field(default=None, exclude_if=lambda tokens: tokens is None)
    truncated: int | None
    engine: str | None
    weights: str | None = Field(default=None, exclude_if=lambda checked: checked is None)
    health: Health


class ReportWarning(Record):
    """What a reader must know about the figures; `severity`: `claim` if it changes what may be claimed, or `note`."""

    severity: Literal["claim", "note"]
    text: str

    def __str__(self) -> str:
        return self.text


def claim_warning(text: str) -> ReportWarning:
    """A warning that changes what may be claimed."""
    return ReportWarning(severity="claim", text=text)


def note_warning(text: str) -> ReportWarning:
    """A warning that does not."""
    return ReportWarning(severity="note", text=text)


class ReasonCount(Record):
    """How many verdicts as shown (a pair in both orders has two) have a reason, such as `failed`, `too long`."""

    verdict: str
    reason: str
    n: int


class Ratings(Record):
    """Mean ratings of a judge that rates answers, over the `n` pairs with both (in either order).

    `turns`: the same of each turn of conversations, the first one first.
    """

    candidate: float
    baseline: float
    n: int
    turns: list[Ratings] = []


class LengthControl(Record):
    """AlpacaEval's length-controlled win rate; `note`: what it was computed from, or why there is none."""

    win_rate: float | None
    note: str


class ComparisonReport(Record):
    """A candidate against a baseline by one judge's verdicts.

    `claim`: what is said of the win rate under the policy that the judge's card puts first; `strict`: of the
    win rate under that policy, of which nothing is claimed, where another one leads.

    `pairs_judged` of `pairs_expected` were shown in all orders; `partial`: judging has not finished, `stopped`: what
    stopped it; `warnings`: why the figures may mislead; `notes`: how the replies were made. In `trimmed` pairs the
    answers were cut to fit the judge. `with_labels`: people labeled some pairs (`report --human`). `requests` counts
    the distinct replies behind the verdicts. A judge that rates answers one by one has no position figures. `length`
    and `style` are None if answers are missing, `length_control` if AlpacaEval's rate does not apply.
    """

    candidate: str
    baseline: str
    claim: Claim
    strict: Claim | None = Field(default=None, exclude_if=lambda claim: claim is None)
    orders: Literal["both", "one", "alone"]  # in how many the pairs were shown; alone: each answer by itself
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
    length: results.LengthFigures | None
    length_control: LengthControl | None
    style: results.StyleControl | None = None
    parts: list[results.Part]
    with_labels: results.PredictionPowered | None
    requests: int
    notes: list[str]
    warnings: list[ReportWarning]

    @property
    def counts(self) -> Counts:
        """Pairs by their outcome under the leading policy."""
        assert self.claim.counts is not None
        return self.claim.counts


class JudgeReport(Record):
    """A judge's card in short, and what its replies cost, in US dollars.

    `human_agreement` is what the card and the run's labels say (None if nobody measured it), `agreement` the same in
    words. `warning` is the card's, to be shown prominently; `warnings` are about the card itself, such as one that is
    missing.
    `other_model`: the card's prompt was sent to another model, so never compare with published figures.
    """

    name: str
    description: str
    model: str
    other_model: bool
    human_agreement: dict[str, HumanAgreement] | None
    agreement: str
    warning: str | None
    warnings: list[str]
    notes: str | None
    usd: float
    comparisons: list[ComparisonReport]


def compared_by(judges: Iterable[JudgeReport]) -> list[tuple[JudgeReport, ComparisonReport]]:
    """Every comparison of some judges."""
    return [(judge, comparison) for judge in judges for comparison in judge.comparisons]


class Panel(Record):
    """How several judges of one comparison agree, each under its leading policy (`policies`, by judge)."""

    candidate: str
    baseline: str
    policies: dict[str, str]
    agreements: list[results.PairAgreement]


class Unjudged(Record):
    """A comparison without any verdict that the config names or that a call began; `stopped`: why."""

    judge: str
    candidate: str
    baseline: str
    stopped: str | None


class TrainingLog(Record):
    """What was logged at each `step`, means since the previous entry; None for a missing or non-finite value.

    `ce` in nats per token, `cost` and `ratio` as the objective defines them, `grad_norm` before clipping.
    """

    step: list[int]
    ce: list[float | None]
    cost: list[float | None]
    ratio: list[float | None]
    grad_norm: list[float | None]


class EvaluationLog(Record):
    """Perplexity per token of the held-out rows at each `step`; None: not finite."""

    step: list[int]
    perplexity: list[float | None]


class Training(Record):
    """How a system was trained: on `rows`, of which `truncated` were cut; None if the run does not say.

    `epochs`: how many were completed, a fraction if `max_steps` ended the training. `evaluations`: on held-out rows.
    `seed`: the system's own; None: the run's.
    """

    system: str
    objective: str
    rows: int | None
    truncated: int | None
    epochs: float | None
    steps: int | None
    learning_rate: float | None
    log: TrainingLog | None
    evaluations: EvaluationLog | None = None
    seed: int | None = None


class OverlapReport(Record):
    """Of the evaluation's `prompts`, those found in the `rows` of training data; see instruct.data.overlap.

    `exact`: as a whole request, in the same words; `shared`: 13 words in a row of it; `short`: prompts of fewer words.
    """

    prompts: int
    rows: int
    exact: int
    shared: int
    short: int


class Figure(Record):
    """A figure of the report: `svg` and `pdf` are its files, relative to report.json; `title` says what it shows."""

    name: str
    title: str
    svg: str
    pdf: str


class Bench(Record):
    """What `instruct bench` tried: the `rows` of each part, and `notes` on what was not measured, and why."""

    rows: dict[str, int]
    notes: list[str]


class ReportData(Record):
    """The whole of report.json. `config` describes the experiment in a few words.

    `usd`: what all replies in the store of verdicts cost, in US dollars. `overlap` is None if nobody counted it for
    these prompts and these training rows. `measurements`: numbers that need no judge, of texts, tasks and `instruct
    bench`, whose notes are `bench`, None of other runs; `claims`: all but those of single comparisons, which
    stand beside their counts; `cautions`: what a reader must know about texts and tasks.
    """

    model_config = ConfigDict(title="Report")

    schema_version: int
    run: str
    created: str
    usd: float
    judges: list[JudgeReport]
    panels: list[Panel]
    measurements: list[Measurement]
    claims: list[Claim]
    cautions: list[ReportWarning]
    not_judged: list[Unjudged]
    systems: list[SystemReport]
    trainings: list[Training]
    overlap: OverlapReport | None
    bench: Bench | None = Field(default=None, exclude_if=lambda bench: bench is None)
    figures: list[Figure]
    config: dict[str, str]
    machine: dict[str, Any]
    versions: dict[str, str]

    @property
    def seeds(self) -> list[Claim]:
        """The claims over several training seeds."""
        return [claim for claim in self.claims if "seeds" in claim.params]

    @property
    def paired(self) -> list[Claim]:
        """Systems that a judge compared with a third one."""
        return [claim for claim in self.claims if claim.through]

    def over_seeds(self, claim: Claim) -> Claim | None:
        """The claim over all training seeds, of a claim on one of them; None of others."""
        own = (spread for spread in self.seeds if spread.judge == claim.judge and _is_one_of(spread, claim))
        return next(own, None)


def _is_one_of(spread: Claim, claim: Claim) -> bool:
    return any(
        claim.candidate in (spread.candidate, seed_name(spread.candidate, seed))
        and claim.baseline in (spread.baseline, seed_name(spread.baseline, seed))
        for seed in spread.params["seeds"]
    )


def report_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of report.json."""
    schema = ReportData.model_json_schema()
    schema["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    # All of these are written, but for what some reports, claims and comparisons alone have.
    for part in (
        schema,
        *(schema["$defs"][name] for name in ("Claim", "Panel", "ComparisonReport")),
    ):
        part["required"] = [name for name in part["properties"] if name not in ("bench", "counts", "strict")]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    SCHEMA_PATH.write_text(json.dumps(report_schema(), indent=1) + "\n", encoding="utf-8")
