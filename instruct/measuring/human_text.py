"""How the systems of a run predict human text: perplexity, entropy, distances from a reference model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from instruct.base.models import ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.texts.distances import check_vocabularies, distances, mean_distances
from instruct.measuring.texts.entropy import entropies, entropy
from instruct.measuring.texts.held_out import HeldOut, Window, windows
from instruct.measuring.texts.options import TextMetricOptions
from instruct.measuring.texts.perplexity import likelihoods, perplexity
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Number, PartResult, measure

OnHumanText = Literal["perplexity", "entropy", "distances"]
ON_HUMAN_TEXT: tuple[OnHumanText, ...] = ("perplexity", "entropy", "distances")
# MLE's temperatures on its way through the plane of precision and recall.
CURVE = (0.6, 0.7, 0.8, 0.9, 1.1, 1.25)


@dataclass(frozen=True)
class Predictors:
    """The systems of a run, which predict human text.

    Attributes:
        model, folders: their base, and the folder of each one's weights (None: the base).
        mle: those that are trained by maximum likelihood.
        temperature: that their continuations are sampled at.
    """

    run: RunDirectory
    model: ModelOptions
    folders: Mapping[str, Path | None]
    mle: Sequence[str]
    temperature: float
    human: HeldOut
    options: TextMetricOptions

    def inputs(self, model: ForwardModel) -> dict[str, Any]:
        """What every metric of a system is measured from, as a step's inputs."""
        made_from: dict[str, Any] = {
            "weights": model.identity,
            "dtype": [self.model.dtype, self.model.quantization],
            "texts": self.human.sha256,
            "max_length": self.options.max_length,
        }
        return made_from if model.temperature == 1 else made_from | {"at": model.temperature}

    def windows(self, model: ForwardModel) -> list[Window]:
        """The human text as a model reads it."""
        return windows(model, self.human, self.options.max_length)

    def measure(self, metrics: Sequence[OnHumanText], systems: Mapping[str, tuple[str, float]]) -> None:
        """Measure systems one after another; adapters share their base.

        Args:
            systems: the system whose weights each has, and the temperature of its distributions: of a control, MLE's
                and its own; of others, itself and 1.

        Raises:
            InputError: the reference model has another vocabulary.
        """
        options = self.options.reference_model if "distances" in metrics else None
        reference = open_model(options) if options else None
        model: ForwardModel | None = None
        for system, (trained, temperature) in systems.items():
            model = replace(open_model(self.model, self.folders[trained], like=model), temperature=temperature)
            if reference:
                check_vocabularies(reference, model)
            one = _Predictor(self, model, reference, [1.0, *CURVE] if system in self.mle else [1.0])
            for metric in metrics:
                made_with = self.options.model_dump(mode="json")
                measure(self.run, metric, system, one.inputs(metric), partial(one.measured, metric), config=made_with)
        for opened in (model, reference):
            if opened:
                opened.close()


@dataclass(frozen=True)
class _Predictor:
    """One system, and the temperatures at which its distances are measured."""

    of: Predictors
    model: ForwardModel
    reference: ForwardModel | None
    temperatures: list[float]
    _windows: list[Window] = field(default_factory=list)

    def inputs(self, metric: OnHumanText) -> dict[str, Any]:
        made_from = self.of.inputs(self.model)
        if metric == "entropy":
            made_from["temperature"] = self.of.temperature
        if metric == "distances":
            options = self.of.options.reference_model
            assert self.reference
            assert options
            made_from["reference"] = [self.reference.identity, options.dtype, options.quantization]
            made_from["temperatures"] = self.temperatures
        return made_from

    def measured(self, metric: OnHumanText) -> PartResult:
        human, model = self.of.human, self.model
        if not self._windows:
            self._windows.extend(self.of.windows(model))
        if metric == "perplexity":
            values = likelihoods(model, human, self._windows)
            return self._by_text(perplexity(values), nats=values.nats, tokens=values.tokens)
        if metric == "entropy":
            sums = entropies(model, human, self._windows, [self.of.temperature])
            return self._by_text(entropy(sums, 0, self.of.temperature), nats=sums.nats[0], tokens=sums.tokens)
        options = self.of.options.reference_model
        assert self.reference
        assert options
        at = distances(self.reference, model, human, self._windows, self.temperatures)
        return self._by_text(mean_distances(at, self.temperatures, options.name, model.temperature), **at[0])

    def _by_text(self, numbers: list[Number], **columns: np.ndarray) -> PartResult:
        """With the values of each text; a text without a token has none."""
        values = {
            name: [None if np.isnan(value) else value for value in column.tolist()] for name, column in columns.items()
        }
        return PartResult(numbers, {"id": self.of.human.ids, **values})
