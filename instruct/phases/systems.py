"""Where the weights of a run's systems are, and what they generated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.base.models import model_path
from instruct.base.output import warn
from instruct.config import ExperimentConfig
from instruct.run.directory import RunDirectory


def system_folders(config: ExperimentConfig, run: RunDirectory) -> dict[str, Path | None]:
    """The folder of each system's adapter or whole model; None: the untrained base.

    Raises:
        InputError: there is no system, or one is not trained yet.
    """
    if not config.systems:
        raise InputError(f"{run.folder / 'config.yaml'}: has no systems; add one under systems")
    folders: dict[str, Path | None] = {}
    for name in config.systems:
        folder = run.adapters / name if name in config.trained else None
        if folder and not any(folder.glob("*.safetensors")):
            raise InputError(f"{folder}: no trained weights; train first: instruct train {run.folder / 'config.yaml'}")
        folders[name] = folder
    return folders


def weights_identity(config: ExperimentConfig, run: RunDirectory, folder: Path | None, engine: str) -> str:
    """What identifies a system: a hash of its weights; of the base its hub id and commit, or its name on a server.

    Args:
        folder: see `system_folders`.
        engine: that answers.

    Raises:
        InputError: the weights have changed since they were trained.
    """
    from instruct.engines.weights import check_model, model_identity
    from instruct.training.train import check_weights

    if folder is not None:
        check_weights(run, folder.name)
        return sha256_of(min(folder.glob("*.safetensors")))
    if engine == "server":
        return config.model.name
    path = model_path(config.model.name)
    return model_identity(path, check_model(path, config.model.revision))


def changed_output(run: RunDirectory, path: Path) -> tuple[str, str]:
    """What is wrong with a file that was changed after it was generated, and what to do."""
    remedy = f"restore it, or delete it, and `instruct generate {run.folder}` writes it from the stored replies"
    return f"{path}: is not what was generated", remedy


def generated_files(run: RunDirectory, steps: Mapping[str, Mapping[str, Any]]) -> dict[Path, dict[str, Any]]:
    """The files of answers and continuations that finished steps wrote, with what was recorded of each."""
    recorded: dict[Path, dict[str, Any]] = {}
    for step, record in steps.items():
        kind, _, name = step.partition("/")
        if record["status"] == "done" and kind == "answers":
            recorded |= {run.outputs / f"{system}.json": about for system, about in record["results"].items()}
        elif record["status"] == "done" and kind == "continuations":
            recorded[run.continuations / f"{name}.json"] = record["results"]
    return recorded


def warn_of_changed_files(run: RunDirectory) -> None:
    """Say which answers and continuations were changed after they were generated; they are used as they are."""
    for path, about in generated_files(run, run.manifest()["steps"]).items():
        if path.is_file() and sha256_of(path) != about["sha256"]:
            warn("; ".join(changed_output(run, path)))
