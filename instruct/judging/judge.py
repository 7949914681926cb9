"""Asking a judge about every pair of a comparison, in both orders or one, each completion kept as it arrives."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from instruct.engines.base import Completion, Engine, Failure, Reply, Request
from instruct.engines.server import PAID_ATTEMPTS
from instruct.errors import InstructError, StoppedError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.money import Price
from instruct.judging.showings import Answers, Options, Plan, Showing, judgment_of, plan_comparison, read_judgment
from instruct.judging.store import LEASE_SECONDS, Judgment, JudgmentStore

# Keys leased in one transaction, ahead of the requests.
_LEASED_TOGETHER = 16
# Seconds between two looks at what another process is asking for.
_LOOK_AGAIN = 0.5


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
    work = _Work(plan, store, options.price, skipped=set() if options.retry_failed else failed)
    stopped, spent = None, store.spent_usd()
    if options.ask and work.unjudged:
        with _renewed_leases(store), _progress(len(plan.showings), plan.card.name) as advance:
            advance(len(plan.showings) - sum(map(len, work.unjudged.values())))
            try:
                _ask(work, engine, options, advance)
            except StoppedError as error:
                stopped = str(error)
            finally:
                store.end_leases()
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

    def __init__(self, plan: Plan, store: JudgmentStore, price: Price | None, skipped: set[str]) -> None:
        """`skipped`: showings, by their keys, that are left as they are unless their completions are stored."""
        self.plan, self.store, self.price, self.asked = plan, store, price, 0
        self.unjudged: dict[str, list[Showing]] = {}  # by the keys: two equal answers give one request, two showings
        self.replies: dict[str, Reply] = {}
        self._waiting: dict[str, set[str]] = {}  # from a request's key to those of the showings that wait for it
        for showing in plan.showings:
            self.unjudged.setdefault(showing.key, []).append(showing)
            for request in showing.requests:
                self._waiting.setdefault(request.key, set()).add(showing.key)
        self.take_stored(self._waiting)
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

    def take_stored(self, keys: Iterable[str]) -> int:
        """Read the verdicts of what is stored; how many showings that were."""
        stored = self.store.completions(keys)
        self.replies |= stored
        return self._read(stored)

    def take(self, portion: list[tuple[Request, Reply]]) -> int:
        """Commit replies that arrived, then the verdicts read from them; how many showings that were."""
        self.store.add_replies(
            self.plan.card.name,
            [
                (request.key, None, reply.usd)
                if isinstance(reply, Failure)
                else (request.key, reply, self._cost(request, reply))
                for request, reply in portion
            ],
        )
        self.asked += len(portion)
        found = {request.key: reply for request, reply in portion}
        self.replies |= found
        return self._read(found)

    def _cost(self, request: Request, completion: Completion) -> float:
        if self.price is None:
            return 0.0
        return self.price.paid(completion.prompt_tokens, completion.completion_tokens, request.usd)

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


def _ask(work: _Work, engine: Engine, options: Options, advance: Callable[[int], None]) -> None:
    """Ask until every showing has its verdict.

    Raises:
        StoppedError: the budget, or the engine after too many failures in a row.
    """
    while work.unjudged:
        unaffordable: list[Request] = []

        def leased(requests: Sequence[Request], unaffordable: list[Request] = unaffordable) -> list[Request]:
            """Those that are ours to ask for now."""
            # A reply that cannot be used may be charged all the same, and is asked for again.
            wanted = [(request.key, PAID_ATTEMPTS * request.usd) for request in requests]
            states = work.store.lease(wanted, options.budget_usd)
            advance(work.take_stored(key for key, state in states.items() if state == "stored"))
            unaffordable += [request for request in requests if states[request.key] == "unaffordable"]
            return [request for request in requests if states[request.key] == "granted"]

        asked = work.asked
        if engine.batch is None:
            _ask_stream(work, engine, leased, unaffordable, advance)
        else:
            _ask_batches(work, engine, leased, advance)
        work.store.end_leases()
        if work.asked > asked or not work.unjudged:
            continue  # what was held or did not fit the budget may be had now
        if work.store.others_at_work() or not unaffordable:
            time.sleep(_LOOK_AGAIN)
        else:
            spent, most = work.store.spent_usd(), PAID_ATTEMPTS * unaffordable[0].usd
            raise StoppedError(
                f"the budget of {options.budget_usd:g} USD is used up: {spent:.4f} USD are spent, the next request can "
                f"cost up to {most:.4f}, and of judge {work.plan.card.name} {len(work.requests())} requests are "
                "unsent; a larger --budget-usd goes on"
            )


def _ask_stream(
    work: _Work,
    engine: Engine,
    leased: Callable[[Sequence[Request]], list[Request]],
    unaffordable: list[Request],
    advance: Callable[[int], None],
) -> None:
    waiting = deque(work.requests())

    def requests() -> Iterator[Request]:
        # Leased a few at a time: two processes share the work. Past the budget nothing more is sent, also nothing
        # smaller: what is left out is then a matter of the order alone.
        while waiting and not unaffordable:
            together = [waiting.popleft() for _ in range(min(_LEASED_TOGETHER, len(waiting)))]
            yield from leased(together)

    for portion in engine.complete(requests()):
        advance(work.take(portion))


def _ask_batches(
    work: _Work, engine: Engine, leased: Callable[[Sequence[Request]], list[Request]], advance: Callable[[int], None]
) -> None:
    # Whole batches, whatever of them is stored: a run that was killed asks in the same batches, for the same replies.
    assert engine.batch is not None
    showings = work.plan.showings
    for start in range(0, len(showings), engine.batch):
        batch = {r.key: r for showing in showings[start : start + engine.batch] for r in showing.requests}
        open_ = [request for request in work.requests() if request.key in batch]
        if open_ and (ours := leased(open_)):
            for portion in engine.complete(ours):
                advance(work.take(portion))


@contextmanager
def _renewed_leases(store: JudgmentStore) -> Iterator[None]:
    """Leases that outlast a long wait for a reply: renewed by a thread with a connection of its own."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_SECONDS / 4):
            # A store that cannot be written shows in the work itself.
            with suppress(InstructError), store.again() as other:
                other.renew_leases()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _progress(total: int, judge: str) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(f"judging ({one_line(judge, 40)})".replace("[", "("), total=total)
        yield lambda count: progress.advance(task, count)
