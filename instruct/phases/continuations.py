"""The prefixes that a run's config names, continued by its systems. What is done is not done again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.data.prefixes import PrefixSet
from instruct.generation.continuations import continue_texts
from instruct.generation.prompts import config_prefixes
from instruct.phases.systems import system_folders, weights_identity
from instruct.run.directory import RunDirectory

Sampled = Mapping[str, tuple[Path | None, float]]


def continue_prefixes(config: ExperimentConfig, run: RunDirectory, systems: Sampled | None = None) -> dict[str, Path]:
    """Continue the prefixes of `config.continuations`; one engine serves the base and all adapters.

    Args:
        systems: the folder (None: the base) and the temperature of each; None: all of the config's systems, at its
            temperature.

    Returns:
        The file of each system's continuations, see `read_continuations`.

    Raises:
        InputError: no prefixes, a system that is not trained yet, a prefix that does not fit the context.
    """
    options = config.continuations
    if options is None:
        raise InputError(f"{run.folder / 'config.yaml'}: has no continuations; set continuations.card or .files")
    if systems is None:
        folders = system_folders(config, run)
        systems = {name: (folder, options.generation.temperature) for name, folder in folders.items()}
    prefixes = config_prefixes(config.model, options)
    paths = {name: run.continuations / f"{name}.json" for name in systems}
    inputs = {
        name: _inputs(config, run, prefixes, folder, temperature) for name, (folder, temperature) in systems.items()
    }
    pending = {
        name: system
        for name, system in systems.items()
        if not (run.is_done(_step(name), inputs[name]) and paths[name].is_file())
    }
    if not pending:
        return paths
    ran_with = {
        **options.model_dump(mode="json"),
        "corpus": prefixes.name,
        "prefixes": len(prefixes.prefixes),
        "counts": prefixes.counts,
        "cut": prefixes.cut.model_dump(mode="json"),
        "model": config.model.model_dump(mode="json"),
    }
    with contextlib.ExitStack() as stack:
        results = {name: stack.enter_context(run.step(_step(name), inputs[name], config=ran_with)) for name in pending}
        stats = continue_texts(config.model, pending, prefixes, options, run.continuations, config.cluster)
        for name, found in results.items():
            found |= {**stats[name].record(), "temperature": pending[name][1], "sha256": sha256_of(paths[name])}
    for name, each in stats.items():
        if each.empty:
            say(f"note      {name}: {each.empty:,} of {each.n:,} continuations are empty")
    return paths


def _step(name: str) -> str:
    return f"continuations/{name}"


def _inputs(
    config: ExperimentConfig, run: RunDirectory, prefixes: PrefixSet, folder: Path | None, temperature: float
) -> dict[str, Any]:
    options = config.continuations
    assert options
    generation = options.generation.affecting("continuations")
    del generation["temperature"]  # a control has another
    return {
        "weights": weights_identity(config, run, folder, options.generation.engine),
        "temperature": temperature,
        "prefixes": prefixes.sha256,
        "samples": options.samples,
        "seeds": options.seeds,
        "generation": generation,
        "model": {"dtype": config.model.dtype, "quantization": config.model.quantization},
    }
