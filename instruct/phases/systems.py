"""Where the weights of a run's systems are, and what they generated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, one_line
from instruct.base.files import sha256_of
from instruct.base.models import ModelOptions, hub_id, model_path
from instruct.base.output import say, warn
from instruct.run.directory import RunDirectory
from instruct.training.options import SystemOptions, trained_elsewhere


def system_folders(systems: Mapping[str, SystemOptions], run: RunDirectory) -> dict[str, Path | None]:
    """The folder of the adapter or whole model of each of a run's systems; None: the untrained base.

    Raises:
        InputError: there is no system, or one is not trained yet.
    """
    if not systems:
        raise InputError(f"{run.folder / 'config.yaml'}: has no systems; add one under systems")
    folders: dict[str, Path | None] = {}
    elsewhere = trained_elsewhere(systems)
    for name, system in systems.items():
        if name in elsewhere:
            folders[name] = weights_folder(name, elsewhere[name])
        elif system.objective == "none":
            folders[name] = None
        else:
            folders[name] = folder = run.adapters / name
            if not any(folder.glob("*.safetensors")):
                config = run.folder / "config.yaml"
                raise InputError(f"{folder}: no trained weights; train first: instruct train {config}")
    return folders


def weights_folder(name: str, source: str) -> Path:
    """The folder of what was trained elsewhere: a local one, or that of a hub id, which may end with @REVISION.

    Raises:
        InputError: there is none, or the hub does not give it.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    repository, _, revision = source.partition("@")
    if hub_id(repository) is None:
        raise InputError(f"system {name}: {one_line(source, 200)}: no such folder; give an adapter's, or a hub id")
    from huggingface_hub import snapshot_download

    from instruct.engines.weights import SAFETENSORS, TEXTS

    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=[SAFETENSORS, *TEXTS]))
    except (OSError, ValueError) as error:
        raise InputError(
            f"system {name}: {one_line(source, 100)}: no such folder, and the hub does not give it; check the name and "
            f"the revision ({one_line(error, 150)})"
        ) from error


def check_elsewhere(systems: Mapping[str, SystemOptions], model: ModelOptions) -> None:
    """Refuse weights from elsewhere that do not fit the model that all systems begin with.

    Raises:
        InputErrors: they are not there, are another model's, or need other words.
    """
    problems, elsewhere = Problems(), trained_elsewhere(systems)
    trainings: dict[str, str] = {}
    for name, source in elsewhere.items():
        subject = f"system {name}: {one_line(source, 200)}"
        with problems.collected():
            try:
                folder = weights_folder(name, source)
                _check_fits(folder, model, subject)
                same = trainings.setdefault(_identity(folder), name)
                if same != name:
                    raise InputError(f"{subject}: has the weights of system {same}; name each training once")
            except InputError:
                raise
            except Exception as error:  # whatever PEFT, transformers or its tokenizers make of it
                reason = one_line(f"{type(error).__name__}: {error}", 200)
                raise InputError(
                    f"{subject}: cannot be loaded on {model.name} ({reason}); give its own base as `model`"
                ) from None
    problems.refuse()
    if elsewhere:
        names = ", ".join(f"{name} ({one_line(source, 200)})" for name, source in elsewhere.items())
        say(f"elsewhere {names}: trained on rows that are not known, which may be among the prompts")


def _check_fits(folder: Path, model: ModelOptions, subject: str) -> None:
    from instruct.base.networks import check_adapter
    from instruct.engines.local import load_tokenizer
    from instruct.engines.weights import adapter_settings, check_model, is_adapter

    path = model_path(model.name)
    if is_adapter(folder):
        base = str(adapter_settings(folder).get("base_model_name_or_path") or "")
        if not _is_the_same(base, model.name):
            raise InputError(
                f"{subject}: was trained on {one_line(base, 100)}, and `model` is {model.name}; give the same, or, if "
                "it is, correct base_model_name_or_path in a copy of its adapter_config.json"
            )
        check_adapter(path, check_model(path, model.revision), folder)
        return
    check_model(str(folder))
    if (folder / "tokenizer_config.json").is_file():
        own, words = load_tokenizer(subject, str(folder), None), load_tokenizer(subject, path, model.revision)
        if own.get_vocab() != words.get_vocab():
            raise InputError(f"{subject}: has other tokens than {model.name}; give a model tuned from it")


def _is_the_same(base: str, model: str) -> bool:
    """Whether the base that an adapter names may be the model; of a folder that is not here nothing is known."""
    if not base or base == model or (hub_id(base) is None and not Path(base).is_dir()):
        return True
    from instruct.engines.weights import model_identity

    if Path(base).is_dir() and Path(path := model_path(model)).is_dir():
        return model_identity(base, None) == model_identity(path, None)
    return hub_id(base) is not None and hub_id(base) == hub_id(model)


def _identity(folder: Path) -> str:
    """A hash of what was trained elsewhere."""
    from instruct.engines.weights import adapter_identity, is_adapter, model_identity

    return adapter_identity(folder) if is_adapter(folder) else model_identity(str(folder), None)


def weights_identity(model: ModelOptions, run: RunDirectory, folder: Path | None, engine: str) -> str:
    """What identifies a system: a hash of its weights; of the base its hub id and commit, or its name on a server.

    Args:
        folder: see `system_folders`.
        engine: that answers.

    Raises:
        InputError: the weights have changed since they were trained.
    """
    from instruct.engines.weights import check_model, model_identity
    from instruct.training.train import check_weights

    if folder is not None and folder.parent != run.adapters:  # trained elsewhere
        return _identity(folder)
    if folder is not None:
        check_weights(run, folder.name)
        return sha256_of(min(folder.glob("*.safetensors")))
    if engine == "server":
        return model.name
    path = model_path(model.name)
    return model_identity(path, check_model(path, model.revision))


def warn_of_changed_files(run: RunDirectory) -> None:
    """Say which answers and continuations were changed after they were generated; they are used as they are."""
    recorded: dict[Path, dict[str, Any]] = {}
    for step, record in run.manifest()["steps"].items():
        kind, _, name = step.partition("/")
        if record["status"] == "done" and kind == "answers":
            recorded |= {run.outputs / f"{system}.json": about for system, about in record["results"].items()}
        elif record["status"] == "done" and kind == "continuations":
            recorded[run.continuations / f"{name}.json"] = record["results"]
    for path, about in recorded.items():
        if path.is_file() and sha256_of(path) != about["sha256"]:
            warn(
                f"{path}: is not what was generated; restore it, or delete it, and `instruct generate {run.folder}` "
                "writes it from the stored replies"
            )
