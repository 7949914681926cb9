"""`instruct doctor RUN`: are a run's files what its steps wrote, what is half-finished, and what comes next."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InstructError, counted
from instruct.base.files import changed_file, read_text, sha256_of, unfinished_in
from instruct.base.output import Finding
from instruct.judging.comparison import judged_comparisons
from instruct.judging.store import check_verdicts, open_store, was_judged
from instruct.phases.systems import changed_output, generated_files
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, adapter_of, only_process, outputs_of
from instruct.run.measurements import read_metrics, read_values
from instruct.run.replies import BatchStore

Steps = dict[str, dict[str, Any]]


def check_run(run: RunDirectory) -> Iterator[Finding]:
    """Compare a run's files with what its steps recorded, and tell what the next command does.

    Raises:
        InputError: not a run directory, or its manifest or config cannot be read.
    """
    steps: Steps = run.manifest()["steps"]
    run.config()
    if not run.store.exists() and (run.folder / "validation.sqlite").exists():
        run.store = run.folder / "validation.sqlite"
    yield Finding("manifest", "ok", f"{counted(len(steps), 'step')} recorded")
    with contextlib.ExitStack() as locks:
        busy = ""
        try:
            for scope in _scopes(run, steps):
                locks.enter_context(only_process(run, scope))
        except InstructError as error:
            busy = str(error)
            yield Finding("process", "warning", busy)
        yield from _adapters(run, steps)
        yield from _outputs(run, steps)
        yield from _stores(run, steps)
        yield from _metrics(run)
        yield from _leftovers(run, bool(busy))
    yield from _unfinished(run, run.manifest()["steps"])


def _scopes(run: RunDirectory, steps: Steps) -> list[str]:
    """The locks of a run."""
    systems = run.config().get("systems")
    names = {step.removeprefix("train/") for step in steps if step.startswith("train/")}
    names |= set(systems) if isinstance(systems, dict) else set()
    return [VERDICTS, *(scope(name) for name in sorted(names) for scope in (adapter_of, outputs_of))]


def _adapters(run: RunDirectory, steps: Steps) -> Iterator[Finding]:
    for step, record in steps.items():
        kind, _, name = step.partition("/")
        if kind != "train" or record["status"] != "done":
            continue
        folder = run.adapters / name
        if not folder.is_dir():
            remedy = f"restore it, or train again: instruct train {run.folder}/config.yaml"
            yield Finding("adapters", "error", f"{folder}: {step} is done, and it is not there", remedy)
        elif changed := changed_file(folder, record["results"]["sha256"]):
            remedy = f"restore it, or delete {folder} to train again"
            yield Finding("adapters", "error", f"{folder / changed}: was modified after training", remedy)
        else:
            yield Finding("adapters", "ok", f"{folder}: as trained")


def _outputs(run: RunDirectory, steps: Steps) -> Iterator[Finding]:
    """Are answers and continuations those that were generated, or judged if no step made them, as the baseline's?"""
    generated = generated_files(run, steps)
    judged = {
        run.answers_path(name): digest
        for step, record in steps.items()
        if step.startswith("judge/") and record["status"] == "done"
        for name, digest in record["inputs"].get("answers", {}).items()
        if not name.endswith(".json")  # a file outside the run
    }
    remedy = f"restore it, or judge other answers: instruct judge {run.folder}"
    for path, digest in judged.items():
        if path not in generated:
            changed = f"{path}: is not what was judged", remedy
            yield _output(path, digest, "judged", ("was judged", remedy), changed)
    missing = "is recorded", f"restore it, or `instruct generate {run.folder}` writes it again"
    for path, about in generated.items():
        yield _output(path, about["sha256"], "generated", missing, changed_output(run, path))


def _output(path: Path, digest: str, made: str, missing: tuple[str, str], changed: tuple[str, str]) -> Finding:
    """One file of answers; `missing`: what is known of one that is not there, and what to do."""
    if not path.is_file():
        return Finding("outputs", "error", f"{path}: {missing[0]}, and is not there", missing[1])
    if sha256_of(path) != digest:
        return Finding("outputs", "error", *changed)
    return Finding("outputs", "ok", f"{path}: as {made}")


def _stores(run: RunDirectory, steps: Steps) -> Iterator[Finding]:
    generated = {path.with_suffix(".replies.sqlite"): about for path, about in generated_files(run, steps).items()}
    stores = (path for folder in (run.outputs, run.continuations) for path in folder.glob("*.replies.sqlite"))
    for path in sorted({*generated, *stores}):
        yield from _replies(path, generated.get(path, {"n": 0})["n"])
    if not was_judged(run):
        return
    try:
        with open_store(run) as store:
            store.check()
            for key, record in judged_comparisons(run.manifest()):
                check_verdicts(run, store.judgments(key), record)
        yield Finding("verdicts", "ok", f"{run.store}: whole")
    except InstructError as error:
        yield _problem("verdicts", error)


def _replies(path: Path, answers: int) -> Iterator[Finding]:
    """Are the replies there from which the answers were written?"""
    remedy = "restore it from a copy; without it, answers that are lost are asked again"
    if not path.is_file():
        if answers:
            yield Finding("replies", "warning", f"{path}: is not there", remedy)
        return
    try:
        missing = answers
        for part in (path, *path.parent.glob(f"turn_*/{path.name}")):  # later turns of conversations
            with BatchStore(part) as store:
                missing -= len(store)
    except InstructError as error:
        yield _problem("replies", error)
        return
    if missing > 0:
        text = f"{path}: {missing} of the replies to {answers} prompts are missing"
        yield Finding("replies", "warning", text, remedy)
    else:
        yield Finding("replies", "ok", f"{path}: whole")


def _metrics(run: RunDirectory) -> Iterator[Finding]:
    try:
        rows = read_metrics(run, whole=True).measurements
        parts = {(row.part, row.system) for row in rows}
        for part, system in parts:
            read_values(run, part, system)
        if parts:
            text = f"{counted(len(rows), 'number')} of {counted(len(parts), 'measurement')}, as measured"
            yield Finding("metrics", "ok", text)
    except InstructError as error:
        yield _problem("metrics", error)


def _leftovers(run: RunDirectory, busy: bool) -> Iterator[Finding]:
    """What a killed process left of files and folders that it made."""
    folders = [run.folder, *(path for path in run.folder.rglob("*") if path.is_dir())]
    parts = [] if busy else [path for folder in folders for path in unfinished_in(folder)]
    if parts:
        text = f"{counted(len(parts), 'unfinished file')} of killed processes, such as {parts[0]}"
        yield Finding("leftovers", "warning", text, "delete them")


def _unfinished(run: RunDirectory, steps: Steps) -> Iterator[Finding]:
    unfinished = [(step, record) for step, record in steps.items() if record["status"] != "done"]
    for step, record in unfinished:
        why = (record.get("results") or {}).get("stopped") or f"begun {record.get('started', 'at an unknown time')}"
        yield Finding("steps", "warning", f"{step} is not finished: {why}", _resumes(run, step))
    if not unfinished:
        report = "" if (run.report / "report.json").is_file() else f"; next: instruct report {run.folder}"
        yield Finding("steps", "ok", f"all that were begun are finished{report}")


def _resumes(run: RunDirectory, step: str) -> str:
    """What a rerun does about a step that is not finished."""
    kind, _, name = step.partition("/")
    if kind == "train":
        checkpoints = sorted((run.folder / "checkpoints" / name).glob("checkpoint-*/trainer_state.json"))
        steps = []
        for path in checkpoints:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                steps.append(int(json.loads(read_text(path))["global_step"]))
        does = f"resumes after step {max(steps)}" if steps else "trains it from the beginning"
        return f"`instruct train {run.folder}/config.yaml` {does}"
    if kind in ("answers", "continuations"):
        return f"`instruct generate {run.folder}` asks what has no stored reply"
    if kind == "evaluate":
        return f"`instruct evaluate {run.folder}` measures it again"
    verb = kind if kind in ("judge", "validate", "import") else "run"
    return f"rerun `instruct {verb}` with the same arguments to resume"


def _problem(what: str, error: InstructError) -> Finding:
    """A line for people says what is wrong, and after it what to do."""
    text, _, remedy = str(error).rpartition("; ")
    return Finding(what, "error", text, remedy)
