"""How the systems of a run predict human text: perplexity, entropy, distances from a reference model; and the control
of a comparison of sampled texts: MLE, sampled at the temperature that gives it another system's entropy.

An objective that merely sharpens a model gives better samples by any metric that rewards likely text, and a temperature
does the same for nothing. What a system gains over its control is more than sharpening.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.output import say, warn
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.options import TextMetricOptions
from instruct.measuring.predictions import (
    COLDEST,
    HOTTEST,
    HeldOut,
    Reading,
    check_vocabularies,
    distances,
    entropy,
    matching_temperatures,
    mean_entropies,
    perplexity,
)
from instruct.run.directory import RunDirectory
from instruct.run.measurements import PartResult, measure, metric_step, numbers, read_metrics, write_numbers
from instruct.training.options import control_name

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
            "dtype": [model.engine.dtype, self.model.quantization],
            "texts": self.human.sha256,
            "max_length": self.options.max_length,
        }
        return made_from if model.temperature == 1 else made_from | {"at": model.temperature}

    def measure(self, metrics: Sequence[OnHumanText], systems: Mapping[str, tuple[str, float]]) -> None:
        """Measure systems one after another; adapters share their base.

        Args:
            systems: the system whose weights each has, and the temperature of its distributions: of a control, MLE's
                and its own; of others, itself and 1.

        Raises:
            InputError: the reference model has another vocabulary.
        """
        options, named = self.options, self.options.reference_model
        reference = open_model(named) if named and "distances" in metrics else None
        model: ForwardModel | None = None
        for system, (trained, temperature) in systems.items():
            model = replace(open_model(self.model, self.folders[trained], like=model), temperature=temperature)
            reading = Reading(model, self.human, options.max_length)
            ways: dict[OnHumanText, tuple[dict[str, Any], Callable[[], PartResult]]] = {
                "perplexity": ({}, partial(perplexity, reading)),
                "entropy": ({"temperature": self.temperature}, partial(entropy, reading, self.temperature)),
            }
            if reference and named:
                check_vocabularies(reference, model)
                at = [1.0, *CURVE] if system in self.mle else [1.0]
                made_from = [reference.identity, reference.engine.dtype, named.quantization]
                inputs = {"reference": made_from, "temperatures": at}
                ways["distances"] = inputs, partial(distances, reading, reference, named.name, at)
            for metric in metrics:
                inputs, compute = ways[metric]
                made_with = options.model_dump(mode="json")
                measure(self.run, metric, system, self.inputs(model) | inputs, compute, config=made_with)
        for opened in (model, reference):
            if opened:
                opened.close()


class Matched(BaseModel):
    """What the control `mle-matched-SYSTEM` is: an MLE system at the temperature at which its entropy is a system's.

    Attributes:
        mle, system: their names.
        system_temperature, temperature: at which the system and the control are sampled.
        system_entropy, entropy: mean entropies on human text at these temperatures, in nats per token.
    """

    model_config = ConfigDict(extra="forbid")

    mle: str
    system: str
    system_temperature: float
    temperature: float
    system_entropy: float
    entropy: float


def record_no_control(run: RunDirectory, system: str, reason: str) -> None:
    """Write into metrics.json why a system has no control."""
    write_numbers(run, "matched", system, numbers({"matched_temperature": None}, None, reason=reason))


def match_controls(predictors: Predictors, pairs: Mapping[str, str], resampled: bool = True) -> dict[str, Matched]:
    """The controls of systems by their names: entropies are measured first, then temperatures are looked for.

    Args:
        pairs: the MLE system that each system is compared with.
        resampled: whether a control whose temperature has changed is sampled again afterwards.

    Raises:
        InputError: a control was sampled at another temperature.
    """
    run = predictors.run
    predictors.measure(["entropy"], {name: (name, 1.0) for name in pairs})
    metrics = read_metrics(run)
    targets = {name: value for name in pairs if (value := metrics.value(name, "entropy")) is not None}
    controls: dict[str, Matched] = {}
    for mle in dict.fromkeys(pairs.values()):
        own = {name: target for name, target in targets.items() if pairs[name] == mle}
        controls |= (matched := _matched(predictors, mle, own))
        for name in (name for name in own if control_name(name) not in matched):
            entropy = f"its entropy of {own[name]:.3f} nats"
            reason = f"{entropy} is that of {mle} at no temperature between {COLDEST} and {HOTTEST}"
            record_no_control(run, name, reason)
            warn(f"no control of {name}: {reason}")
    if not resampled:
        _check_sampled(run, controls)
    for name, control in controls.items():
        write_numbers(run, "matched", control.system, [])  # which may have had a reason for none
        about = control.model_dump(mode="json", exclude={"temperature"})
        write_numbers(run, "matched", name, numbers({"matched_temperature": control.temperature}, None, **about))
    return controls


def _matched(predictors: Predictors, mle: str, targets: dict[str, float]) -> dict[str, Matched]:
    """The controls that one MLE system gives, by their names; `targets`: entropies by system."""
    run = predictors.run
    model = open_model(predictors.model, predictors.folders[mle])
    step, inputs = metric_step("matched", mle), predictors.inputs(model) | {"targets": targets}
    if not run.is_done(step, inputs):
        reading = Reading(model, predictors.human, predictors.options.max_length)
        with run.step(step, inputs) as recorded:
            temperatures = matching_temperatures(partial(mean_entropies, reading), targets)
            for system, (temperature, reached) in temperatures.items():
                recorded[control_name(system)] = {
                    "mle": mle,
                    "system": system,
                    "system_temperature": predictors.temperature,
                    "temperature": temperature,
                    "system_entropy": targets[system],
                    "entropy": reached,
                }
    model.close()
    known = run.manifest()["steps"][step]["results"]
    controls = {name: Matched.model_validate(known[name]) for name in map(control_name, targets) if name in known}
    for name, control in controls.items():
        say(
            f"control   {name}: {mle} at temperature {control.temperature:.3f} has an entropy of {control.entropy:.3f} "
            f"nats, {control.system} one of {control.system_entropy:.3f}"
        )
    return controls


def _check_sampled(run: RunDirectory, controls: dict[str, Matched]) -> None:
    """Refuse continuations of a control at another temperature than its own, which a change of the human text moves."""
    steps = run.manifest()["steps"]
    for name, control in controls.items():
        sampled = steps.get(f"continuations/{name}", {}).get("inputs", {}).get("temperature", control.temperature)
        if sampled != control.temperature:
            raise InputError(
                f"{run.continuations / name}.json: was sampled at temperature {sampled:.3f}, but with this human text "
                f"the control's is {control.temperature:.3f}; first run `instruct generate {run.folder}` with the same "
                "flags"
            )
