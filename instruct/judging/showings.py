"""From two systems' answers to what is shown to a judge, and from its replies to verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instruct.analysis.outcomes import candidate_is_second
from instruct.engines.base import Completion, Engine, Failure, Prompt, Reply, Request
from instruct.engines.prompt_size import likely_tokens
from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.comparison import Comparison
from instruct.judging.money import Price, most_usage
from instruct.judging.prompts import PromptTemplate, trimmed
from instruct.judging.store import Judgment, JudgmentStore, completion_key
from instruct.judging.verdicts import read_rating, read_verdict

Orders = Literal["both", "one"]


@dataclass(frozen=True)
class Answers:
    """A system's answers in AlpacaEval's model_outputs form. `name`: the run's, or a file's.

    A row's `id`, where it has one, takes the instruction's place as the pair's identity (sets with human labels show
    one instruction with several answers); `input` is the instruction's own, for judges that show it apart.
    """

    name: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """How a comparison is judged.

    `orders`: how often a pair is shown, None: by the card. `seed` draws the order of a pair that is shown once. `trim`:
    answers that do not fit the context are cut, both to the same length. `retry_failed`: ask again what failed.
    `ask`: False reads verdicts from what is stored and asks nothing. `price` (None: free) and `budget_usd`: what the
    whole store may have cost in the end.
    """

    orders: Orders | None = None
    seed: int = 0
    trim: bool = False
    retry_failed: bool = False
    ask: bool = True
    price: Price | None = None
    budget_usd: float | None = None


@dataclass(frozen=True)
class Showing:
    """One pair in one order, with its requests: one, or two where each answer is rated alone.

    `position` is the candidate's; `shown` the answers in the order shown.
    """

    requests: tuple[Request, ...]
    pair: int
    instruction: str
    dataset: str
    position: str
    shown: tuple[str, str]
    trimmed: bool = False

    @property
    def key(self) -> str:
        return " ".join(request.key for request in self.requests)


@dataclass(frozen=True)
class Plan:
    """A comparison before it is judged: what is shown, and the pairs whose answers are the same and need not be."""

    card: JudgeCard
    comparison: Comparison
    showings: list[Showing]
    same: list[Showing]

    def missing(self, store: JudgmentStore) -> list[Request]:
        """The requests whose completions are not stored."""
        requests = {request.key: request for showing in self.showings for request in showing.requests}
        stored = store.completions(requests)
        return [request for key, request in requests.items() if key not in stored]


def plan_comparison(
    card: JudgeCard, *, candidate: Answers, baseline: Answers, engine: Engine, options: Options
) -> Plan:
    """What is shown to the judge. Nothing is asked.

    Raises:
        InputError: candidate and baseline have different prompts.
    """
    template = PromptTemplate(card)
    plan = Plan(card, Comparison(card.name, candidate.name, baseline.name), [], [])
    for pair, (ours, theirs) in enumerate(joined(candidate, baseline)):
        positions = ["first", "second"]
        if card.protocol == "single":
            positions = ["first"]  # each answer is seen alone: there is no order
        elif (options.orders or card.order_policy) == "one":
            positions = ["second" if candidate_is_second(ours["instruction"], options.seed) else "first"]
        for position in positions:
            answers = (ours["output"], theirs["output"])
            shown = answers if position == "first" else answers[::-1]
            same = card.identical_outputs_tie and shown[0] == shown[1]
            prompts, was_trimmed = ((), False) if same else _prompts(card, template, ours, shown, engine, options)
            requests = tuple(_request(card, prompt, engine, options.price) for prompt in prompts)
            showing = Showing(requests, pair, identity(ours), ours["dataset"], position, shown, trimmed=was_trimmed)
            (plan.same if same else plan.showings).append(showing)
    return plan


def joined(candidate: Answers, baseline: Answers) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Candidate's and baseline's rows, joined on the instruction, to the letter.

    Raises:
        InputError: a prompt that only one side has, named; none is dropped.
    """
    theirs = {identity(row): row for row in baseline.rows}
    ours = {identity(row) for row in candidate.rows}
    for name, missing in (
        (baseline.name, [i for i in map(identity, candidate.rows) if i not in theirs]),
        (candidate.name, [i for i in theirs if i not in ours]),
    ):
        if missing:
            raise InputError(
                f"answers {name}: {len(missing)} prompts of the other side are missing, first "
                f"{one_line(missing[0], 60)!r}; answer the same prompts with both"
            )
    return [(row, theirs[identity(row)]) for row in candidate.rows]


def identity(row: dict[str, Any]) -> str:
    """What tells a pair from the others: its `id`, or its instruction."""
    return str(row.get("id", row["instruction"]))


def _prompts(
    card: JudgeCard,
    template: PromptTemplate,
    row: dict[str, Any],
    shown: tuple[str, str],
    engine: Engine,
    options: Options,
) -> tuple[tuple[Prompt, ...], bool]:
    if not options.trim:
        return template.render_all(row, *shown), False

    def fits(prompt: Prompt) -> bool:
        tokens = engine.tokens(prompt)
        if tokens is None:  # only the server knows: a quarter more than is likely
            tokens = math.ceil(1.25 * likely_tokens(prompt))
        return tokens + card.decoding.max_tokens <= card.context_length

    return trimmed(template, row, *shown, fits)


def _request(card: JudgeCard, prompt: Prompt, engine: Engine, price: Price | None) -> Request:
    asked = {
        "prompt": prompt,
        **engine.identity,
        "decoding": card.decoding.model_dump(),
        "labels": card.verdict.labels.model_dump() if card.verdict.labels else None,
        "schema": card.response_schema,
        "sample": 0,
    }
    usd = price.usd(*most_usage(card, prompt)) if price else 0.0
    return Request(completion_key(asked), prompt, usd)


def judgment_of(plan: Plan, showing: Showing, verdict: str, reason: str | None, **more: Any) -> Judgment:
    return Judgment(
        *plan.comparison, showing.pair, showing.instruction, showing.dataset,
        showing.position, showing.key, verdict, reason, trimmed=showing.trimmed, **more,
    )  # fmt: skip


def read_judgment(plan: Plan, showing: Showing, replies: Sequence[Reply]) -> Judgment:
    """The verdict on a showing from the replies to its requests."""
    for reply in replies:
        if isinstance(reply, Failure):
            return judgment_of(plan, showing, "failed", reply.reason)
    completions = [reply for reply in replies if isinstance(reply, Completion)]
    if plan.card.protocol == "pairwise":
        reading = read_verdict(plan.card, completions[0], showing.shown)
        return judgment_of(plan, showing, reading.verdict, reading.reason, preference=reading.preference)
    readings = [
        read_rating(plan.card, done, (answer,)) for done, answer in zip(completions, showing.shown, strict=True)
    ]
    ratings = [reading.rating for reading in readings if reading.rating is not None]
    if len(ratings) < 2:
        reason = next(reading.reason for reading in readings if reading.rating is None)
        return judgment_of(plan, showing, "unparsed", reason)
    verdict = "tie" if ratings[0] == ratings[1] else "first" if ratings[0] > ratings[1] else "second"
    return judgment_of(plan, showing, verdict, None, ratings=(ratings[0], ratings[1]))
