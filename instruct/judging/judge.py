"""Let judges compare answers: one judge after another, each comparison a step of the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from instruct.base.errors import InputError, InputErrors, InstructError, StoppedError, counted, one_line
from instruct.base.files import sha256_of
from instruct.base.output import say, warn
from instruct.data.evaluation import load_answers
from instruct.engines.base import Engine, likely_tokens
from instruct.engines.cluster import check_store
from instruct.judging.asking import Judge
from instruct.judging.comparison import ComparisonKey
from instruct.judging.money import estimate_of, gate
from instruct.judging.presentations import Answers, Plan, plan_comparison
from instruct.judging.store import Judgment, JudgmentStore, are_recorded
from instruct.judging.unparsed import check_readable
from instruct.judging.work import ComparisonCounts, JudgingMode, judge_plan
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process


class JudgingTask(NamedTuple):
    """A comparison to judge: the step of the run that records it, what it is made from, and both sides' answers."""

    step: str
    inputs: dict[str, Any]
    candidate: Answers
    baseline: Answers


def ask_judges(
    run: RunDirectory,
    judges: Iterable[Judge],
    tasks_of: Callable[[Judge], Sequence[JudgingTask]],
    mode: JudgingMode,
) -> InstructError | None:
    """Let one judge after another do its tasks; one that is stopped or refused does not keep the others from theirs.

    Returns:
        What stopped or refused judges, or that no verdict of one can be read: a StoppedError if one was stopped, else
        an UnparsedError, else an InputError.

    Raises:
        InputErrors: every judge was refused.
        InputError: another process judges this run.
    """
    judges = list(judges)
    errors: list[InstructError] = []
    with only_process(run, VERDICTS):
        for judge in judges:
            try:
                judge.settle_dtype(run)
                judge_tasks(run, judge, tasks_of(judge), mode)
            except InstructError as error:
                errors.append(error)
    if errors and len(errors) == len(judges) and all(isinstance(error, InputError) for error in errors):
        raise InputErrors([*map(str, errors)])
    stopped = [error for error in errors if not isinstance(error, InputError)]
    stopped.sort(key=lambda error: error.exit_code)
    if len(errors) < 2:
        return errors[0] if errors else None
    return type(stopped[0])("; ".join(map(str, errors))) if stopped else InputErrors([*map(str, errors)])


def comparison_tasks(run: RunDirectory, judge: Judge, comparisons: Iterable[tuple[str, str]]) -> list[JudgingTask]:
    """The tasks of a judge that compares (candidate, baseline) pairs of a run's systems, or of files of answers.

    Raises:
        InputError: answers are missing, or two different files of answers have one name.
    """
    tasks = []
    manifest = run.manifest()
    for names in comparisons:
        candidate, baseline = (read_answers(run, name) for name in names)
        _check_names(candidate, baseline, names)
        inputs = {
            "answers": {name: sha256_of(run.answers_path(name)) for name in names},
            "judge": judge.options.made_with(),
            "card": judge.card.sha256(),
        }
        comparison = ComparisonKey(judge.card.name, candidate.name, baseline.name)
        step = comparison.step("judge", manifest)
        manifest["steps"].setdefault(step, {"comparison": comparison._asdict()})
        tasks.append(JudgingTask(step, inputs, candidate, baseline))
    return tasks


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


def judge_tasks(run: RunDirectory, judge: Judge, tasks: Sequence[JudgingTask], mode: JudgingMode) -> None:
    """Let a judge do its tasks, but for those that are done from the same answers with the same card.

    Raises:
        InputError: candidate and baseline have different prompts, the verdicts were imported and cannot be made again,
            or a judge costs money and neither a budget nor `yes` is given.
        StoppedError: the budget or too many failures in a row; verdicts so far are kept.
        UnparsedError: the judge replied, and none of its verdicts could be read.
    """
    due = [task for task in tasks if _is_due(run, judge, task, mode)]
    if due:
        _do(run, judge, due, mode)
    for task in tasks:
        if task not in due and _has_failures(run, judge, task):
            before = run.manifest()["steps"][task.step]
            try:
                _do(run, judge, [task], mode)
            except InstructError as error:  # what was finished stays so
                run.record(task.step, before)
                warn(f"{task.step}: failed requests are not asked again: {error}")
    if judge.card.protocol != "reward":
        names = [ComparisonKey(judge.card.name, task.candidate.name, task.baseline.name) for task in tasks]
        check_readable(run, judge.card, names)


def _do(run: RunDirectory, judge: Judge, tasks: Sequence[JudgingTask], mode: JudgingMode) -> None:
    check_store(judge.where, run.store)
    with judge.open() as engine:
        plans = [plan_comparison(judge, task.candidate, task.baseline, engine) for task in tasks]
        for note in dict.fromkeys(note for plan in plans for note in plan.notes):
            warn(note)
        _check_before_asking(run, judge, plans, engine, mode)
        unanswered = None
        for task, plan in zip(tasks, plans, strict=True):
            counts = _judge_task(run, judge, task, plan, engine, mode)
            if counts.stopped and not counts.unanswered:
                raise StoppedError(counts.stopped)
            unanswered = unanswered or counts.stopped  # other comparisons may fare better
        if unanswered:
            raise StoppedError(unanswered)


def _is_due(run: RunDirectory, judge: Judge, task: JudgingTask, mode: JudgingMode) -> bool:
    """Whether a comparison is not finished, or is to be judged again."""
    if not run.is_done(task.step, task.inputs):
        return True
    if not are_recorded(_judgments(run, judge, task), run.manifest()["steps"][task.step]):
        return True
    return mode.retry_failed and _failed(run, task) > 0


def _judgments(run: RunDirectory, judge: Judge, task: JudgingTask) -> list[Judgment]:
    with JudgmentStore(run.store) as store:
        return store.judgments(ComparisonKey(judge.card.name, task.candidate.name, task.baseline.name))


def _failed(run: RunDirectory, task: JudgingTask) -> int:
    """The failed requests of a finished comparison."""
    results: dict[str, Any] = run.manifest()["steps"][task.step]["results"]
    return int(results.get("verdicts", {}).get("failed", 0)) - int(results.get("unanswered_pairs", 0))


def _has_failures(run: RunDirectory, judge: Judge, task: JudgingTask) -> bool:
    """Whether a finished comparison has failed requests that a rerun sends again; says so if it has others."""
    failed = _failed(run, task)
    if not failed:
        return False
    keys = [judged.key.split() for judged in _judgments(run, judge, task) if judged.verdict == "failed" and judged.key]
    with JudgmentStore(run.store) as store:
        given_up = store.given_up(itertools.chain.from_iterable(keys))
    if any(map(given_up.isdisjoint, keys)):
        return True
    say(f"{task.step}: {counted(failed, 'request')} failed; `retry_failed` asks them again")
    return False


def _judge_task(
    run: RunDirectory, judge: Judge, task: JudgingTask, plan: Plan, engine: Engine, mode: JudgingMode
) -> ComparisonCounts:
    ran_with = {
        **judge.options.model_dump(mode="json"),
        "card": judge.card.name,
        "model": judge.card.model,
        "orders": judge.orders,
        "engine": engine.identity,
    }
    recorded = run.step(task.step, task.inputs, comparison=plan.comparison._asdict(), config=ran_with)
    with JudgmentStore(run.store) as store, recorded as results:
        counts = judge_plan(judge, plan, store, engine, mode)
        results |= {name: value for name, value in vars(counts).items() if name != "unanswered"}
        if not counts.unanswered_pairs:
            del results["unanswered_pairs"]
    failed = counts.verdicts.get("failed", 0) - counts.unanswered_pairs
    if failed and not counts.stopped:
        say(f"{task.step}: {counted(failed, 'request')} failed; a rerun asks again what was not refused, at most twice")
    return counts


def _check_before_asking(
    run: RunDirectory, judge: Judge, plans: Sequence[Plan], engine: Engine, mode: JudgingMode
) -> None:
    """Refuse what cannot be judged; a call that is refused leaves no new store behind."""
    for plan in plans:
        if plan.comparison.is_imported(run.manifest()):
            name, candidate, baseline = (one_line(name, 60) for name in plan.comparison)
            raise InputError(
                f"{run.store}: the verdicts of {name} on {candidate} vs. {baseline} were imported and cannot be made "
                "again; judge in another run, or under another name (another `model`, or a copy of the judge's card)"
            )
    with JudgmentStore(run.store if run.store.exists() else ":memory:") as store:
        missing = {request.key: request for plan in plans for request in plan.missing(store, mode.retry_failed)}
    if not missing:
        return
    engine.check()
    if judge.costs_money:
        decoding = judge.card.decoding
        likely = [likely_tokens(request.prompt, decoding.extra) for request in missing.values()]
        estimate = estimate_of(likely, decoding.most_tokens(judge.card.context_length), judge.price)
        gate(estimate, judge.price, judge.options.budget_usd, mode.yes, f"{judge.card.model} at {judge.endpoint}")
