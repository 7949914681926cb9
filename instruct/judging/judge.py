"""Asking a judge about every pair of a comparison, in both orders or one, each completion kept as it arrives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.engines import Engine, Failure, Reply, Request
from instruct.judging.engines.vllm import BATCH
from instruct.judging.policies import candidate_is_second
from instruct.judging.prompts import PromptTemplate
from instruct.judging.store import Completion, Judgment, JudgmentStore, completion_key
from instruct.judging.verdicts import Verdict, read_verdict

Orders = Literal["both", "one"]


@dataclass(frozen=True)
class Answers:
    """A system's answers in AlpacaEval's model_outputs form. `name`: the run's, or a file's."""

    name: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class ComparisonCounts:
    """What a comparison took: `asked` of the judge now, `stored` before; `verdicts` in the order shown."""

    asked: int
    stored: int
    without_request: int
    verdicts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Showing:
    """One pair in one order; `position` is the candidate's."""

    request: Request
    instruction: str
    dataset: str
    position: str


def judge_comparison(
    card: JudgeCard,
    *,
    candidate: Answers,
    baseline: Answers,
    store: JudgmentStore,
    engine: Engine,
    orders: Orders | None = None,
    seed: int = 0,
) -> ComparisonCounts:
    """Ask the judge about each pair; completions that are stored are not asked for again.

    A failed request is stored as a verdict with its reason, not as a completion, so that the next call asks it again.

    Args:
        orders: how often a pair is shown; None: the card's `order_policy`.
        seed: draws the order where a pair is shown once.

    Raises:
        InputError: candidate and baseline have different prompts, or the judge cannot be asked.
    """
    pairs = joined(candidate, baseline)
    template = PromptTemplate(card)
    showings, same = _showings(card, pairs, template, engine, orders or card.order_policy, seed)

    def judgment(showing: _Showing, reply: Reply) -> Judgment:
        verdict: Verdict = "failed"
        reason: str | None = None
        if isinstance(reply, Failure):
            reason = reply.reason
        else:
            verdict = read_verdict(card.verdict, reply.text, reply.label_logprobs)
            reason = None if verdict != "unparsed" else "the reply holds no verdict"
        return Judgment(
            card.name, candidate.name, baseline.name, showing.instruction, showing.dataset, showing.position,
            showing.request.key, verdict, reason,
        )  # fmt: skip

    judgments = [
        Judgment(
            card.name, candidate.name, baseline.name, row["instruction"], row["dataset"], position, "", "tie",
            "identical outputs",
        )
        for row, position in same
    ]  # fmt: skip
    shown = {(showing.instruction, showing.position, showing.request.key) for showing in showings}
    stale = [
        judged
        for judged in store.judgments(card.name, candidate.name, baseline.name)
        if (judged.instruction, judged.position, judged.key) not in shown
    ]
    # No verdict outlives the answers or the judge that it was about; its completion stays.
    store.remove_judgments(stale)
    store.add_judgments(judgments)
    verdicts = Counter(found.verdict for found in judgments)
    asked = 0
    # Whole batches, whatever of them is stored: a run that was killed asks in the same batches, for the same answers.
    for batch in _batches(showings):
        known: dict[str, Completion] = {}
        for showing in batch:
            stored = store.completion(showing.request.key)
            if stored is not None:
                known[showing.request.key] = stored
        store.add_judgments([judgment(s, known[s.request.key]) for s in batch if s.request.key in known])
        verdicts.update(judgment(s, known[s.request.key]).verdict for s in batch if s.request.key in known)
        missing = [showing for showing in batch if showing.request.key not in known]
        if not missing:
            continue
        # Two equal answers give the same prompt in both orders: one request, two showings.
        requests = {showing.request.key: showing.request for showing in missing}
        for portion in engine.complete(list(requests.values())):
            store.add_completions([(r.key, reply) for r, reply in portion if isinstance(reply, Completion)])
            replies = {request.key: reply for request, reply in portion}
            found = [judgment(s, replies[s.request.key]) for s in missing if s.request.key in replies]
            store.add_judgments(found)
            verdicts.update(each.verdict for each in found)
            asked += len(portion)
    return ComparisonCounts(asked, len(showings) - asked, len(same), dict(verdicts))


def joined(candidate: Answers, baseline: Answers) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Candidate's and baseline's rows, joined on the instruction, to the letter.

    Raises:
        InputError: a prompt that only one side has, named; none is dropped.
    """
    theirs = {row["instruction"]: row for row in baseline.rows}
    ours = {row["instruction"] for row in candidate.rows}
    for name, missing in (
        (baseline.name, [i for i in (row["instruction"] for row in candidate.rows) if i not in theirs]),
        (candidate.name, [i for i in theirs if i not in ours]),
    ):
        if missing:
            raise InputError(
                f"answers {name}: {len(missing)} prompts of the other side are missing, first "
                f"{one_line(missing[0], 60)!r}; answer the same prompts with both"
            )
    return [(row, theirs[row["instruction"]]) for row in candidate.rows]


def _showings(
    card: JudgeCard,
    pairs: list[tuple[dict[str, Any], dict[str, Any]]],
    template: PromptTemplate,
    engine: Engine,
    orders: Orders,
    seed: int,
) -> tuple[list[_Showing], list[tuple[dict[str, Any], str]]]:
    """What is shown to the judge, and the pairs whose answers are the same and need not be."""
    showings, same = [], []
    for ours, theirs in pairs:
        positions = ["first", "second"]
        if orders == "one":
            positions = ["second" if candidate_is_second(ours["instruction"], seed) else "first"]
        for position in positions:
            if card.identical_outputs_tie and ours["output"] == theirs["output"]:
                same.append((ours, position))
                continue
            shown = (ours, theirs) if position == "first" else (theirs, ours)
            prompt = template.render(ours, shown[0]["output"], shown[1]["output"])
            key = completion_key(
                {
                    "prompt": prompt,
                    **engine.identity,
                    "decoding": card.decoding.model_dump(),
                    "labels": card.verdict.labels.model_dump() if card.verdict.labels else None,
                    "sample": 0,
                }
            )
            showings.append(_Showing(Request(key, prompt), ours["instruction"], ours["dataset"], position))
    return showings, same


def _batches(showings: list[_Showing]) -> list[list[_Showing]]:
    from rich.progress import track

    batches = [showings[start : start + BATCH] for start in range(0, len(showings), BATCH)]
    return list(batches) if not batches else track(batches, description="judging")  # type: ignore[return-value]
