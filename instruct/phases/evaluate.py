"""`instruct evaluate`: every number that a run's config asks for. What is done is not done again."""

from __future__ import annotations

from collections.abc import Mapping

from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.measuring.metrics import Metrics, metrics_path, read_metrics
from instruct.measuring.texts.held_out import HeldOut
from instruct.measuring.texts.options import TextMetric
from instruct.phases.controls import match_temperatures
from instruct.phases.evaluate_continuations import (
    OF_CONTINUATIONS,
    OfContinuations,
    lacking_of_continuations,
    measure_continuations,
)
from instruct.phases.evaluate_tasks import evaluate_tasks, task_lines
from instruct.phases.human_text import ON_HUMAN_TEXT, human_text, measure_on_human_text
from instruct.run.directory import RunDirectory


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
        on_human_text = [metric for metric in ON_HUMAN_TEXT if metric in wanted]
        controls = match_temperatures(config, run, human, resampled=False) if "distances" in wanted else {}
        measure_on_human_text(config, run, human, on_human_text, list(config.systems))
        measure_on_human_text(config, run, human, [each for each in on_human_text if each != "entropy"], list(controls))
    measure_continuations(config, run, [metric for metric in OF_CONTINUATIONS if metric in wanted])
    if tasks:
        evaluate_tasks(config, run, tasks)
    return read_metrics(run)


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


def metrics_text(metrics: Metrics, run: RunDirectory) -> str:
    """The numbers, a line a system, and where they are."""
    lines = []
    for system, texts in metrics.texts.items():
        parts = []
        if each := texts.perplexity:
            parts.append(f"perplexity {each.perplexity:.2f} ({each.texts:,} texts, {each.tokens:,} tokens)")
        if texts.entropy:
            parts.append(f"entropy {texts.entropy.entropy:.3f} nats")
        if texts.distances:
            parts.append(
                f"cross-entropy {texts.distances.forward_cross_entropy:.3f} forward and "
                f"{texts.distances.reverse_cross_entropy:.3f} reverse"
            )
        if texts.oracle_perplexity and texts.oracle_perplexity.perplexity is not None:
            parts.append(f"oracle perplexity {texts.oracle_perplexity.perplexity:.2f}")
        if texts.mauve:
            parts.append(f"MAUVE {texts.mauve.mauve.value:.3f} ({texts.mauve.texts:,} texts)")
        if texts.rouge:
            parts.append(f"ROUGE-L {texts.rouge.rougeL:.3f}")
        if texts.diversity and texts.diversity.distinct_2:
            parts.append(f"distinct-2 {texts.diversity.distinct_2.value:.3f}")
        if parts:
            lines.append(f"{system}: {', '.join(parts)}")
    lines += task_lines(metrics)
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])
