"""Judge a run's comparisons: present the answers, ask, read the replies, store the verdicts."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from instruct.analysis.outcomes import IDENTICAL
from instruct.base.errors import InputError, StoppedError, counted, one_line
from instruct.base.files import network_file_system, sha256_of
from instruct.base.output import progress_bar, say
from instruct.base.replies import Completion, Failure, Reply
from instruct.data.evaluation import load_answers
from instruct.engines.base import Engine, Request
from instruct.judging.asking import Judge
from instruct.judging.comparison import Comparison
from instruct.judging.money import Budget, estimate_of, gate, most_usd
from instruct.judging.presentations import Answers, Plan, Presentation, plan_comparison
from instruct.judging.stopping import Stopping
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import Reading, read_replies
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process


class Task(NamedTuple):
    """A comparison to judge: the step of the run that records it, what it is made from, and both sides' answers."""

    step: str
    inputs: dict[str, Any]
    candidate: Answers
    baseline: Answers


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


def judge_answers(
    run: RunDirectory,
    judge: Judge,
    comparisons: Iterable[tuple[str, str]],
    *,
    yes: bool = False,
    retry_failed: bool = False,
    reparse: bool = False,
) -> None:
    """Judge a run's (candidate, baseline) pairs of systems.

    A comparison that was finished from the same answers with the same card is skipped.

    Args:
        yes: ask a judge that costs money without a budget.
        retry_failed: ask again what failed.
        reparse: read the verdicts again from the stored completions, without asking.

    Raises:
        InputError: answers are missing, candidate and baseline have different prompts, another process judges this
            run, the verdicts were imported and cannot be made again, or a judge costs money and neither a budget nor
            `yes` is given.
        StoppedError: the budget or too many failures in a row; verdicts so far are kept.
    """
    tasks = []
    manifest = run.manifest()
    for names in comparisons:
        candidate, baseline = (read_answers(run, name) for name in names)
        _check_names(candidate, baseline, names)
        inputs = {
            "answers": {name: sha256_of(run.answers_path(name)) for name in names},
            "judge": judge.options.made_from(),
            "card": judge.card.sha256(),
        }
        comparison = Comparison(judge.card.name, candidate.name, baseline.name)
        step = comparison.step("judge", manifest)
        manifest["steps"].setdefault(step, {"comparison": comparison._asdict()})
        failed = comparison.record(manifest).get("results", {}).get("verdicts", {}).get("failed", 0)
        if reparse or judge.replay or not run.is_done(step, inputs) or (retry_failed and failed):
            tasks.append(Task(step, inputs, candidate, baseline))
        elif failed:
            say(f"{step}: {counted(failed, 'request')} failed; --retry-failed asks them again")
    if tasks:
        judge_tasks(run, judge, tasks, yes=yes, retry_failed=retry_failed, reparse=reparse)


def read_answers(run: RunDirectory, name: str) -> Answers:
    """The answers of a system of the run, of its `baseline`, or of any model_outputs.json.

    Raises:
        InputError: there is no such file.
    """
    path = run.answers_path(name)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in run.outputs.glob("*.json"))) or "none yet"
        raise InputError(f"{path}: no such answers; this run has {known}; name one of them or a model_outputs.json")
    return Answers(name=path.stem, rows=load_answers(path))


def _check_names(candidate: Answers, baseline: Answers, names: Sequence[str]) -> None:
    """Refuse two files of answers of one name, which verdicts could not tell apart."""
    if candidate.name == baseline.name and candidate.rows != baseline.rows:
        raise InputError(
            f"answers {names[0]} and {names[1]}: differ, and both are called {one_line(candidate.name, 60)!r}; "
            "rename one of the files"
        )


def judge_tasks(
    run: RunDirectory,
    judge: Judge,
    tasks: Sequence[Task],
    *,
    yes: bool = False,
    retry_failed: bool = False,
    reparse: bool = False,
) -> None:
    """Judge comparisons, each in its own step of the run. Arguments and errors are those of `judge_answers`."""
    if judge.cluster is not None and (kind := network_file_system(run.folder)):
        raise InputError(
            f"{run.store}: is on a network file system ({kind}), on which SQLite can lose verdicts; move the run to a "
            "local disk of the machine that runs this command"
        )
    with only_process(run, VERDICTS), judge.open() as engine:
        plans = [plan_comparison(judge, task.candidate, task.baseline, engine) for task in tasks]
        _check_before_asking(run, judge, plans, engine, asks=not (reparse or judge.replay), yes=yes)
        ran_with = {
            **judge.options.model_dump(mode="json"),
            "card": judge.card.name,
            "model": judge.card.model,
            "orders": judge.options.orders or judge.card.order_policy,
            "engine": engine.identity,
            "reparse": reparse,
            "replay": str(judge.replay) if judge.replay else None,
        }
        with JudgmentStore(run.store) as store:
            for task, plan in zip(tasks, plans, strict=True):
                earlier = {(j.instruction, j.position): j.verdict for j in store.judgments(plan.comparison)}
                results: dict[str, Any] = {}
                # Reading verdicts again while replies are missing does not finish a step.
                recorded = run.step(task.step, task.inputs, comparison=plan.comparison._asdict(), config=ran_with)
                with contextlib.nullcontext(results) if reparse and plan.missing(store) else recorded as results:
                    counts = judge_plan(judge, plan, store, engine, retry_failed=retry_failed, ask=not reparse)
                    results |= vars(counts)
                    if engine.workers:
                        results["workers"] = engine.workers
                if reparse:
                    now = store.judgments(plan.comparison)
                    changed = sum(earlier.get((j.instruction, j.position)) != j.verdict for j in now)
                    say(f"{task.step}: {counted(len(now), 'verdict')} read again, {changed} changed")
                if counts.stopped:
                    raise StoppedError(counts.stopped)


def _check_before_asking(
    run: RunDirectory, judge: Judge, plans: Sequence[Plan], engine: Engine, *, asks: bool, yes: bool
) -> None:
    """Refuse what cannot be judged; a call that is refused leaves no new store behind."""
    with JudgmentStore(run.store if run.store.is_file() else ":memory:") as store:
        for plan in plans:
            _check_imported(run, store, plan)
        missing = {request.key: request for plan in plans for request in plan.missing(store)}
    if missing and asks:
        engine.check()
        if judge.costs_money:
            _check_cost(judge, missing.values(), yes)


def _check_imported(run: RunDirectory, store: JudgmentStore, plan: Plan) -> None:
    """Refuse to replace verdicts from a file, unless they can be read again from stored replies to these requests."""
    if not plan.comparison.is_imported(run.manifest()):
        return
    stored = store.completions(plan.requests())
    known = {each.key: all(request.key in stored for request in each.requests) for each in plan.presentations}
    same = {(each.instruction, each.position) for each in plan.identical}
    for judgment in store.judgments(plan.comparison):
        replaced = judgment.key in known and (known[judgment.key] or judgment.verdict == "failed")
        tied = judgment.verdict == "tie" and (judgment.instruction, judgment.position) in same
        if not (replaced or tied):
            judge, candidate, baseline = (one_line(name, 60) for name in plan.comparison)
            raise InputError(
                f"{store.path}: the verdicts of {judge} on {candidate} vs. {baseline} were imported and cannot be made "
                "again; judge in another run, or under another name (--judge-model M, or a copy of the judge's card)"
            )


def judge_comparison(
    judge: Judge,
    candidate: Answers,
    baseline: Answers,
    store: JudgmentStore,
    engine: Engine,
    *,
    retry_failed: bool = False,
    ask: bool = True,
) -> ComparisonCounts:
    """Judge one comparison into a store.

    Args:
        retry_failed: ask again what failed; otherwise it stays a `failed` verdict.
        ask: False reads verdicts from the stored completions alone.

    Raises:
        InputError: candidate and baseline have different prompts, or the judge cannot be asked.
    """
    plan = plan_comparison(judge, candidate, baseline, engine)
    return judge_plan(judge, plan, store, engine, retry_failed=retry_failed, ask=ask)


def judge_plan(
    judge: Judge, plan: Plan, store: JudgmentStore, engine: Engine, *, retry_failed: bool, ask: bool
) -> ComparisonCounts:
    """Ask for the completions that are not stored, and store the verdicts; arguments as in `judge_comparison`."""
    earlier = store.judgments(plan.comparison)
    planned = {(each.instruction, each.position, each.key) for each in (*plan.presentations, *plan.identical)}
    # A verdict on other answers or by another judge is removed; its completion is kept.
    store.remove_judgments(j for j in earlier if (j.instruction, j.position, j.key) not in planned)
    tie = Reading("tie", reason=IDENTICAL)
    store.add_judgments(_judgment(plan, each, tie) for each in plan.identical)
    failed = {j.key for j in earlier if j.verdict == "failed"}
    stopped, spent = None, store.spent_usd()
    work = _Work(judge, plan, store, Budget(spent, judge.options.budget_usd), skip=set() if retry_failed else failed)
    if ask and work.unjudged:
        with _progress(len(plan.presentations), judge.card.name) as advance:
            advance(len(plan.presentations) - sum(map(len, work.unjudged.values())))
            try:
                _ask(work, engine, advance)
            except StoppedError as error:
                stopped = str(error)
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


def _check_cost(judge: Judge, requests: Iterable[Request], yes: bool) -> None:
    """Print the estimate, and refuse to ask without a budget or `yes`."""
    decoding = judge.card.decoding
    prompts = [request.prompt for request in requests]
    estimate = estimate_of(prompts, decoding.max_tokens, judge.price, judge.options.concurrency, also=decoding.extra)
    gate(estimate, judge.price, judge.options.budget_usd, yes)


@contextlib.contextmanager
def _progress(total: int, judge: str) -> Iterator[Callable[[int], None]]:
    with progress_bar() as progress:
        task = progress.add_task(f"judging ({one_line(judge, 40)})", total=total)
        yield lambda count: progress.advance(task, count)
