"""Ask for what a comparison still needs, read the replies, and store the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from instruct.analysis.outcomes import ASKED_AGAIN, IDENTICAL, PREFERENCES
from instruct.asking.ask import ask_engine, progress_of
from instruct.base.errors import StoppedError, counted, one_line
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import Engine, Portion, Request
from instruct.judging.asking import Judge
from instruct.judging.money import Budget
from instruct.judging.presentations import Plan, Presentation, plan_again
from instruct.judging.samples import further_plans
from instruct.judging.stopping import Stopping
from instruct.judging.store import Judgment, JudgmentStore, verdicts_sha256
from instruct.judging.verdicts import Reading, read_replies


@dataclass(frozen=True)
class ComparisonCounts:
    """What judging a comparison took.

    Attributes:
        asked: requests sent now.
        stored: requests whose replies were stored before.
        without_request: presentations of identical answers, and of pairs without an answer.
        unanswered_samples: requests of further samples that have no reply.
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
    unanswered_samples: int = 0


def judge_plan(
    judge: Judge,
    plan: Plan,
    store: JudgmentStore,
    engine: Engine,
    *,
    retry_failed: bool = False,
    retry_unparsed: bool = False,
    ask: bool = True,
) -> ComparisonCounts:
    """Ask for the completions that are not stored, and store the verdicts.

    Args:
        retry_failed: ask again for all that failed; otherwise what was refused for good, or was asked again twice,
            stays a `failed` verdict.
        retry_unparsed: ask once more about every presentation whose reply could not be read.
        ask: False reads verdicts from the stored completions alone.
    """
    earlier = store.judgments(plan.comparison)
    planned = {(each.instruction, each.position, each.key) for each in (*plan.presentations, *plan.without_request())}
    # A verdict on other answers or by another judge is removed; its completion is kept.
    store.remove_judgments(j for j in earlier if (j.instruction, j.position, j.key) not in planned)
    tie = Reading("tie", reason=IDENTICAL)
    store.add_judgments(_judgment(plan, each, tie) for each in plan.identical)
    store.add_judgments(_judgment(plan, each, Reading("failed", reason=reason)) for each, reason in plan.unanswered)
    failed = {j.key for j in earlier if j.verdict == "failed"}
    skip = set() if retry_failed else failed - store.to_ask_again(earlier)
    spent = store.spent_usd()
    budget = Budget(spent, judge.options.budget_usd)
    work = _Work(judge, plan, store, budget, engine.batch, skip)
    stopped = _ask(engine, work) if ask else None
    # What was asked again earlier is read in any case.
    again = _Work(judge, plan_again(plan, store), store, budget, engine.batch, set(), again=True)
    if retry_unparsed and ask and not stopped:
        stopped = _ask(engine, again)
    works = [work, again]
    for further in further_plans(judge, plan):
        works.append(_sample(judge, further, store, budget, engine, retry_failed))
        if ask and not stopped:
            stopped = _ask(engine, works[-1])
    if stopped and (given_up := store.given_up(work.without_reply())):
        stopped += f"; --retry-failed also sends {counted(len(given_up), 'refused request')} again"
    unanswered = ask and not stopped and not judge.replay and bool(plan.presentations) and not work.answered()
    if unanswered:
        stopped = f"judge {judge.card.name}: none of its requests was answered; --retry-failed asks them again"
    judged = store.judgments(plan.comparison)
    return ComparisonCounts(
        asked=sum(each.asked for each in works),
        stored=work.stored,
        without_request=len(plan.without_request()),
        unanswered_pairs=len(plan.unanswered),
        unanswered_samples=sum(len(each.without_reply()) for each in works[2:]),
        trimmed=sum(each.trimmed for each in plan.presentations),
        usd=store.spent_usd() - spent,
        stopped=stopped,
        notes=list(engine.notes),
        verdicts=dict(Counter(judgment.verdict for judgment in judged)),
        sha256=verdicts_sha256(judged),
        unanswered=unanswered,
    )


def _sample(
    judge: Judge, plan: Plan, store: JudgmentStore, budget: Budget, engine: Engine, retry_failed: bool
) -> _Work:
    """The work of a further sample, without the presentations that are asked again only on demand."""
    given_up = set() if retry_failed else store.given_up(plan.requests())
    skip = {each.key for each in plan.presentations if not given_up.isdisjoint(each.key.split())}
    return _Work(judge, plan, store, budget, engine.batch, skip, judged=False)


def _ask(engine: Engine, work: _Work) -> str | None:
    """Ask for what has no verdict yet; returns why that stopped early, if it did."""
    if not work.unjudged:
        return None
    try:
        with progress_of(work.title) as show:
            ask_engine(engine, work, show)
    except StoppedError as error:
        return str(error)
    return None


class _Work:
    """The presentations of a plan that have no verdict yet, see `instruct.asking.ask.Work`; replies become verdicts."""

    def __init__(
        self,
        judge: Judge,
        plan: Plan,
        store: JudgmentStore,
        budget: Budget,
        batch: int | None,
        skip: set[str],
        again: bool = False,
        judged: bool = True,
    ) -> None:
        """`batch`: presentations that are always asked about together; `skip`: keys of those that are left out.

        `again`: they were asked about before, and a request that fails leaves the first verdict as it is.
        `judged`: False keeps the replies alone, which are read as samples.
        """
        self._again, self._judged = again, judged
        self.judge, self.plan, self.store, self.budget, self.asked = judge, plan, store, budget, 0
        self._batch, self._short = batch, True
        self.done = 0
        self.title, self.total = f"judging ({one_line(judge.card.name, 40)})", len(plan.presentations)
        self._stopping = Stopping(judge, plan) if judge.options.stop_when else None
        self._look_at, self._enough = 0, False
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
        self.done = self.total - sum(map(len, self.unjudged.values()))

    def requests(self) -> list[Request]:
        """The requests without a reply, in the order of the plan."""
        needed = [request for presentations in self.unjudged.values() for request in presentations[0].requests]
        return list({request.key: request for request in needed if request.key not in self._replies}.values())

    def without_reply(self) -> list[str]:
        """The keys of all requests of the plan that have no completion."""
        return [key for key in self._waiting if not isinstance(self._replies.get(key), Completion)]

    def answered(self) -> bool:
        """Whether a request of the plan has a completion."""
        return any(isinstance(reply, Completion) for reply in self._replies.values())

    def enough(self) -> bool:
        """Whether the judge's stopping rule is met, so that the other pairs need not be judged.

        Each look reads all verdicts, so the next one is after 2 % more of them: the time grows with their number alone.
        """
        if self._stopping is not None and self.done >= self._look_at:
            self._look_at = self.done + max(1, self.done // 50)
            unjudged = {each.instruction for presentations in self.unjudged.values() for each in presentations}
            made = {key: reply for key, reply in self._replies.items() if isinstance(reply, Completion)}
            self._enough = self._stopping.met(self.store.judgments(self.plan.comparison), unjudged, made)
        return self._enough

    def batches(self) -> Iterator[Iterable[Request]]:
        """The requests that have no reply yet, until the judge's stopping rule is met.

        Raises:
            StoppedError: the budget is used up.
        """
        if self._batch is not None:
            yield from self._fixed_batches(self._batch)
            return
        self._short = True
        while self._short and (requests := self.requests()) and not self.enough():
            self._short, asked = False, self.asked
            yield self._within_budget(requests)
            # Replies that cost less than was reserved for them leave room for more.
            if self._short and self.asked == asked:
                budget = self.budget
                raise StoppedError(
                    f"the budget of {budget.limit:g} USD is used up: {budget.spent:.4f} USD are spent, the next "
                    f"request can cost up to {requests[0].usd:.4f} USD, and {len(requests)} requests to judge "
                    f"{self.judge.card.name} are left; rerun with a larger --budget-usd to resume"
                )

    def _within_budget(self, requests: Iterable[Request]) -> Iterator[Request]:
        # Past the budget nothing more is sent, not even a cheaper request: the order alone decides what is left out.
        for request in requests:
            if self.enough():
                return
            if not self.budget.reserve(request):
                self._short = True
                return
            yield (
                replace(request, may_try=partial(self.budget.reserve, request))
                if self.budget.limit is not None
                else request
            )

    def _fixed_batches(self, size: int) -> Iterator[list[Request]]:
        """Always the same batches, whatever is stored: a killed run forms them again and gets the same replies.

        Only engines that the user runs have batches, and they are free.
        """
        for start in range(0, len(self.plan.presentations), size):
            if self.enough():
                return
            keys = {request.key for each in self.plan.presentations[start : start + size] for request in each.requests}
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
        for waiting in dict.fromkeys(each for key in keys for each in sorted(self._waiting.get(key, ()))):
            presentations = self.unjudged.get(waiting)
            if presentations and all(request.key in self._replies for request in presentations[0].requests):
                del self.unjudged[waiting]
                for each in presentations:
                    replies = [self._replies[request.key] for request in each.requests]
                    reading = read_replies(self.judge.card, replies, each.shown)
                    if self._again and reading.verdict in PREFERENCES:
                        reading = replace(reading, reason=ASKED_AGAIN)
                    if not (self._again and reading.verdict == "failed"):
                        judged.append(_judgment(self.plan, each, reading))
        if self._judged:
            self.store.add_judgments(judged)
        self.done = self.total - sum(map(len, self.unjudged.values()))


def _judgment(plan: Plan, each: Presentation, reading: Reading) -> Judgment:
    return Judgment(
        *plan.comparison, each.pair, each.instruction, each.dataset, each.position, each.key, reading.verdict,
        reading.reason, reading.preference, reading.ratings, each.trimmed,
    )  # fmt: skip
