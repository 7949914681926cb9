"""Where weights are, in a folder or on the hub: adapter or whole model, and their identity."""

from __future__ import annotations

import contextlib
import hashlib
import json
from fnmatch import filter as matching
from pathlib import Path
from typing import Any, NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.base.models import model_path
from instruct.engines.base import EngineOptions
from instruct.engines.memory import check_memory

_BLOCK = 1 << 16
_BLOCKS = 256
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
SAFETENSORS, PICKLES = "*.safetensors", "pytorch_model*.bin"
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
UNPICKLING = "UnpicklingError"  # of torch's unpickler for tensors, with advice to run the code
NO_TENSORS = "torch's unpickler for tensors cannot read its .bin files; use weights that are safetensors"
TEXTS = ("*.json", "*.jinja", "*.model", "*.txt")


def is_adapter(folder: Path) -> bool:
    """Whether `folder` holds a PEFT adapter; otherwise it holds a whole model.

    Raises:
        InputError: it holds neither, or an incomplete one.
    """
    if (folder / "adapter_config.json").is_file():
        if not (folder / "adapter_model.safetensors").is_file():
            raise InputError(
                f"{folder}: the adapter has no adapter_model.safetensors; save it again with save_pretrained"
            )
        return True
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: neither an adapter (adapter_config.json) nor a model (config.json); give what training saved"
        )
    return False


def check_model(model: str, revision: str | None = None) -> str | None:
    """The commit of a hub model's `revision` (None: its main branch); None for a local folder.

    Raises:
        InputError: a folder without a model or without weights, or a hub model that cannot be downloaded.
    """
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(
                f"{model}: no model folder (it has no config.json); give a folder saved by save_pretrained"
            )
        if not any(folder.glob(SAFETENSORS)):
            raise InputError(f"{model}: the model has no weights (*.safetensors); save it again with save_pretrained")
        return None
    try:
        return _snapshot(model, revision).name
    except (OSError, ValueError) as error:
        raise InputError(
            f"model {one_line(model, 100)}: no such folder, and the hub does not give it; check the name "
            f"({one_line(error, 150)})"
        ) from error


def _snapshot(model: str, revision: str | None) -> Path:
    """The folder, named by the commit, of what is here of a hub model; its config.json is downloaded if it is missing.

    Raises:
        OSError, ValueError: it is not here, and the hub does not give it.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    config = try_to_load_from_cache(model, "config.json", revision=revision)
    if not isinstance(config, str):
        config = hf_hub_download(model, "config.json", revision=revision)
    return Path(config).parent


class Weights(NamedTuple):
    """A model's weights: a folder, whose `revision` is None, or a hub id; `pickled`: they are no safetensors."""

    model: str
    revision: str | None
    pickled: bool


def located(options: EngineOptions) -> Weights:
    """The weights of an engine's model.

    Looks at memory first, then at files, then at the hub.

    Raises:
        InputError: it does not fit on this machine, its weights are not here and cannot be fetched, or they are a
            pickle that is not allowed.
    """
    check_memory(options)
    model = model_path(options.model)
    if Path(model).is_dir():
        return Weights(model, None, _is_pickle(options, model, [path.name for path in Path(model).iterdir()]))
    try:
        snapshot = _snapshot(model, options.revision)
    except (OSError, ValueError) as error:
        needs = options.needs or "its weights"
        raise InputError(
            f"{options.subject}: {model} is not here and the hub does not give it ({one_line(type(error).__name__)}); "
            f"it needs {needs}{'' if options.reward else ', or `base_url` of a server that serves it'}"
        ) from None
    files = [path.name for path in snapshot.iterdir()]
    if not (matching(files, SAFETENSORS) or (options.allow_pickle and matching(files, PICKLES))):
        from huggingface_hub import list_repo_files

        with contextlib.suppress(OSError):  # without a network: what was fetched before
            files = list_repo_files(model, revision=options.revision)
    return Weights(model, options.revision, _is_pickle(options, model, files))


def _is_pickle(options: EngineOptions, model: str, files: list[str]) -> bool:
    if matching(files, SAFETENSORS):
        return False
    if not matching(files, PICKLES):
        raise InputError(f"{options.subject}: {model} has no weights (*.safetensors); save it with save_pretrained")
    if not options.allow_pickle:
        raise InputError(
            f"{options.subject}: {model} has no *.safetensors, its weights are a pickle, which can run code when it is "
            "read; if you trust where it comes from, set `weights: pickle` in the card: torch's safe unpickler reads it"
        )
    return True


def unreadable(model: str, error: Exception) -> InputError:
    """The error for weights that transformers cannot load."""
    if type(error).__name__ == UNPICKLING:
        return InputError(f"model {model}: {NO_TENSORS}")
    reason = one_line(f"{type(error).__name__}: {error}")
    return InputError(f"model {model}: transformers cannot load it ({reason}); check the folder")


def model_identity(model: str, revision: str | None, weights: tuple[str, ...] = (SAFETENSORS,)) -> str:
    """A hub model's name and commit, or a hash of a folder's tokenizer, configuration and weights (their patterns).

    Of a file larger than 16 MiB, its size and 256 evenly spaced blocks of 64 KiB are hashed, which takes a second at
    most; training changes matrices as a whole.
    """
    if revision is not None:
        return f"{model}@{revision}"
    digest = hashlib.sha256()
    for path in sorted({path for pattern in (*weights, *TEXTS) for path in Path(model).glob(pattern)}):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            if size <= _BLOCK * _BLOCKS:
                digest.update(file.read())
                continue
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def adapter_identity(adapter: Path) -> str:
    """A hash of an adapter's two files."""
    return hashlib.sha256("".join(sha256_of(adapter / name) for name in _ADAPTER_FILES).encode()).hexdigest()


def folder_identity(folder: Path) -> str:
    """A hash of the weights in a folder: an adapter, or a whole model.

    Raises:
        InputError: it holds neither.
    """
    if is_adapter(folder):
        return adapter_identity(folder)
    return model_identity(str(folder), check_model(str(folder)))


def context_of(config: Any) -> int | None:
    """The longest text of a model in tokens, by its transformers config; None if that states none."""
    settings = config.get_text_config()
    return next((value for key in _CONTEXT_KEYS if isinstance(value := getattr(settings, key, None), int)), None)


def adapter_settings(adapter: Path) -> dict[str, Any]:
    """What an adapter's adapter_config.json holds.

    Raises:
        InputError: it cannot be read.
    """
    path = adapter / "adapter_config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no adapter configuration ({one_line(error, 100)}); save the adapter again") from None
    return settings


def lora_rank(adapter: Path) -> int:
    """The largest rank in an adapter that vLLM can serve.

    Raises:
        InputError: its adapter_config.json cannot be read, is not for LoRA, or is for parameters without a module.
    """
    config, path = adapter_settings(adapter), adapter / "adapter_config.json"
    try:
        if config["peft_type"] != "LORA":
            kind = one_line(config["peft_type"], 40)
            raise InputError(f"{path}: peft_type is {kind}, vLLM serves LORA only; set generation.engine transformers")
        if config.get("target_parameters"):
            raise InputError(
                f"{path}: is for parameters of experts (target_parameters), which vLLM does not serve beside a model; "
                "merge it into its base, or set generation.engine transformers"
            )
        return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no LoRA configuration ({one_line(error, 100)}); save the adapter again") from error


def adapted_modules(adapter: Path) -> set[str]:
    """The names of the modules that an adapter has layers for, without where they are: {"q_proj", "v_proj"}."""
    from safetensors import safe_open

    with safe_open(adapter / _ADAPTER_FILES[1], "pt") as file:
        return {name.partition(".lora_")[0].rpartition(".")[2] for name in file.keys() if ".lora_" in name}  # noqa: SIM118
