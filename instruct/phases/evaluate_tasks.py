"""The part of `instruct evaluate` that runs few-shot tasks. What is done is not done again."""

from __future__ import annotations

from typing import Any

from instruct.base.errors import InputError
from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.metrics import Metrics, merge_metrics, read_metrics, values_path, write_values
from instruct.measuring.tasks.answering import Task, answer_columns, answer_task, load_task, task_result
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.model import HarnessResults, TaskResults
from instruct.measuring.tasks.options import TaskOptions
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory


def evaluate_tasks(config: ExperimentConfig, run: RunDirectory, options: TaskOptions) -> None:
    """Every system of the run answers every task.

    Raises:
        InputError: a task that cannot be read, a system that is not trained, a row that does not fit the context.
    """
    if not options.cards and not options.lm_eval:
        raise InputError("evaluation.tasks: names no task; set cards or lm_eval")
    systems = system_folders(config, run)
    harness = Harness(options) if options.lm_eval else None
    tasks = [load_task(name, options) for name in options.cards]  # what is wrong with one is found before the work
    model: ForwardModel | None = None
    for system, folder in systems.items():
        model = open_model(config.model, folder, like=model)
        for task in tasks:
            inputs = {
                "weights": model.identity,
                "dtype": [config.model.dtype, config.model.quantization],
                "task": task.identity,
            }
            if not _is_done(run, task.key, system, inputs):
                with run.step(f"evaluate/tasks/{task.key}/{system}", inputs) as results:
                    results |= _answered(run, model, task, system)
        if harness:
            _harness_results(config, run, model, harness, system)
    if model:
        model.close()


def _harness_results(
    config: ExperimentConfig, run: RunDirectory, model: ForwardModel, harness: Harness, system: str
) -> None:
    """A system's results in lm-eval's tasks."""
    for name in harness.names:
        step = f"evaluate/lm_eval/{name}/{system}"
        inputs = {"weights": model.identity, "dtype": [config.model.dtype, config.model.quantization]}
        inputs |= harness.inputs()
        found = read_metrics(run).lm_eval.get(system)
        if found is not None and name in found.root and run.is_done(step, inputs):
            continue
        with run.step(step, inputs) as results:
            measured = harness.evaluate(model, name)
            merge_metrics(run, "lm_eval", system, HarnessResults(measured))
            results |= {"tasks": len(measured)}


def _is_done(run: RunDirectory, key: str, system: str, inputs: dict[str, Any]) -> bool:
    found = read_metrics(run).tasks.get(system)
    written = found is not None and key in found.root and values_path(run, f"tasks/{key}", system).is_file()
    return written and run.is_done(f"evaluate/tasks/{key}/{system}", inputs)


def _answered(run: RunDirectory, model: ForwardModel, task: Task, system: str) -> dict[str, Any]:
    answers = answer_task(model, task)
    found = task_result(task, answers)
    write_values(run, f"tasks/{task.key}", system, answer_columns(task, answers))
    merge_metrics(run, "tasks", system, TaskResults({task.key: found}))
    return {"accuracy": found.accuracy, "rows": found.rows, "seconds": found.seconds}


def task_lines(metrics: Metrics) -> list[str]:
    """A line for each system and task."""
    return [
        f"{system}: {key} {found.accuracy:.1f} % of {found.rows:,} rows (95 % CI {found.interval[0]:.1f}–"
        f"{found.interval[1]:.1f}" + ("" if found.floor is None else f"; retrieval alone {found.floor:.1f}") + ")"
        for system, results in metrics.tasks.items()
        for key, found in results.root.items()
    ] + [
        f"{system}: lm-eval {name} " + ", ".join(f"{metric} {value:.4f}" for metric, value in found.metrics.items())
        for system, harness in metrics.lm_eval.items()
        for name, found in harness.root.items()
    ]
