"""Asking a judge about every pair of a comparison, in both orders or one, each completion kept as it arrives."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from instruct.engines.base import Completion, Engine, Failure, Reply, Request
from instruct.engines.server import PAID_ATTEMPTS
from instruct.errors import StoppedError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.money import Price
from instruct.judging.showings import Answers, Options, Plan, Showing, judgment_of, plan_comparison, read_judgment
from instruct.judging.store import Judgment, JudgmentStore


@dataclass(frozen=True)
class ComparisonCounts:
    """What a comparison took: `asked` of the judge now, `stored` before, `trimmed`, in requests and showings.

    `verdicts` in the order shown; `usd` spent now; `notes` of how replies were made; `stopped`: why before the end.
    """

    asked: int
    stored: int
    without_request: int
    trimmed: int = 0
    usd: float = 0.0
    stopped: str | None = None
    notes: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)


def judge_comparison(
    card: JudgeCard,
    *,
    candidate: Answers,
    baseline: Answers,
    store: JudgmentStore,
    engine: Engine,
    options: Options | None = None,
) -> ComparisonCounts:
    """Ask the judge about each pair; completions that are stored are not asked for again.

    A request that failed is kept as a verdict with its reason, and asked again only with `options.retry_failed`.

    Raises:
        InputError: candidate and baseline have different prompts, or the judge cannot be asked.
    """
    options = options or Options()
    plan = plan_comparison(card, candidate=candidate, baseline=baseline, engine=engine, options=options)
    return judge_plan(plan, store=store, engine=engine, options=options)


def judge_plan(plan: Plan, *, store: JudgmentStore, engine: Engine, options: Options) -> ComparisonCounts:
    """Ask for what is not stored, and read the verdicts."""
    earlier = store.judgments(plan.comparison)
    shown = {(showing.instruction, showing.position, showing.key) for showing in (*plan.showings, *plan.same)}
    # No verdict outlives the answers or the judge that it was about; its completion stays.
    store.remove_judgments(j for j in earlier if (j.instruction, j.position, j.key) not in shown)
    store.add_judgments(judgment_of(plan, showing, "tie", "identical outputs") for showing in plan.same)
    failed = {j.key for j in earlier if j.verdict == "failed"}
    stopped, spent = None, store.spent_usd()
    budget = Budget(spent, options.budget_usd)
    work = _Work(plan, store, options.price, budget, skipped=set() if options.retry_failed else failed)
    if options.ask and work.unjudged:
        with _progress(len(plan.showings), plan.card.name) as advance:
            advance(len(plan.showings) - sum(map(len, work.unjudged.values())))
            try:
                _ask(work, engine, advance)
            except StoppedError as error:
                stopped = str(error)
    verdicts = store.judgments(plan.comparison)
    return ComparisonCounts(
        asked=work.asked,
        stored=len({request.key for showing in plan.showings for request in showing.requests}) - work.asked,
        without_request=len(plan.same),
        trimmed=sum(showing.trimmed for showing in plan.showings),
        usd=store.spent_usd() - spent,
        stopped=stopped,
        notes=list(engine.notes),
        verdicts=dict(Counter(judgment.verdict for judgment in verdicts)),
    )


class _Work:
    """What of a plan has no verdict yet, and its verdicts as replies come in."""

    def __init__(
        self, plan: Plan, store: JudgmentStore, price: Price | None, budget: Budget, skipped: set[str]
    ) -> None:
        """`skipped`: showings, by their keys, that are left as they are unless their completions are stored."""
        self.plan, self.store, self.price, self.budget, self.asked = plan, store, price, budget, 0
        self.unjudged: dict[str, list[Showing]] = {}  # by the keys: two equal answers give one request, two showings
        self.replies: dict[str, Reply] = {}
        self._waiting: dict[str, set[str]] = {}  # from a request's key to those of the showings that wait for it
        for showing in plan.showings:
            self.unjudged.setdefault(showing.key, []).append(showing)
            for request in showing.requests:
                self._waiting.setdefault(request.key, set()).add(showing.key)
        self.replies |= store.completions(self._waiting)
        self._read(self.replies)
        self.unjudged = {key: showings for key, showings in self.unjudged.items() if key not in skipped}

    def requests(self) -> list[Request]:
        """Those without a reply, in the order of the showings."""
        found = {
            request.key: request
            for showings in self.unjudged.values()
            for request in showings[0].requests
            if request.key not in self.replies
        }
        return list(found.values())

    def take(self, portion: list[tuple[Request, Reply]]) -> int:
        """Commit replies that arrived, then the verdicts read from them; how many showings that were."""
        replies: list[tuple[str, Completion | None, float]] = []
        for request, reply in portion:
            completion = None if isinstance(reply, Failure) else reply
            replies.append((request.key, completion, self._cost(request, reply)))
        self.store.add_replies(self.plan.card.name, replies)
        for key, _, usd in replies:
            self.budget.settle(key, usd)
        self.asked += len(portion)
        found = {request.key: reply for request, reply in portion}
        self.replies |= found
        return self._read(found)

    def _cost(self, request: Request, reply: Reply) -> float:
        if isinstance(reply, Failure):
            return reply.usd
        if self.price is None:
            return 0.0
        return self.price.paid(reply.prompt_tokens, reply.completion_tokens, request.usd)

    def _read(self, keys: Iterable[str]) -> int:
        done: list[Judgment] = []
        for name in dict.fromkeys(name for key in keys for name in sorted(self._waiting.get(key, ()))):
            showings = self.unjudged.get(name)
            if showings and all(request.key in self.replies for request in showings[0].requests):
                del self.unjudged[name]
                for showing in showings:
                    done.append(read_judgment(self.plan, showing, [self.replies[r.key] for r in showing.requests]))
        self.store.add_judgments(done)
        return len(done)


class Budget:
    """A limit in US dollars that what is spent and what is in flight together never exceed; None: no limit."""

    def __init__(self, spent: float, limit: float | None) -> None:
        self.spent, self.limit = spent, limit
        self._reserved: dict[str, float] = {}  # the most that each request in flight can cost

    def reserve(self, request: Request) -> bool:
        """Whether a request may be sent; if so, the most that it can cost is reserved."""
        most = most_usd(request)
        if self.limit is not None and self.spent + sum(self._reserved.values()) + most > self.limit:
            return False
        self._reserved[request.key] = most
        return True

    def settle(self, key: str, usd: float) -> None:
        """Replace what was reserved for a request by what it cost."""
        self.spent += usd
        self._reserved.pop(key, None)


def most_usd(request: Request) -> float:
    """The most that a request can cost: an unusable reply may be charged as well, and is asked for again."""
    return PAID_ATTEMPTS * request.usd


def _ask(work: _Work, engine: Engine, advance: Callable[[int], None]) -> None:
    """Ask until every presentation has its verdict.

    Raises:
        StoppedError: the budget, or the engine after too many failures in a row.
    """
    if engine.batch is not None:
        _ask_batches(work, engine, advance)
        return
    budget = work.budget
    while requests := work.requests():
        asked = work.asked
        # Past the budget nothing more is sent, not even a cheaper request: the order alone decides what is left out.
        for portion in engine.complete(itertools.takewhile(budget.reserve, requests)):
            advance(work.take(portion))
        # Replies that cost less than was reserved for them leave room for more.
        if work.asked == asked:
            raise StoppedError(
                f"the budget of {budget.limit:g} USD is used up: {budget.spent:.4f} USD are spent, the next request "
                f"can cost up to {most_usd(requests[0]):.4f} USD, and {len(requests)} requests to judge "
                f"{work.plan.card.name} are left; rerun with a larger --budget-usd to resume"
            )


def _ask_batches(work: _Work, engine: Engine, advance: Callable[[int], None]) -> None:
    # Always the same batches, whatever of them is stored: a killed run asks in the same batches and gets the same
    # replies. Only engines on this machine have batches, and they are free.
    assert engine.batch is not None
    showings = work.plan.showings
    for start in range(0, len(showings), engine.batch):
        batch = {r.key for showing in showings[start : start + engine.batch] for r in showing.requests}
        if missing := [request for request in work.requests() if request.key in batch]:
            for portion in engine.complete(missing):
                advance(work.take(portion))


@contextmanager
def _progress(total: int, judge: str) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(f"judging ({one_line(judge, 40)})".replace("[", "("), total=total)
        yield lambda count: progress.advance(task, count)
