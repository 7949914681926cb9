"""Every system of a run answers few-shot tasks. What is done is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.tasks.answering import Task, answer_task, load_task, task_measured
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import PartResult, measure, metric_step


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
) -> None:
    """Every system of the run answers every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.

    Raises:
        InputError: a task that cannot be read, a row that does not fit the context.
    """
    if not options.cards and not options.lm_eval:
        raise InputError("evaluation.tasks: names no task; give --tasks NAMES")
    harness = Harness(options, rendering) if options.lm_eval else None
    tasks = [load_task(name, options) for name in options.cards]  # what is wrong with one is found before the work
    model: ForwardModel | None = None
    for system, folder in systems.items():
        model = open_model(base, folder, like=model)
        inputs: dict[str, Any] = {"weights": model.identity, "dtype": [base.dtype, base.quantization]}
        for task in tasks:
            answered = partial(_answered, model, task)
            measure(run, f"tasks/{task.key}", system, inputs | {"task": task.identity}, answered)
        for name in harness.names if harness else ():
            assert harness
            replies = run.folder / "metrics" / "replies" / f"{_digest(inputs)}.jsonl"
            evaluated = partial(harness.evaluate, model, name, replies)
            made_from = inputs | harness.inputs()
            recorded = run.manifest()["steps"].get(metric_step(f"lm_eval/{name}", system), {}).get("inputs", {})
            if (files := harness.files_sha256(name)) and ("files" in recorded or not recorded):  # older ones lack it
                made_from["files"] = files
            measure(run, f"lm_eval/{name}", system, made_from, evaluated)
    if model:
        model.close()


def _answered(model: ForwardModel, task: Task) -> PartResult:
    return task_measured(task, answer_task(model, task))


def _digest(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
