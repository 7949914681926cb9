"""Where the weights of a run's systems are."""

from __future__ import annotations

from pathlib import Path

from instruct.config import ExperimentConfig
from instruct.errors import InputError
from instruct.runs import RunDirectory


def system_folders(config: ExperimentConfig, run: RunDirectory) -> dict[str, Path | None]:
    """The folder of each system's adapter or whole model; None: the untrained base.

    Raises:
        InputError: there is no system, or one is not trained yet.
    """
    if not config.systems:
        raise InputError(f"{run.folder / 'config.yaml'}: has no systems; add one under systems")
    found: dict[str, Path | None] = {}
    for name in config.systems:
        folder = run.adapters / name if name in config.trained else None
        if folder and not any(folder.glob("*.safetensors")):
            raise InputError(f"{folder}: no trained weights; train first: instruct train {run.folder / 'config.yaml'}")
        found[name] = folder
    return found
