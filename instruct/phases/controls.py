"""The control of a comparison of sampled texts: MLE, sampled at the temperature that gives it another system's entropy.

An objective that merely sharpens a model gives better samples by any metric that rewards likely text, and a temperature
does the same for nothing. What a system gains over its control is more than sharpening.
"""

from __future__ import annotations

from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.engines.forward import open_model
from instruct.measuring.metrics import merge_metrics, metric_step, read_metrics
from instruct.measuring.texts.entropy import entropies, matching_temperatures
from instruct.measuring.texts.held_out import HeldOut
from instruct.measuring.texts.model import Entropy, Matched, SystemTexts
from instruct.phases.human_text import Measuring, human_text, measure_on_human_text, sampling_temperature
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory


def control_name(system: str) -> str:
    """The name of a system's control."""
    return f"mle-matched-{system}"


def controls_of(config: ExperimentConfig) -> dict[str, str]:
    """The MLE system that each system with another objective is compared with: that of its seed, else the first."""
    mle = {name: system for name, system in config.trained.items() if system.objective == "mle"}
    found = {}
    for name in _compared(config) if mle else ():
        same = [each for each, options in mle.items() if options.seed == config.systems[name].seed]
        found[name] = (same or list(mle))[0]
    return found


def _compared(config: ExperimentConfig) -> list[str]:
    return [name for name, system in config.trained.items() if system.objective != "mle"]


def with_controls(config: ExperimentConfig, run: RunDirectory) -> dict[str, tuple[Path | None, float]]:
    """What continues the prefixes: every system at the config's temperature, and each control at its own.

    Raises:
        InputError: as `match_temperatures`.
    """
    folders, temperature = system_folders(config, run), sampling_temperature(config)
    controls = match_temperatures(config, run, human_text(config))
    sampled = {name: (folder, temperature) for name, folder in folders.items()}
    return sampled | {name: (folders[each.mle], each.temperature) for name, each in controls.items()}


def match_temperatures(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut | None, resampled: bool = True
) -> dict[str, Matched]:
    """The controls of a run by their names: entropies are measured first, then temperatures are looked for.

    What is measured is in metrics.json; why a system has no control, too.

    Args:
        human: text that entropies are measured on; None: there is none.
        resampled: whether a control whose temperature has changed is sampled again afterwards.

    Raises:
        InputError: a system is not trained, no temperature has its entropy, or a control was sampled at another one.
    """
    compared = _compared(config)
    problem = _problem(config, human)
    if problem is not None or human is None:
        for name in compared:
            merge_metrics(run, "texts", name, SystemTexts(no_control=problem))
        if compared:
            say(f"note: no matched-temperature control: {problem}")
        return {}
    pairs = controls_of(config)
    measure_on_human_text(config, run, human, ["entropy"], compared)
    measured: dict[str, Entropy | None] = {name: texts.entropy for name, texts in read_metrics(run).texts.items()}
    targets = {name: each.entropy for name in compared if (each := measured[name])}
    controls: dict[str, Matched] = {}
    for mle in dict.fromkeys(pairs.values()):
        own = {name: targets[name] for name in compared if pairs[name] == mle}
        controls |= _controls(config, run, human, mle, own)
    if not resampled:
        _check_sampled(run, controls)
    for name in compared:
        merge_metrics(run, "texts", name, SystemTexts(no_control=None))
        merge_metrics(run, "texts", control_name(name), SystemTexts(matched=controls[control_name(name)]))
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


def _problem(config: ExperimentConfig, human: HeldOut | None) -> str | None:
    """Why a run has no controls."""
    if not config.text_metrics.matched_temperature:
        return "evaluation.texts.matched_temperature is false"
    if sampling_temperature(config) == 0:
        return "the systems decode greedily"
    if config.continuations and config.continuations.generation.engine == "server":
        return "a server has the systems, so their entropies cannot be measured here"
    if not controls_of(config):
        return "no system has the objective mle"
    if human is None:
        return "there is no human text to measure entropies on; set evaluation.texts.held_out"
    return None


def _controls(
    config: ExperimentConfig, run: RunDirectory, human: HeldOut, mle: str, targets: dict[str, float]
) -> dict[str, Matched]:
    """The controls that one MLE system gives, by their names; `targets`: entropies by system."""
    model = open_model(config.model, system_folders(config, run)[mle])
    measuring = Measuring(config, human, model)
    step, inputs = metric_step("matched", mle), measuring.inputs("matched") | {"targets": targets}
    if not run.is_done(step, inputs):
        with run.step(step, inputs) as results:
            temperatures = matching_temperatures(
                lambda asked: entropies(model, human, measuring.windows, asked).means, targets
            )
            for system, (temperature, reached) in temperatures.items():
                control = Matched(
                    mle=mle,
                    system=system,
                    system_temperature=sampling_temperature(config),
                    temperature=temperature,
                    system_entropy=targets[system],
                    entropy=reached,
                )
                results[control_name(system)] = control.model_dump(mode="json")
    model.close()
    recorded = run.manifest()["steps"][step]["results"]
    controls = {name: Matched.model_validate(recorded[name]) for name in map(control_name, targets)}
    for name, control in controls.items():
        say(
            f"control   {name}: {mle} at temperature {control.temperature:.3f} has an entropy of {control.entropy:.3f} "
            f"nats, {control.system} one of {control.system_entropy:.3f}"
        )
    return controls
