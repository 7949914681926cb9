"""Ask for what a comparison still needs, read the replies, and store the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from instruct.asking.ask import ask_engine, progress_of
from instruct.base.errors import InstructError, StoppedError, counted, one_line
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import Engine, Portion, Request
from instruct.judging.asking import Judge
from instruct.judging.money import Budget
from instruct.judging.presentations import Plan, Presentation
from instruct.judging.store import Judgment, JudgmentStore, verdicts_sha256
from instruct.judging.verdicts import read_replies


@dataclass(frozen=True)
class JudgingMode:
    """What a call asks again, or does without.

    Attributes:
        yes: ask a judge that costs money without a budget.
        retry_failed: ask again for all that failed, also what was refused for good or was asked again twice.
        reparse: read the verdicts again from the stored completions, without asking.
    """

    yes: bool = False
    retry_failed: bool = False
    reparse: bool = False


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
    """Ask for the completions that are not stored, and store the verdicts.

    Unless the mode asks again for all that failed, what was refused for good, or was asked again twice, stays a
    `failed` verdict.
    """
    ask = not mode.reparse
    earlier = store.judgments(plan.comparison)
    planned = {(shown.about.instruction, shown.about.position, shown.key) for shown in plan.presentations}
    planned |= {(j.instruction, j.position, j.key) for j in plan.decided}
    # A verdict on other answers or by another judge is removed; its completion is kept.
    store.remove_judgments(j for j in earlier if (j.instruction, j.position, j.key) not in planned)
    store.add_judgments(plan.decided)
    failed = {j.key for j in earlier if j.verdict == "failed"}
    skip = set() if mode.retry_failed else failed - store.to_ask_again(earlier)
    spent = store.spent_usd()
    work = _Work(judge, store, engine, plan, skip)
    stopped = _ask(engine, work) if ask else None
    if stopped and (given_up := store.given_up(work.without_reply())):
        stopped += f"; `retry_failed` also sends {counted(len(given_up), 'refused request')} again"
    judged = store.judgments(plan.comparison)
    unanswered = ask and not stopped and bool(plan.presentations) and not work.answered()
    if unanswered:
        (reason, _), *_ = Counter(one.reason for one in judged if one.verdict == "failed" and one.key).most_common(1)
        stopped = (
            f"judge {judge.card.name}: none of its requests was answered ({reason}); once that is settled, "
            "`retry_failed` asks them again"
        )
    return ComparisonCounts(
        asked=work.asked,
        stored=work.stored,
        without_request=len(plan.decided),
        unanswered_pairs=sum(judgment.verdict == "failed" for judgment in plan.decided),
        trimmed=sum(shown.about.trimmed for shown in plan.presentations),
        usd=store.spent_usd() - spent,
        stopped=stopped,
        notes=[*plan.notes, *_criteria_note(judge), *engine.notes, *work.notes()],
        verdicts=dict(Counter(judgment.verdict for judgment in judged)),
        sha256=verdicts_sha256(judged),
        unanswered=unanswered,
    )


def _criteria_note(judge: Judge) -> list[str]:
    criteria = judge.options.criteria
    return [f"rows without criteria of their own were judged by: {one_line(criteria, 1000)}"] if criteria else []


def _ask(engine: Engine, work: _Work) -> str | None:
    """Ask for what has no verdict yet; returns why that stopped early, if it did."""
    if not work.unjudged:
        return None
    try:
        with progress_of(work.title) as show:
            ask_engine(engine, work, show)
    except InstructError as error:
        work.release()
        if isinstance(error, StoppedError):
            return str(error)
        raise
    work.release()
    return None


class _Work:
    """The presentations of a plan that have no verdict yet, see `instruct.asking.ask.Work`; replies become verdicts."""

    def __init__(self, judge: Judge, store: JudgmentStore, engine: Engine, plan: Plan, skip: set[str]) -> None:
        """`skip`: keys of presentations that are left out."""
        self.judge, self.store, self.plan, self.asked = judge, store, plan, 0
        store.keep_reserved()
        self.budget = Budget(store.spent_usd(), judge.options.budget_usd)
        self.title, self.total = f"judging ({one_line(judge.card.name, 40)})", len(plan.presentations)
        self._batch, self._short = engine.batch, True
        # By key: presentations of equal answers share their requests.
        self.unjudged: dict[str, list[Presentation]] = {}
        self._waiting: dict[str, set[str]] = {}  # from a request's key to those of the presentations that need it
        for shown in plan.presentations:
            self.unjudged.setdefault(shown.key, []).append(shown)
            for request in shown.requests:
                self._waiting.setdefault(request.key, set()).add(shown.key)
        self._replies: dict[str, Reply] = {**store.completions(self._waiting)}
        self.stored = len(self._replies)
        self._read(self._replies)
        self.unjudged = {key: presentations for key, presentations in self.unjudged.items() if key not in skip}

    @property
    def done(self) -> int:
        """The presentations that have been read, or are left out."""
        return self.total - sum(map(len, self.unjudged.values()))

    def requests(self) -> list[Request]:
        """The requests without a reply, in the order of the plan."""
        needed = [request for presentations in self.unjudged.values() for request in presentations[0].requests]
        return list({request.key: request for request in needed if request.key not in self._replies}.values())

    def without_reply(self) -> list[str]:
        """The keys of all requests of the plan that have no completion."""
        return [key for key in self._waiting if not isinstance(self._replies.get(key), Completion)]

    def notes(self) -> list[str]:
        """How requests differed from what the card says, whose cost is the most that it can be, and which other models
        have answered; each of how many that were answered."""
        made = [reply for reply in self._replies.values() if isinstance(reply, Completion)]
        counts = Counter(f"asked {reply.changes}, as the server demands" for reply in made if reply.changes)
        uncounted = sum(None in (reply.prompt_tokens, reply.completion_tokens) for reply in made)
        if self.judge.price and uncounted:
            counts["counted as the most that they can cost, without a possible number of tokens"] = uncounted
        if self.judge.engine == "server":
            others = (reply.model for reply in made if reply.model not in (None, self.judge.card.model))
            counts.update(f"answered by {one_line(model, 80)}, as the server says" for model in others)
        return [words + (f" ({n} of {len(made)} replies)" if n < len(made) else "") for words, n in counts.items()]

    def answered(self) -> bool:
        """Whether a request of the plan has a completion."""
        return any(isinstance(reply, Completion) for reply in self._replies.values())

    def batches(self) -> Iterator[Iterable[Request]]:
        """The requests that have no reply yet.

        Raises:
            StoppedError: the budget is used up.
        """
        if self._batch is not None:
            yield from self._fixed_batches(self._batch)
            return
        self._short = True
        while self._short and (requests := self.requests()):
            self._short, asked = False, self.asked
            yield self._within_budget(requests)
            # Replies that cost less than was reserved for them leave room for more.
            if self._short and self.asked == asked:
                budget = self.budget
                raise StoppedError(
                    f"the budget of {budget.limit:g} USD is used up: {budget.spent:.4f} USD are spent, the next "
                    f"request can cost up to {requests[0].usd:.4f} USD, and {len(requests)} requests to judge "
                    f"{self.judge.card.name} are left; rerun with a larger `budget_usd` to resume"
                )

    def _within_budget(self, requests: Iterable[Request]) -> Iterator[Request]:
        # Past the budget nothing more is sent, not even a cheaper request: the order alone decides what is left out.
        for request in requests:
            if not self._reserve(request):
                self._short = True
                return
            yield replace(request, may_try=partial(self._reserve, request)) if request.usd else request

    def _reserve(self, request: Request, attempts: int = 1) -> bool:
        """Whether there is money for so many attempts in all; what they can cost is kept before they are sent."""
        if not self.budget.reserve(request, attempts):
            return False
        if request.usd:
            self.store.reserve(self.judge.card.name, request.key, attempts * request.usd)
        return True

    def release(self) -> None:
        """Give back what is reserved for requests that have no reply and cost nothing."""
        self.store.release(self.budget.release())

    def _fixed_batches(self, size: int) -> Iterator[list[Request]]:
        """Always the same batches, whatever is stored: a killed run forms them again and gets the same replies.

        Only engines that the user runs have batches, and they are free.
        """
        for start in range(0, len(self.plan.presentations), size):
            batch = self.plan.presentations[start : start + size]
            keys = {request.key for shown in batch for request in shown.requests}
            if missing := [request for request in self.requests() if request.key in keys]:
                yield missing

    def take(self, portion: Portion) -> None:
        """Commit replies, then the verdicts read from them."""
        rows = [
            (request.key, reply, reply.usd if isinstance(reply, Failure) else self.judge.paid_usd(request, reply))
            for request, reply in portion.replies
        ]
        self.store.add_replies(self.judge.card.name, rows)
        for key, _, usd in rows:
            self.budget.settle(key, usd)
        self.asked += len(rows)
        cut_short = {request.key for request, _ in portion.replies} & self.budget.cut_short
        self._short = self._short or bool(cut_short)  # they are sent again if there is money left
        arrived = {request.key: reply for request, reply in portion.replies if request.key not in cut_short}
        self._replies |= arrived
        self._read(arrived)

    def _read(self, keys: Iterable[str]) -> None:
        judged: list[Judgment] = []
        for waiting in dict.fromkeys(pending for key in keys for pending in sorted(self._waiting.get(key, ()))):
            presentations = self.unjudged.get(waiting)
            if presentations and all(request.key in self._replies for request in presentations[0].requests):
                del self.unjudged[waiting]
                replies = [self._replies[request.key] for request in presentations[0].requests]
                reading = read_replies(self.judge.card, replies)
                judged += [shown.judged(reading) for shown in presentations]
        self.store.add_judgments(judged)
