"""The human text of a run's config, and which system is the control of which."""

from __future__ import annotations

from pathlib import Path

from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.generation.prompts import config_prefixes
from instruct.measuring.controls import Matched, match_controls, record_no_control
from instruct.measuring.human_text import Predictors
from instruct.measuring.texts.held_out import HeldOut, read_held_out
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory


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
    known = [(prefix.id, prefix.text, prefix.reference) for prefix in prefixes.prefixes if prefix.reference]
    if not known:
        return None
    ids, texts, references = (list(column) for column in zip(*known, strict=True))
    return HeldOut(ids, texts, references, whole=False)


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
    return [name for name, system in config.trained.items() if system.objective != "mle"]


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
