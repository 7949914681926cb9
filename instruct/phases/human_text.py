"""How the systems of a run predict human text: perplexity, entropy, distances from a reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.prompts import config_prefixes
from instruct.measuring.metrics import is_measured, merge_metrics, metric_step, read_metrics, write_values
from instruct.measuring.texts.distances import NAMES, check_vocabularies, distances, mean_distances
from instruct.measuring.texts.entropy import entropies, entropy
from instruct.measuring.texts.held_out import HeldOut, Window, read_held_out, windows
from instruct.measuring.texts.model import Distances, SystemTexts
from instruct.measuring.texts.perplexity import likelihoods, perplexity
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory

OnHumanText = Literal["perplexity", "entropy", "distances"]
# MLE's temperatures on its way through the plane of precision and recall.
CURVE = (0.6, 0.7, 0.8, 0.9, 1.1, 1.25)
ON_HUMAN_TEXT: tuple[OnHumanText, ...] = ("perplexity", "entropy", "distances")


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
    known = [(each.id, each.text, each.reference) for each in prefixes.prefixes if each.reference]
    if not known:
        return None
    ids, texts, references = (list(each) for each in zip(*known, strict=True))
    return HeldOut(ids, texts, references, whole=False, skipped=0, name=prefixes.name)


def sampling_temperature(config: ExperimentConfig) -> float:
    """The temperature that the systems' continuations are sampled at."""
    return config.continuations.generation.temperature if config.continuations else 1.0


def measure_on_human_text(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut, metrics: Sequence[OnHumanText], systems: Sequence[str]
) -> None:
    """Measure how systems predict human text, one after another; adapters share their base.

    Args:
        systems: of the config, or controls that have been matched, which are measured at their temperature.

    Raises:
        InputError: a system is not trained, or the reference model has another vocabulary.
    """
    options, folders = config.text_metrics, system_folders(config, run)
    reference = open_model(options.reference_model) if options.reference_model and "distances" in metrics else None
    matched = {name: texts.matched for name, texts in read_metrics(run).texts.items() if texts.matched}
    model: ForwardModel | None = None
    for system in systems:
        control = matched.get(system)
        model = open_model(config.model, folders[control.mle if control else system], like=model)
        model = replace(model, temperature=control.temperature if control else 1.0)
        if reference:
            check_vocabularies(reference, model)
        measuring = Measuring(config, human, model, reference, is_mle=is_mle(config, system))
        for metric in metrics:
            inputs = measuring.inputs(metric)
            if is_measured(run, metric, system, inputs):
                continue
            made_with = config.text_metrics.model_dump(mode="json")
            with run.step(metric_step(metric, system), inputs, config=made_with) as results:
                found, values = measuring.measure(metric)
                write_values(run, metric, system, {"id": human.ids, **values})
                merge_metrics(run, "texts", system, SystemTexts.model_validate({metric: found}))
                results |= found.model_dump(mode="json")
    for each in (model, reference):
        if each:
            each.close()


def is_mle(config: ExperimentConfig, system: str) -> bool:
    """Whether a system is trained by maximum likelihood, and no control."""
    return system in config.systems and config.systems[system].objective == "mle"


class Measuring:
    """One system on human text."""

    def __init__(
        self,
        config: ExperimentConfig,
        human: HeldOut,
        model: ForwardModel,
        reference: ForwardModel | None = None,
        is_mle: bool = False,
    ) -> None:
        self.config, self.human, self.model, self.reference = config, human, model, reference
        self._temperatures = [1.0, *CURVE] if is_mle else [1.0]
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
        if self.model.temperature != 1:
            made_from["at"] = self.model.temperature
        if metric == "entropy":
            made_from["temperature"] = sampling_temperature(self.config)
        if metric == "distances":
            assert self.reference
            options = self.config.text_metrics.reference_model or self.config.model
            made_from["reference"] = [self.reference.identity, options.dtype, options.quantization]
            made_from["temperatures"] = self._temperatures
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
        of_texts, *curve = distances(self.reference, self.model, self.human, self.windows, self._temperatures)
        found = Distances(
            **mean_distances(of_texts, self.model.temperature).model_dump(),
            reference=name,
            texts=int(np.isfinite(of_texts[NAMES[0]]).sum()),
            curve=[mean_distances(each, at) for at, each in zip(self._temperatures[1:], curve, strict=True)],
        )
        # A text without a token has none.
        return found, {key: [None if np.isnan(value) else value for value in each] for key, each in of_texts.items()}
