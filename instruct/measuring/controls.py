"""The control of a comparison of sampled texts: MLE, sampled at the temperature that gives it another system's entropy.

An objective that merely sharpens a model gives better samples by any metric that rewards likely text, and a temperature
does the same for nothing. What a system gains over its control is more than sharpening.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from instruct.base.errors import InputError
from instruct.base.output import say, warn
from instruct.engines.forward import open_model
from instruct.measuring.human_text import Predictors
from instruct.measuring.texts.entropy import COLDEST, HOTTEST, entropies, matching_temperatures
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metric_step, numbers, read_metrics, write_numbers


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


def control_name(system: str) -> str:
    """The name of a system's control."""
    return f"mle-matched-{system}"


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
            found = f"its entropy of {own[name]:.3f} nats"
            reason = f"{found} is that of {mle} at no temperature between {COLDEST} and {HOTTEST}"
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
        windows = predictors.windows(model)
        with run.step(step, inputs) as recorded:
            temperatures = matching_temperatures(
                lambda asked: entropies(model, predictors.human, windows, asked).means, targets
            )
            for system, (temperature, reached) in temperatures.items():
                control = Matched(
                    mle=mle,
                    system=system,
                    system_temperature=predictors.temperature,
                    temperature=temperature,
                    system_entropy=targets[system],
                    entropy=reached,
                )
                recorded[control_name(system)] = control.model_dump(mode="json")
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
