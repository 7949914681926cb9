"""How the systems of a run predict human text: perplexity, entropy, distances from a reference model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel

from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.metrics import is_measured, merge_metrics, metric_step, write_values
from instruct.runs import RunDirectory
from instruct.systems import system_folders
from instruct.text_metrics.distances import check_vocabularies, distances, mean_distances
from instruct.text_metrics.entropy import entropies, entropy
from instruct.text_metrics.held_out import HeldOut, Window, read_held_out, windows
from instruct.text_metrics.model import SystemTexts
from instruct.text_metrics.perplexity import likelihoods, perplexity

OnHumanText = Literal["perplexity", "entropy", "distances"]
ON_HUMAN_TEXT: tuple[OnHumanText, ...] = ("perplexity", "entropy", "distances")


def human_text(config: ExperimentConfig) -> HeldOut | None:
    """The human text that models are compared on; None: the config names none."""
    options = config.text_metrics
    return read_held_out(options.held_out) if options.held_out else None


def sampling_temperature(config: ExperimentConfig) -> float:
    """The temperature that the systems' continuations are sampled at."""
    return 1.0


def measure_on_human_text(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut, metrics: Sequence[OnHumanText], systems: Sequence[str]
) -> None:
    """Measure how systems predict human text, one system after another; adapters share their base.

    Raises:
        InputError: a system is not trained, or the reference model has another vocabulary.
    """
    options, folders = config.text_metrics, system_folders(config, run)
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
            self._windows = windows(self.model, self.human, self.config.text_metrics.max_length)
        return self._windows

    def inputs(self, metric: OnHumanText | Literal["matched"]) -> dict[str, Any]:
        """What a metric is measured from, as a step's inputs."""
        made_from: dict[str, Any] = {
            "weights": self.model.identity,
            "dtype": [self.config.model.dtype, self.config.model.quantization],
            "texts": self.human.sha256,
            "max_length": self.config.text_metrics.max_length,
        }
        if metric == "entropy":
            made_from["temperature"] = sampling_temperature(self.config)
        if metric == "distances":
            assert self.reference
            options = self.config.text_metrics.reference_model or self.config.model
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
        name = (self.config.text_metrics.reference_model or self.config.model).name
        found = distances(self.reference, self.model, self.human, self.windows)
        columns = {key: [None if value != value else value for value in each.tolist()] for key, each in found.items()}
        return mean_distances(found, name), columns
