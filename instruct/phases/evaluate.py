"""`instruct evaluate`: every number that a run's config asks for. What is done is not done again."""

from __future__ import annotations

import math
from collections.abc import Mapping

from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.measuring.human_text import ON_HUMAN_TEXT
from instruct.measuring.sampled import (
    OF_CONTINUATIONS,
    OfContinuations,
    lacking_of_continuations,
    measure_continuations,
)
from instruct.measuring.tasks.evaluate import evaluate_tasks
from instruct.measuring.texts.held_out import HeldOut
from instruct.measuring.texts.options import TextMetric
from instruct.phases.controls import human_text, match_temperatures, predictors
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement, Metrics, metrics_path, read_metrics


def evaluate_run(config: ExperimentConfig, run: RunDirectory) -> Metrics:
    """Compute what the config asks for and write it into the run's metrics.json.

    Raises:
        InputError: nothing to evaluate, a system that is not trained, texts that cannot be read.
    """
    human = human_text(config)
    wanted = _wanted(config, human, lacking_of_continuations(run))
    tasks = config.evaluation.tasks if config.evaluation else None
    if not wanted and not tasks:
        raise InputError(
            f"{run.folder / 'config.yaml'}: nothing to evaluate; name held-out text with "
            "--evaluation.texts.held_out.files FILE, or few-shot tasks with --tasks NAMES"
        )
    if human:
        _measure_on_human_text(config, run, human, wanted)
    measure_continuations(config.text_metrics, run, [metric for metric in OF_CONTINUATIONS if metric in wanted])
    if tasks:
        rendering = config.data.rendering(run.day)
        evaluate_tasks(tasks, run, config.model, system_folders(config, run), rendering, config.cluster)
    return read_metrics(run)


def _measure_on_human_text(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut, wanted: list[TextMetric]
) -> None:
    """The systems, and with distances also the controls, which have their systems' entropy."""
    metrics = [metric for metric in ON_HUMAN_TEXT if metric in wanted]
    controls = match_temperatures(config, run, human, resampled=False) if "distances" in metrics else {}
    measuring = predictors(config, run, human)
    measuring.measure(metrics, {name: (name, 1.0) for name in config.systems})
    matched = {name: (control.mle, control.temperature) for name, control in controls.items()}
    measuring.measure([metric for metric in metrics if metric != "entropy"], matched)


def _wanted(
    config: ExperimentConfig, human: HeldOut | None, of_continuations: Mapping[OfContinuations, str]
) -> list[TextMetric]:
    """The metrics to compute: those that the config names, else all that need nothing that it does not name.

    Args:
        of_continuations: what metrics of continuations lack.

    Raises:
        InputError: a metric that it names lacks something.
    """
    lacking: dict[TextMetric, str] = {}
    if human is None:
        lacking |= dict.fromkeys(ON_HUMAN_TEXT, "human text; set evaluation.texts.held_out")
    lacking |= {name: of_continuations[name] for name in OF_CONTINUATIONS if name in of_continuations}
    options = config.text_metrics
    if options.reference_model is None:
        names: tuple[TextMetric, ...] = ("distances", "oracle_perplexity")
        lacking |= dict.fromkeys(names, "a reference model; set evaluation.texts.reference_model")
    for metric in options.metrics or ():
        if metric in lacking:
            raise InputError(f"evaluation.texts.metrics: {metric} needs {lacking[metric]}")
    if "mauve" in lacking and "rouge" not in lacking and not options.metrics:
        say(f"note: no MAUVE: it needs {lacking['mauve']}")
    return options.metrics or [metric for metric in (*ON_HUMAN_TEXT, *OF_CONTINUATIONS) if metric not in lacking]


# How a row is told, in this order.
_SHOWN: Mapping[str, str] = {
    "perplexity": "perplexity {value:.2f} ({n:,} texts, {tokens:,} tokens)",
    "entropy": "entropy {value:.3f} nats",
    "forward_cross_entropy": "cross-entropy {value:.3f} forward and {reverse:.3f} reverse",
    "oracle_perplexity": "oracle perplexity {value:.2f}",
    "mauve": "MAUVE {value:.3f} ({n:,} texts)",
    "rougeL": "ROUGE-L {value:.3f}",
    "distinct_2": "distinct-2 {value:.3f}",
}


def metrics_text(metrics: Metrics, run: RunDirectory) -> str:
    """The numbers, a line a system and a line a task of a system, and where they are."""
    lines = []
    for system, rows in metrics.texts.items():
        reverse = rows.get("reverse_cross_entropy")
        parts = [
            form.format(
                value=row.value,
                n=row.n or 0,
                tokens=row.details.tokens,
                reverse=math.nan if reverse is None else reverse.value,
            )
            for metric, form in _SHOWN.items()
            if (row := rows.get(metric)) and row.value is not None
        ]
        if parts:
            lines.append(f"{system}: {', '.join(parts)}")
    lines += [_task_line(row) for rows in metrics.tasks.values() for row in rows.values() if row.value is not None]
    by_task: dict[tuple[str, str], list[str]] = {}
    for row in metrics.measurements:
        if row.kind == "lm_eval" and row.value is not None:
            by_task.setdefault((row.system, row.task), []).append(f"{row.metric} {row.value:.4f}")
    lines += [f"{system}: lm-eval {task} {', '.join(values)}" for (system, task), values in by_task.items()]
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])


def _task_line(row: Measurement) -> str:
    interval = "" if row.interval is None else f"95 % CI {row.interval[0]:.1f}–{row.interval[1]:.1f}"
    floor = row.details.floor
    alone = "" if floor is None else f"; retrieval alone {floor:.1f}"
    return f"{row.system}: {row.task} {row.value:.1f} % of {row.n:,} rows ({interval}{alone})"
