"""Ask for what a comparison still needs, and store the verdicts that its replies hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from instruct.base.errors import InstructError, StoppedError, counted, one_line
from instruct.base.output import progress_bar
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import Engine, Request
from instruct.judging.asking import Judge
from instruct.judging.cards import JudgeCard
from instruct.judging.money import Budget
from instruct.judging.presentations import Plan
from instruct.judging.store import JudgmentStore, verdicts_sha256
from instruct.judging.verdicts import read_replies


@dataclass(frozen=True)
class JudgingMode:
    """What a call asks again, or does without.

    Attributes:
        yes: ask a judge that costs money without a budget.
        retry_failed: ask again for all that failed, also what was refused for good or was asked again twice.
    """

    yes: bool = False
    retry_failed: bool = False


@dataclass(frozen=True)
class ComparisonCounts:
    """What judging a comparison took.

    Attributes:
        asked: requests sent now.
        stored: requests whose replies were stored before.
        without_request: presentations of identical answers, and of pairs without an answer.
        unanswered_pairs: those of pairs without an answer, which are failed whatever is asked.
        trimmed: presentations whose answers were cut to fit.
        usd: spent now, in US dollars.
        stopped: why judging stopped early, if it did.
        notes: on how the replies were made.
        verdicts: how many of each, in the order shown.
        sha256: of the verdicts.
        unanswered: the judge answered no request of the comparison, and the rest was left out or refused.
    """

    asked: int
    stored: int
    without_request: int
    trimmed: int = 0
    usd: float = 0.0
    stopped: str | None = None
    notes: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    sha256: str = ""
    unanswered: bool = False
    unanswered_pairs: int = 0


def judge_plan(
    judge: Judge, plan: Plan, store: JudgmentStore, engine: Engine, mode: JudgingMode = JudgingMode()
) -> ComparisonCounts:
    """Ask for the replies that are missing, and store the verdicts of all, in place of those from earlier calls.

    Unless the mode asks again for all that failed, what was refused for good, or was asked again twice, stays a
    `failed` verdict.
    """
    requests = plan.requests()
    stored, spent = len(store.completions(requests)), store.spent_usd()
    asking = _Asking(judge, store, plan.missing(store, mode.retry_failed))
    store.remove_judgments(plan.comparison)  # they may be on other answers, or by another card
    _store_verdicts(judge.card, plan, store)
    try:
        stopped = asking.ask(engine, total=len(requests))
    finally:
        replies = _store_verdicts(judge.card, plan, store)
    answered = [reply for reply in replies.values() if isinstance(reply, Completion)]
    unanswered_keys = [key for key in requests if not isinstance(replies.get(key), Completion)]
    if stopped and (given_up := store.given_up(unanswered_keys)):
        stopped += f"; `retry_failed` also sends {counted(len(given_up), 'refused request')} again"
    judged = store.judgments(plan.comparison)
    unanswered = not stopped and bool(plan.presentations) and not answered
    if unanswered:
        (reason, _), *_ = Counter(one.reason for one in judged if one.verdict == "failed" and one.key).most_common(1)
        stopped = (
            f"judge {judge.card.name}: none of its requests was answered ({reason}); once that is settled, "
            "`retry_failed` asks them again"
        )
    return ComparisonCounts(
        asked=asking.asked,
        stored=stored,
        without_request=len(plan.decided),
        unanswered_pairs=sum(judgment.verdict == "failed" for judgment in plan.decided),
        trimmed=sum(shown.about.trimmed for shown in plan.presentations),
        usd=store.spent_usd() - spent,
        stopped=stopped,
        notes=[*plan.notes, *_criteria_note(judge), *engine.notes, *_reply_notes(judge, answered)],
        verdicts=dict(Counter(judgment.verdict for judgment in judged)),
        sha256=verdicts_sha256(judged),
        unanswered=unanswered,
    )


def _store_verdicts(card: JudgeCard, plan: Plan, store: JudgmentStore) -> dict[str, Reply]:
    """Read and store the verdict of each presentation whose replies are stored; returns these."""
    replies = store.replies(plan.requests())
    judged = [*plan.decided]
    for shown in plan.presentations:
        its = [replies[request.key] for request in shown.requests if request.key in replies]
        if len(its) == len(shown.requests):
            judged.append(shown.judged(read_replies(card, its)))
    store.add_judgments(judged)
    return replies


def _criteria_note(judge: Judge) -> list[str]:
    criteria = judge.options.criteria
    return [f"rows without criteria of their own were judged by: {one_line(criteria, 1000)}"] if criteria else []


def _reply_notes(judge: Judge, made: list[Completion]) -> list[str]:
    """How requests differed from what the card says, whose cost is the most that it can be, and which other models
    have answered; each of how many that were answered."""
    counts = Counter(f"asked {reply.changes}" for reply in made if reply.changes)
    uncounted = sum(None in (reply.prompt_tokens, reply.completion_tokens) for reply in made)
    if judge.price and uncounted:
        counts["counted as the most that they can cost, without a possible number of tokens"] = uncounted
    if judge.engine == "server":
        others = (reply.model for reply in made if reply.model not in (None, judge.card.model))
        counts.update(f"answered by {one_line(model, 80)}, as the server says" for model in others)
    return [words + (f" ({n} of {len(made)} replies)" if n < len(made) else "") for words, n in counts.items()]


class _Asking:
    """The requests to send: what each can cost is reserved before, and its reply is committed when it arrives."""

    def __init__(self, judge: Judge, store: JudgmentStore, requests: Iterable[Request]) -> None:
        store.keep_reserved()
        self._judge, self._store, self.asked = judge, store, 0
        self._budget = Budget(store.spent_usd(), judge.options.budget_usd)
        self._waiting = {request.key: request for request in requests}

    def ask(self, engine: Engine, total: int) -> str | None:
        """Ask until each request has a reply; returns why that stopped early, if it did.

        Args:
            total: of all requests, also those with a reply.
        """
        if not self._waiting:
            return None
        try:
            with progress_bar() as progress:
                task = progress.add_task(f"judging ({one_line(self._judge.card.name, 40)})", total=total)
                for _ in self._portions(engine):
                    progress.update(task, completed=total - len(self._waiting))
        except InstructError as error:
            self._store.release(self._budget.release())  # of requests that were not sent, or cost nothing
            if isinstance(error, StoppedError):
                return str(error)
            raise
        self._store.release(self._budget.release())
        return None

    def _portions(self, engine: Engine) -> Iterator[None]:
        """Ask, and commit each portion of the replies.

        Raises:
            StoppedError: the budget is used up.
        """
        while self._waiting:
            asked = self.asked
            yield  # shows the bar
            for replies in engine.complete(self._within_budget([*self._waiting.values()])):
                self._take(replies)
                yield
            # Replies that cost less than was reserved for them leave room for more.
            if self._waiting and self.asked == asked:
                budget, first = self._budget, next(iter(self._waiting.values()))
                raise StoppedError(
                    f"the budget of {budget.limit:g} USD is used up: {budget.spent:.4f} USD are spent, the next "
                    f"request can cost up to {first.usd:.4f} USD, and {len(self._waiting)} requests to judge "
                    f"{self._judge.card.name} are left; rerun with a larger `budget_usd` to resume"
                )

    def _within_budget(self, requests: Iterable[Request]) -> Iterator[Request]:
        # Past the budget nothing more is sent, not even a cheaper request: the order alone decides what is left out.
        for request in requests:
            if not self._reserve(request):
                return
            yield replace(request, may_try=partial(self._reserve, request)) if request.usd else request

    def _reserve(self, request: Request, attempts: int = 1) -> bool:
        """Whether there is money for so many attempts in all; what they can cost is kept before they are sent."""
        if not self._budget.reserve(request, attempts):
            return False
        if request.usd:
            self._store.reserve(self._judge.card.name, request.key, attempts * request.usd)
        return True

    def _take(self, replies: list[tuple[Request, Reply]]) -> None:
        """Commit replies; a request without the attempts that it needs waits until there is money for them."""
        rows = [
            (request.key, reply, reply.usd if isinstance(reply, Failure) else self._judge.paid_usd(request, reply))
            for request, reply in replies
        ]
        self._store.add_replies(self._judge.card.name, rows)
        self.asked += len(rows)
        for key, reply, usd in rows:
            self._budget.settle(key, usd)
            if isinstance(reply, Completion) or reply.tried:
                self._waiting.pop(key, None)
