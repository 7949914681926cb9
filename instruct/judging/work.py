"""Ask for what a comparison still needs, read the replies, and store the verdicts."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from instruct.analysis.outcomes import IDENTICAL
from instruct.base.errors import StoppedError, counted, one_line
from instruct.base.output import progress_bar
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import Engine, Request
from instruct.judging.asking import Judge
from instruct.judging.money import Budget, most_usd
from instruct.judging.presentations import Plan, Presentation
from instruct.judging.stopping import Stopping
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import Reading, read_replies


@dataclass(frozen=True)
class ComparisonCounts:
    """What judging a comparison took.

    Attributes:
        asked: requests sent now.
        stored: requests whose replies were stored before.
        without_request: presentations of identical answers.
        trimmed: presentations whose answers were cut to fit.
        usd: spent now, in US dollars.
        stopped: why judging stopped early, if it did.
        notes: on how the replies were made.
        verdicts: how many of each, in the order shown.
    """

    asked: int
    stored: int
    without_request: int
    trimmed: int = 0
    usd: float = 0.0
    stopped: str | None = None
    notes: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)


def judge_plan(
    judge: Judge, plan: Plan, store: JudgmentStore, engine: Engine, *, retry_failed: bool = False, ask: bool = True
) -> ComparisonCounts:
    """Ask for the completions that are not stored, and store the verdicts.

    Args:
        retry_failed: ask again for all that failed; otherwise what was refused for good, or was asked again twice,
            stays a `failed` verdict.
        ask: False reads verdicts from the stored completions alone.
    """
    earlier = store.judgments(plan.comparison)
    planned = {(each.instruction, each.position, each.key) for each in (*plan.presentations, *plan.identical)}
    # A verdict on other answers or by another judge is removed; its completion is kept.
    store.remove_judgments(j for j in earlier if (j.instruction, j.position, j.key) not in planned)
    tie = Reading("tie", reason=IDENTICAL)
    store.add_judgments(_judgment(plan, each, tie) for each in plan.identical)
    failed = {j.key for j in earlier if j.verdict == "failed"}
    skip = set() if retry_failed else failed - store.to_ask_again(earlier)
    stopped, spent = None, store.spent_usd()
    work = _Work(judge, plan, store, Budget(spent, judge.options.budget_usd), skip)
    if ask and skip and skip >= {each.key for each in plan.presentations}:
        stopped = f"judge {judge.card.name}: none of its requests was answered; --retry-failed asks them again"
    elif ask and work.unjudged:
        with _progress(len(plan.presentations), judge.card.name) as advance:
            advance(len(plan.presentations) - sum(map(len, work.unjudged.values())))
            try:
                _ask(work, engine, advance)
            except StoppedError as error:
                stopped = str(error)
                if given_up := store.given_up(work.without_reply()):
                    stopped += f"; --retry-failed also sends {counted(len(given_up), 'refused request')} again"
    return ComparisonCounts(
        asked=work.asked,
        stored=work.stored,
        without_request=len(plan.identical),
        trimmed=sum(each.trimmed for each in plan.presentations),
        usd=store.spent_usd() - spent,
        stopped=stopped,
        notes=list(engine.notes),
        verdicts=dict(Counter(judgment.verdict for judgment in store.judgments(plan.comparison))),
    )


class _Work:
    """The presentations of a plan that have no verdict yet; replies turn them into verdicts."""

    def __init__(self, judge: Judge, plan: Plan, store: JudgmentStore, budget: Budget, skip: set[str]) -> None:
        """`skip`: keys of presentations that are not asked about again."""
        self.judge, self.plan, self.store, self.budget, self.asked = judge, plan, store, budget, 0
        self._stopping = Stopping(judge, plan) if judge.options.stop_when else None
        self._looked_at, self._enough = -1, False
        # By key: presentations of equal answers share their requests.
        self.unjudged: dict[str, list[Presentation]] = {}
        self._waiting: dict[str, set[str]] = {}  # from a request's key to those of the presentations that need it
        for each in plan.presentations:
            self.unjudged.setdefault(each.key, []).append(each)
            for request in each.requests:
                self._waiting.setdefault(request.key, set()).add(each.key)
        self._replies: dict[str, Reply] = {**store.completions(self._waiting)}
        self.stored = len(self._replies)
        self._read(self._replies)
        self.unjudged = {key: each for key, each in self.unjudged.items() if key not in skip}

    def requests(self) -> list[Request]:
        """The requests without a reply, in the order of the plan."""
        needed = [request for presentations in self.unjudged.values() for request in presentations[0].requests]
        return list({request.key: request for request in needed if request.key not in self._replies}.values())

    def without_reply(self) -> list[str]:
        """The keys of all requests of the plan that have no completion."""
        return [key for key in self._waiting if not isinstance(self._replies.get(key), Completion)]

    def enough(self) -> bool:
        """Whether the judge's stopping rule is met, so that the other pairs need not be judged."""
        if self._stopping is not None and len(self.unjudged) != self._looked_at:
            self._looked_at = len(self.unjudged)
            unjudged = {each.instruction for presentations in self.unjudged.values() for each in presentations}
            made = {key: reply for key, reply in self._replies.items() if isinstance(reply, Completion)}
            self._enough = self._stopping.met(self.store.judgments(self.plan.comparison), unjudged, made)
        return self._enough

    def take(self, portion: list[tuple[Request, Reply]]) -> int:
        """Commit replies, then the verdicts read from them; returns the number of presentations judged."""
        rows = [
            (request.key, reply, reply.usd if isinstance(reply, Failure) else self.judge.paid_usd(request, reply))
            for request, reply in portion
        ]
        self.store.add_replies(self.judge.card.name, rows)
        for key, _, usd in rows:
            self.budget.settle(key, usd)
        self.asked += len(portion)
        arrived = {request.key: reply for request, reply in portion}
        self._replies |= arrived
        return self._read(arrived)

    def _read(self, keys: Iterable[str]) -> int:
        judged: list[Judgment] = []
        for waiting in dict.fromkeys(each for key in keys for each in sorted(self._waiting.get(key, ()))):
            presentations = self.unjudged.get(waiting)
            if presentations and all(request.key in self._replies for request in presentations[0].requests):
                del self.unjudged[waiting]
                for each in presentations:
                    replies = [self._replies[request.key] for request in each.requests]
                    judged.append(_judgment(self.plan, each, read_replies(self.judge.card, replies, each.shown)))
        self.store.add_judgments(judged)
        return len(judged)


def _judgment(plan: Plan, each: Presentation, reading: Reading) -> Judgment:
    return Judgment(
        *plan.comparison, each.pair, each.instruction, each.dataset, each.position, each.key, reading.verdict,
        reading.reason, reading.preference, reading.ratings, each.trimmed,
    )  # fmt: skip


def _ask(work: _Work, engine: Engine, advance: Callable[[int], None]) -> None:
    """Ask until every presentation has its verdict.

    Raises:
        StoppedError: the budget, or the engine after too many failures in a row.
    """
    if engine.batch is not None:
        _ask_batches(work, engine, advance)
        return
    budget = work.budget
    while (requests := work.requests()) and not work.enough():
        asked = work.asked
        # Past the budget nothing more is sent, not even a cheaper request: the order alone decides what is left out.
        wanted = itertools.takewhile(lambda request: not work.enough() and budget.reserve(request), requests)
        for portion in engine.complete(wanted):
            advance(work.take(portion))
        # Replies that cost less than was reserved for them leave room for more.
        if work.asked == asked and not work.enough():
            raise StoppedError(
                f"the budget of {budget.limit:g} USD is used up: {budget.spent:.4f} USD are spent, the next request "
                f"can cost up to {most_usd(requests[0]):.4f} USD, and {len(requests)} requests to judge "
                f"{work.judge.card.name} are left; rerun with a larger --budget-usd to resume"
            )


def _ask_batches(work: _Work, engine: Engine, advance: Callable[[int], None]) -> None:
    # Only engines that the user runs have batches, and they are free.
    for portion in engine.complete_batches(_batches(work, engine.batch or 1)):
        advance(work.take(portion.replies))


def _batches(work: _Work, size: int) -> Iterator[list[Request]]:
    """The requests of each batch of presentations that have no reply yet, until the judge's stopping rule is met.

    Always the same batches, whatever of them is stored: a killed run forms them again and gets the same replies.
    """
    for start in range(0, len(work.plan.presentations), size):
        if work.enough():
            return
        keys = {request.key for each in work.plan.presentations[start : start + size] for request in each.requests}
        if missing := [request for request in work.requests() if request.key in keys]:
            yield missing


@contextlib.contextmanager
def _progress(total: int, judge: str) -> Iterator[Callable[[int], None]]:
    with progress_bar() as progress:
        task = progress.add_task(f"judging ({one_line(judge, 40)})".replace("[", "("), total=total)
        yield lambda count: progress.advance(task, count)
