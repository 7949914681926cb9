"""Judging a run's comparisons: what is finished is left as it is, the rest is asked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.data.evaluation import load_answers
from instruct.errors import InputError, InstructError, StoppedError, one_line
from instruct.judging.comparison import Comparison
from instruct.judging.options import JudgeOptions
from instruct.runs import RunDirectory, sha256_of

if TYPE_CHECKING:
    from instruct.judging.cards import JudgeCard
    from instruct.judging.showings import Answers


def read_answers(run: RunDirectory, name: str) -> Answers:
    """The answers of a system of the run, of its `baseline`, or of any model_outputs.json.

    Raises:
        InputError: there is no such file.
    """
    from instruct.judging.showings import Answers

    path = run.answers_path(name)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in run.outputs.glob("*.json"))) or "none yet"
        raise InputError(f"{path}: no such answers; this run has {known}; name one of them or a model_outputs.json")
    return Answers(name=path.stem, rows=load_answers(path))


def judge_answers(
    run: RunDirectory,
    judge: JudgeOptions,
    comparisons: list[tuple[str, str]],
    *,
    yes: bool = False,
    retry_failed: bool = False,
    reparse: bool = False,
    replay: Path | None = None,
) -> None:
    """Ask one judge about each (candidate, baseline); completions that are stored are not asked for again.

    A comparison that was finished from the same answers with the same card is left as it is.

    Args:
        yes: ask a judge that costs money without a budget.
        retry_failed: ask again what failed for good.
        reparse: read the verdicts again from the stored completions, and ask nothing.
        replay: take the replies from this file (`instruct export --format jsonl`), and ask nobody.

    Raises:
        InputError: answers are missing, candidate and baseline have different prompts, or a judge costs money and
            neither a budget nor `yes` is given.
        StoppedError: the budget or the failures in a row stopped it; what was judged is kept.
    """
    from instruct.judging.cards import load_judge_card

    card = load_judge_card(judge.card, model=judge.model)
    todo = []
    for names in comparisons:
        candidate, baseline = (read_answers(run, name) for name in names)
        inputs = {
            "answers": {name: sha256_of(run.answers_path(name)) for name in names},
            "judge": judge.made_from(),
            "card": card.sha256(),
        }
        comparison = Comparison(card.name, candidate.name, baseline.name)
        step = comparison.step()
        failed = comparison.record(run.manifest()).get("results", {}).get("verdicts", {}).get("failed", 0)
        if reparse or replay or not run.is_done(step, inputs) or (retry_failed and failed):
            todo.append((step, inputs, candidate, baseline))
        elif failed:
            print(f"{step}: {failed} requests failed; --retry-failed asks them again")
    if todo:
        ask_judge(run, judge, card, todo, yes=yes, retry_failed=retry_failed, reparse=reparse, replay=replay)


def ask_judge(
    run: RunDirectory,
    judge: JudgeOptions,
    card: JudgeCard,
    todo: list[tuple[str, dict[str, Any], Answers, Answers]],
    *,
    yes: bool = False,
    retry_failed: bool = False,
    reparse: bool = False,
    replay: Path | None = None,
) -> None:
    """Judge `todo`: for each comparison its step in the run, what it is made from, and both sides' answers.

    Raises: as judge_answers.
    """
    from instruct.judging.asking import check_available, judge_engine
    from instruct.judging.judge import judge_plan
    from instruct.judging.money import estimate_of, gate, is_free, price_of
    from instruct.judging.showings import Options, plan_comparison
    from instruct.judging.store import JudgmentStore

    with (
        _judging_alone(run),
        JudgmentStore(run.store) as store,
        judge_engine(card, judge.base_url, judge.engine, judge.concurrency, replay) as engine,
    ):
        endpoint = engine.identity.get("endpoint")
        price = price_of(card.model, endpoint)
        options = Options(
            orders=judge.orders,
            trim=judge.trim,
            retry_failed=retry_failed,
            ask=not reparse,
            price=None if replay else price,
            budget_usd=judge.budget_usd,
        )
        plans = [plan_comparison(card, candidate=c, baseline=b, engine=engine, options=options) for _, _, c, b in todo]
        missing = {request.key: request for plan in plans for request in plan.missing(store)}
        if missing and not reparse and not replay:
            check_available(card, judge.base_url, judge.engine)
            if price or not is_free(endpoint):
                prompts = [request.prompt for request in missing.values()]
                estimate = estimate_of(
                    prompts, card.decoding.max_tokens, price, judge.concurrency, also=card.decoding.extra
                )
                gate(estimate, price, judge.budget_usd, yes)
        ran_with = {
            **judge.model_dump(mode="json"),
            "card": card.name,
            "model": card.model,
            "orders": judge.orders or card.order_policy,
            "engine": engine.identity,
            "reparse": reparse,
            "replay": str(replay) if replay else None,
        }
        for (step, inputs, _, _), plan in zip(todo, plans, strict=True):
            earlier = store.judgments(plan.comparison)
            # What is read again while replies are missing is no finished step.
            results: dict[str, Any] = {}
            unrecorded = contextlib.nullcontext(results)
            with (
                unrecorded
                if reparse and plan.missing(store)
                else run.step(step, inputs, comparison=plan.comparison._asdict(), config=ran_with) as results
            ):
                counts = judge_plan(plan, store=store, engine=engine, options=options)
                results |= vars(counts)
            if reparse:
                now = store.judgments(plan.comparison)
                verdicts = {(j.instruction, j.position): j.verdict for j in earlier}
                changed = sum(verdicts.get((j.instruction, j.position)) != j.verdict for j in now)
                print(f"{step}: {len(now)} verdicts read again, {changed} of them are others")
            if counts.stopped:
                raise StoppedError(counts.stopped)


@contextlib.contextmanager
def _judging_alone(run: RunDirectory) -> Iterator[None]:
    """Hold the lock that lets one process judge a run. The system releases it when the process ends, however it ends.

    Raises:
        InputError: another process holds it.
    """
    path = run.folder / ".judging.lock"
    with path.open("a+") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            lock.seek(0)
            raise InputError(
                f"{path}: {one_line(lock.read(), 100)} is judging this run; wait until it ends, or stop it, and run "
                "the command again"
            ) from None
        except OSError as error:
            raise InstructError(f"{path}: cannot be locked ({error}); use a file system that supports locks") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        yield
