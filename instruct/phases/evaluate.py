"""The evaluate phase: every number that a run's config asks for, on which human text, and which system controls which.

What is done is not done again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from instruct.analysis.clusters import repeats
from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.data.prefixes import PrefixSet
from instruct.generation.continuations import config_prefixes
from instruct.measuring.human_text import ON_HUMAN_TEXT, Matched, Predictors, match_controls, record_no_control
from instruct.measuring.options import TextMetric, TextMetricOptions
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
from instruct.reporting.digits import number
from instruct.reporting.texts import METRICS
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Metrics, metrics_path, read_metrics
from instruct.training.options import SystemOptions


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
    options = config.text_metrics
    measuring = predictors(config, run)
    wanted = _wanted(options, measuring is not None, lacking_of_continuations(run))
    tasks = config.evaluation.tasks if config.evaluation else None
    if not wanted and not tasks:
        raise InputError(
            f"{run.folder / 'config.yaml'}: nothing to evaluate; name held-out text in "
            "evaluation.texts.held_out.files, or tasks in evaluation.tasks.names"
        )
    if measuring:
        metrics = [metric for metric in ON_HUMAN_TEXT if metric in wanted]
        measuring.measure(metrics, {name: (name, 1.0) for name in config.systems})
        if "distances" in metrics:
            controls = match_temperatures(config, run, measuring, resampled=False)
            matched = {name: (control.mle, control.temperature) for name, control in controls.items()}
            measuring.measure([metric for metric in metrics if metric != "entropy"], matched)
    measure_continuations(options, run, [metric for metric in OF_CONTINUATIONS if metric in wanted])
    if tasks:
        if config.cluster:
            say("note: tasks are asked on this machine, not on the cluster")
        rendering = config.data.rendering(run.day)
        evaluate_tasks(tasks, run, config.model, system_folders(config.systems, run), rendering)
    return read_metrics(run)


def _wanted(
    options: TextMetricOptions, human_text: bool, of_continuations: Mapping[OfContinuations, str]
) -> list[TextMetric]:
    """The metrics to compute: those that the config names, else all that need nothing that it does not name.

    Args:
        human_text: whether there is any.
        of_continuations: what metrics of continuations lack.

    Raises:
        InputError: a metric that it names lacks something.
    """
    lacking: dict[TextMetric, str] = {}
    if not human_text:
        lacking |= dict.fromkeys(ON_HUMAN_TEXT, "human text; set evaluation.texts.held_out")
    lacking |= {name: of_continuations[name] for name in OF_CONTINUATIONS if name in of_continuations}
    if options.reference_model is None:
        names: tuple[TextMetric, ...] = ("distances", "oracle_perplexity")
        lacking |= dict.fromkeys(names, "a reference model; set evaluation.texts.reference_model")
    for metric in options.metrics or ():
        if metric in lacking:
            raise InputError(f"evaluation.texts.metrics: {metric} needs {lacking[metric]}")
    if "mauve" in lacking and "rouge" not in lacking and not options.metrics:
        say(f"note: no MAUVE: it needs {lacking['mauve']}")
    return options.metrics or [metric for metric in (*ON_HUMAN_TEXT, *OF_CONTINUATIONS) if metric not in lacking]


def metrics_text(metrics: Metrics, run: RunDirectory) -> str:
    """The numbers, a line a system and a line a task of a system, and where they are."""
    lines = []
    for system, rows in metrics.texts.items():
        values = [
            f"{traits.label} {number(row.value, row.interval)}"
            for metric, traits in METRICS.items()
            if (row := rows.get(metric)) and row.value is not None
        ]
        if values:
            lines.append(f"{system}: {', '.join(values)}")
    by_task: dict[tuple[str, str], list[str]] = {}
    for row in metrics.measurements:
        if row.kind == "lm_eval" and row.value is not None:
            by_task.setdefault((row.system, row.task), []).append(f"{row.metric} {row.value:.4f}")
    lines += [f"{system}: lm-eval {task} {', '.join(values)}" for (system, task), values in by_task.items()]
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])


def predictors(config: ExperimentConfig, run: RunDirectory) -> Predictors | None:
    """What predicts the human text that models are compared on; None: the config names none.

    Raises:
        InputError: texts that cannot be read, or a system that is not trained.
    """
    options, continuations = config.text_metrics, config.continuations
    if options.held_out:
        human = read_held_out(options.held_out)
    elif continuations and (known := _references(config_prefixes(config.model, continuations))):
        human = known
    else:
        return None
    return Predictors(
        run=run,
        model=config.model,
        folders=system_folders(config.systems, run),
        mle=[name for name, system in config.systems.items() if system.objective == "mle"],
        temperature=continuations.generation.temperature if continuations else 1.0,
        human=human,
        options=options,
    )


def _references(prefixes: PrefixSet) -> HeldOut | None:
    """What people wrote after the prefixes, of those where it is known."""
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


def controls_of(systems: Mapping[str, SystemOptions]) -> dict[str, str]:
    """The MLE system that each system with another objective is compared with: that of its seed, else the first."""
    mle = {name: system for name, system in systems.items() if system.objective == "mle"}
    pairs = {}
    for name in _compared(systems) if mle else ():
        same = [other for other, options in mle.items() if options.seed == systems[name].seed]
        pairs[name] = (same or list(mle))[0]
    return pairs


def _compared(systems: Mapping[str, SystemOptions]) -> list[str]:
    """The systems that were trained, here or elsewhere, with another objective than MLE."""
    return [name for name, system in systems.items() if system.adapter or system.objective not in ("mle", "none")]


def match_temperatures(
    config: ExperimentConfig, run: RunDirectory, measuring: Predictors | None, resampled: bool = True
) -> dict[str, Matched]:
    """The controls of a run by their names, see `match_controls`; why a system has none is in metrics.json, too.

    Args:
        measuring: see `predictors`.

    Raises:
        InputError: a control was sampled at another temperature.
    """
    generation = config.continuations.generation if config.continuations else None
    controls = controls_of(config.systems)
    if not config.text_metrics.matched_temperature:
        problem = "evaluation.texts.matched_temperature is false"
    elif generation and generation.temperature == 0:
        problem = "the systems decode greedily"
    elif generation and generation.engine == "server":
        problem = "a server has the systems, so their entropies cannot be measured here"
    elif not controls:
        problem = "no system has the objective mle"
    elif measuring is None:
        problem = "there is no human text to measure entropies on; set evaluation.texts.held_out"
    else:
        return match_controls(measuring, controls, resampled)
    compared = _compared(config.systems)
    for name in compared:
        record_no_control(run, name, problem)
    if compared:
        say(f"note: no matched-temperature control: {problem}")
    return {}
