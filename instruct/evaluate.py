"""`instruct evaluate`: numbers about the systems of a run, without a judge. What is done is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from pydantic import BaseModel

from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.errors import InputError
from instruct.metrics import (
    Metrics,
    is_measured,
    merge_metrics,
    metric_step,
    metrics_path,
    read_metrics,
    write_values,
)
from instruct.runs import RunDirectory
from instruct.systems import system_folders
from instruct.text_metrics.distances import check_vocabularies, distances, mean_distances
from instruct.text_metrics.entropy import entropies, entropy
from instruct.text_metrics.held_out import HeldOut, Window, read_held_out, windows
from instruct.text_metrics.model import SystemTexts
from instruct.text_metrics.options import TextMetric, TextMetricOptions
from instruct.text_metrics.perplexity import likelihoods, perplexity

OnHumanText = Literal["perplexity", "entropy", "distances"]
_ON_HUMAN_TEXT: tuple[OnHumanText, ...] = ("perplexity", "entropy", "distances")


def evaluate_run(config: ExperimentConfig, run: RunDirectory) -> Metrics:
    """Compute what the config asks for and write it into the run's metrics.json.

    Raises:
        InputError: nothing to evaluate, a system that is not trained, texts that cannot be read.
    """
    options = text_options(config)
    human = human_text(config)
    wanted = _wanted(options, human)
    if not wanted:
        raise InputError(
            f"{run.folder / 'config.yaml'}: nothing to evaluate; name held-out text with "
            "--evaluation.texts.held_out.files FILE"
        )
    on_human_text = [metric for metric in _ON_HUMAN_TEXT if metric in wanted]
    if human and on_human_text:
        measure_on_human_text(config, run, human, on_human_text, list(config.systems))
    return read_metrics(run)


def text_options(config: ExperimentConfig) -> TextMetricOptions:
    """The config's options of metrics about texts, or their defaults."""
    return (config.evaluation.texts if config.evaluation else None) or TextMetricOptions()


def human_text(config: ExperimentConfig) -> HeldOut | None:
    """The human text that models are compared on; None: the config names none."""
    options = text_options(config)
    return read_held_out(options.held_out) if options.held_out else None


def sampling_temperature(config: ExperimentConfig) -> float:
    """The temperature that the systems' continuations are sampled at."""
    return 1.0


def _wanted(options: TextMetricOptions, human: HeldOut | None) -> list[TextMetric]:
    """The metrics to compute: those that the config names, else all that need nothing that it does not name.

    Raises:
        InputError: a metric that it names lacks something.
    """
    lacking: dict[TextMetric, str] = {}
    if human is None:
        lacking |= dict.fromkeys(_ON_HUMAN_TEXT, "human text; set evaluation.texts.held_out")
    if options.reference_model is None:
        lacking["distances"] = "a reference model; set evaluation.texts.reference_model"
    for metric in options.metrics or ():
        if metric in lacking:
            raise InputError(f"evaluation.texts.metrics: {metric} needs {lacking[metric]}")
    return options.metrics or [metric for metric in _ON_HUMAN_TEXT if metric not in lacking]


def measure_on_human_text(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut, metrics: Sequence[OnHumanText], systems: Sequence[str]
) -> None:
    """Measure how systems predict human text, one system after another; adapters share their base.

    Raises:
        InputError: a system is not trained, or the reference model has another vocabulary.
    """
    options, folders = text_options(config), system_folders(config, run)
    reference = open_model(options.reference_model) if options.reference_model and "distances" in metrics else None
    model: ForwardModel | None = None
    for system in systems:
        model = open_model(config.model, folders[system], like=model)
        if reference:
            check_vocabularies(reference, model)
        measuring = Measuring(config, human, model, reference)
        for metric in metrics:
            inputs = measuring.inputs(metric)
            if is_measured(run, metric, system, inputs):
                continue
            with run.step(metric_step(metric, system), inputs) as results:
                found, values = measuring.measure(metric)
                write_values(run, metric, system, {"id": human.ids, **values})
                merge_metrics(run, "texts", system, SystemTexts.model_validate({metric: found}))
                results |= found.model_dump(mode="json")
    for each in (model, reference):
        if each:
            each.close()


class Measuring:
    """One system on human text."""

    def __init__(
        self, config: ExperimentConfig, human: HeldOut, model: ForwardModel, reference: ForwardModel | None = None
    ) -> None:
        self.config, self.human, self.model, self.reference = config, human, model, reference
        self._windows: list[Window] | None = None

    @property
    def windows(self) -> list[Window]:
        if self._windows is None:
            self._windows = windows(self.model, self.human, text_options(self.config).max_length)
        return self._windows

    def inputs(self, metric: OnHumanText | Literal["matched"]) -> dict[str, Any]:
        """What a metric is measured from, as a step's inputs."""
        made_from: dict[str, Any] = {
            "weights": self.model.identity,
            "dtype": [self.config.model.dtype, self.config.model.quantization],
            "texts": self.human.sha256,
            "max_length": text_options(self.config).max_length,
        }
        if metric == "entropy":
            made_from["temperature"] = sampling_temperature(self.config)
        if metric == "distances":
            options = text_options(self.config).reference_model
            assert self.reference
            assert options
            made_from["reference"] = [self.reference.identity, options.dtype, options.quantization]
        return made_from

    def measure(self, metric: OnHumanText) -> tuple[BaseModel, dict[str, list[Any]]]:
        """A metric, and its values for each text."""
        if metric == "perplexity":
            values = likelihoods(self.model, self.human, self.windows)
            return perplexity(values), {"nats": values.nats.tolist(), "tokens": values.tokens.tolist()}
        if metric == "entropy":
            temperature = sampling_temperature(self.config)
            sums = entropies(self.model, self.human, self.windows, [temperature])
            return entropy(sums, 0, temperature), {"nats": sums.nats[0].tolist(), "tokens": sums.tokens.tolist()}
        assert self.reference
        name = cast("Any", text_options(self.config).reference_model).name
        found = distances(self.reference, self.model, self.human, self.windows)
        columns = {key: [None if value != value else value for value in each.tolist()] for key, each in found.items()}
        return mean_distances(found, name), columns


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
        if parts:
            lines.append(f"{system}: {', '.join(parts)}")
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])
