"""The evaluate phase: every number that a run's config asks for, on which human text, and which system controls which.

What is done is not done again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

from instruct.analysis.clusters import repeats
from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.generation.continuations import config_prefixes
from instruct.measuring.human_text import ON_HUMAN_TEXT, Matched, Predictors, match_controls, record_no_control
from instruct.measuring.options import TextMetric
from instruct.measuring.predictions import HeldOut, read_held_out
from instruct.measuring.sampled import (
    OF_CONTINUATIONS,
    OfContinuations,
    lacking_of_continuations,
    measure_continuations,
)
from instruct.measuring.tasks import evaluate_tasks
from instruct.phases.steps import Step
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Metrics, metrics_path, read_metrics


class Evaluating(Step):
    """Every system is measured without a judge."""

    name = "evaluate"

    def check(self, run: RunDirectory, phases: Collection[str]) -> None:
        evaluation = self.config.evaluation
        if self.name not in phases or evaluation is None:
            return
        if self.config.cluster and evaluation.tasks:
            raise InputError("cluster: tasks are asked on this machine alone; leave cluster out, or evaluation.tasks")
        steps = run.manifest()["steps"] if run.manifest_path.is_file() else ()
        controls = [name for name in steps if name.startswith("evaluate/matched/")]
        if controls and not self.config.text_metrics.matched_temperature:
            raise InputError(
                f"evaluation.texts.matched_temperature: is false, but {controls[0]} is finished, whose controls would "
                "stay; choose another `name`, or restore the value"
            )

    def make(self, run: RunDirectory, read: None) -> None:
        if self.config.evaluation:
            say(metrics_text(evaluate_run(self.config, run), run))


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
            f"{run.folder / 'config.yaml'}: nothing to evaluate; name held-out text in "
            "evaluation.texts.held_out.files, or tasks in evaluation.tasks.names"
        )
    if human:
        _measure_on_human_text(config, run, human, wanted)
    measure_continuations(config.text_metrics, run, [metric for metric in OF_CONTINUATIONS if metric in wanted])
    if tasks:
        if config.cluster:
            say("note: tasks are asked on this machine, not on the cluster")
        rendering = config.data.rendering(run.day)
        evaluate_tasks(tasks, run, config.model, system_folders(config, run), rendering)
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
    by_task: dict[tuple[str, str], list[str]] = {}
    for row in metrics.measurements:
        if row.kind == "lm_eval" and row.value is not None:
            by_task.setdefault((row.system, row.task), []).append(f"{row.metric} {row.value:.4f}")
    lines += [f"{system}: lm-eval {task} {', '.join(values)}" for (system, task), values in by_task.items()]
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])


def human_text(config: ExperimentConfig) -> HeldOut | None:
    """The human text that models are compared on; None: the config names none.

    Raises:
        InputError: texts that cannot be read.
    """
    if config.text_metrics.held_out:
        return read_held_out(config.text_metrics.held_out)
    if config.continuations is None:
        return None
    prefixes = config_prefixes(config.model, config.continuations)
    known = [prefix for prefix in prefixes.prefixes if prefix.reference]
    if not known:
        return None
    return HeldOut(
        [prefix.id for prefix in known],
        [prefix.text for prefix in known],
        [prefix.reference or "" for prefix in known],
        whole=False,
        clusters=repeats(
            {prefix.id: prefix.cluster or prefix.text for prefix in known}, any(prefix.cluster for prefix in known)
        ),
    )


def predictors(config: ExperimentConfig, run: RunDirectory, human: HeldOut) -> Predictors:
    """What predicts the human text.

    Raises:
        InputError: a system is not trained.
    """
    return Predictors(
        run=run,
        model=config.model,
        folders=system_folders(config, run),
        mle=[name for name, system in config.systems.items() if system.objective == "mle"],
        temperature=_temperature(config),
        human=human,
        options=config.text_metrics,
    )


def _temperature(config: ExperimentConfig) -> float:
    """The temperature that the systems' continuations are sampled at."""
    return config.continuations.generation.temperature if config.continuations else 1.0


def controls_of(config: ExperimentConfig) -> dict[str, str]:
    """The MLE system that each system with another objective is compared with: that of its seed, else the first."""
    mle = {name: system for name, system in config.trained.items() if system.objective == "mle"}
    pairs = {}
    for name in _compared(config) if mle else ():
        same = [other for other, options in mle.items() if options.seed == config.systems[name].seed]
        pairs[name] = (same or list(mle))[0]
    return pairs


def _compared(config: ExperimentConfig) -> list[str]:
    return [name for name, system in config.trained.items() if system.objective != "mle"] + [*config.elsewhere]


def with_controls(config: ExperimentConfig, run: RunDirectory) -> dict[str, tuple[Path | None, float]]:
    """What continues the prefixes: every system at the config's temperature, and each control at its own.

    Raises:
        InputError: as `match_temperatures`.
    """
    folders, temperature = system_folders(config, run), _temperature(config)
    controls = match_temperatures(config, run, human_text(config))
    sampled = {name: (folder, temperature) for name, folder in folders.items()}
    return sampled | {name: (folders[control.mle], control.temperature) for name, control in controls.items()}


def match_temperatures(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut | None, resampled: bool = True
) -> dict[str, Matched]:
    """The controls of a run by their names, see `match_controls`; why a system has none is in metrics.json, too.

    Args:
        human: text that entropies are measured on; None: there is none.

    Raises:
        InputError: a system is not trained, or a control was sampled at another temperature.
    """
    compared = _compared(config)
    problem = _problem(config, human)
    if problem is None and human is not None:
        return match_controls(predictors(config, run, human), controls_of(config), resampled)
    for name in compared:
        record_no_control(run, name, problem or "")
    if compared:
        say(f"note: no matched-temperature control: {problem}")
    return {}


def _problem(config: ExperimentConfig, human: HeldOut | None) -> str | None:
    """Why a run has no controls."""
    if not config.text_metrics.matched_temperature:
        return "evaluation.texts.matched_temperature is false"
    if _temperature(config) == 0:
        return "the systems decode greedily"
    if config.continuations and config.continuations.generation.engine == "server":
        return "a server has the systems, so their entropies cannot be measured here"
    if not controls_of(config):
        return "no system has the objective mle"
    if human is None:
        return "there is no human text to measure entropies on; set evaluation.texts.held_out"
    return None
