"""Where weights are, in a folder or on the hub: adapter or whole model, and their identity.

Weights that exist only as pickles are checked against the hub's hashes and converted to safetensors, once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from fnmatch import filter as matching
from pathlib import Path
from typing import Any, NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.base.files import cache_folder, sha256_of
from instruct.base.models import folder_made_of, model_path, whole_folder
from instruct.base.output import warn
from instruct.engines.base import EngineOptions
from instruct.engines.memory import GIB, check_memory

_BLOCK = 1 << 16
_BLOCKS = 256
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
SAFETENSORS, PICKLES = "*.safetensors", "pytorch_model*.bin"
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
RECORD = "pickles.json"
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
    """A model's weights: a folder, whose `revision` is None, or a hub id."""

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


def safetensors_folder(subject: str, model: str, revision: str | None) -> Path:
    """A folder in the cache with `model` as safetensors, converted on first use.

    The pickles are read by torch's unpickler for tensors alone (`weights_only=True`). Those of a hub model must have
    the SHA-256 that the hub gives for that revision. `pickles.json` in the folder records revision and hashes.

    Args:
        subject: who is asked, as error messages name it.
        model: a local folder or a hub id.
        revision: of the hub model; None: the commit that its main branch has now.

    Raises:
        InputError: a file is not the hub's, holds anything but tensors or cannot be read; too little disk space.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    commit = None
    if Path(model).is_dir():
        identity = model_identity(model, None, (PICKLES,))
    else:
        commit = revision
        if commit is None or not re.fullmatch("[0-9a-f]{40}", commit):  # the folder of what is here is named by it
            commit = Path(snapshot_download(model, revision=revision, allow_patterns=["config.json"])).name
        identity = f"{model}@{commit}"
    folder = folder_made_of(model, hashlib.sha256(identity.encode()).hexdigest())
    if (folder / "config.json").is_file():
        return folder
    source = Path(model)
    if commit is not None:
        try:
            source = Path(snapshot_download(model, revision=commit, allow_patterns=[PICKLES, *TEXTS]))
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise InputError(
                f"{subject}: {model} could not be downloaded ({one_line(error, 150)}); rerun the command to resume"
            ) from None
    files = sorted(source.glob(PICKLES))
    size = sum(path.stat().st_size for path in files)
    cache_folder().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache_folder()).free
    if free < size:
        raise InputError(
            f"{folder}: the converted weights need {size / GIB:.1f} GiB of disk and {free / GIB:.1f} GiB are free; "
            "free some, or set INSTRUCT_CACHE to a folder on a larger disk"
        )
    warn(f"instruct: {one_line(model, 100)}: its pickled weights are converted to safetensors, once: {folder}")
    hashes = {path.name: sha256_of(path) for path in files}
    if commit is not None:
        _check_hashes(subject, model, commit, hashes)
    record = {"model": model, "revision": commit, "checked_against_the_hub": commit is not None, "sha256": hashes}
    with whole_folder(folder) as making:
        _convert(files, making)
        for path in {path for pattern in TEXTS for path in source.glob(pattern)}:
            if not path.name.startswith("pytorch_model"):  # the pickles' index
                shutil.copyfile(path, making / path.name)
        (making / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return folder


def _check_hashes(subject: str, model: str, commit: str, hashes: dict[str, str]) -> None:
    """Compare the files' SHA-256 with those of the hub."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        siblings = HfApi().model_info(model, revision=commit, files_metadata=True).siblings or []
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise InputError(
            f"{subject}: the hub does not give the SHA-256 of {model}'s pickled weights ({one_line(error, 100)}); "
            "connect to it once, until they are converted"
        ) from None
    theirs = {file.rfilename: file.lfs.sha256 for file in siblings if file.lfs is not None}
    for name, digest in hashes.items():
        if theirs.get(name) != digest:
            problem = f"the hub's is {theirs[name]}" if name in theirs else "the hub gives none for it"
            raise InputError(
                f"{subject}: {model}: {name} has the SHA-256 {digest}, but {problem} at revision {commit}; "
                "delete it from the hub's cache and rerun the command to download it again"
            )


def _convert(files: list[Path], folder: Path) -> None:
    """Write each pickle as one safetensors file, and their index if there are several; nothing in them is run."""
    import torch
    from safetensors.torch import save_file

    weights: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a pickle that holds code, a torn file, ...
            reason = one_line(f"{type(error).__name__}: {error}")
            raise InputError(
                f"{path}: torch's unpickler for tensors cannot read it ({reason}); download it again, or use weights "
                "that are safetensors"
            ) from error
        if not isinstance(content, dict):
            raise InputError(f"{path}: holds no named tensors; use weights that are safetensors")
        tensors: dict[str, torch.Tensor] = {}
        storages: set[int] = set()
        for name, tensor in content.items():
            if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
                raise InputError(
                    f"{path}: holds more than tensors ({one_line(name, 60)}: {type(tensor).__name__}); "
                    "use weights that are safetensors"
                )
            storage = tensor.untyped_storage().data_ptr()
            # safetensors holds no two tensors that share memory, such as tied embeddings
            tensors[name] = tensor.clone() if storage in storages else tensor.contiguous()
            storages.add(storage)
        target = "model.safetensors" if len(files) == 1 else f"model-{number:05}-of-{len(files):05}.safetensors"
        save_file(tensors, folder / target, {"format": "pt"})
        weights |= dict.fromkeys(tensors, target)
    if len(files) > 1:
        index = {"metadata": {}, "weight_map": weights}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def conversion_note(folder: Path) -> str:
    """Where the weights in a converted folder are from, for a report."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    checked = ", checked against the hub's SHA-256" if record["checked_against_the_hub"] else ""
    at = f" at revision {record['revision']}" if record["revision"] else ""
    hashes = ", ".join(f"{name} {digest}" for name, digest in sorted(record["sha256"].items()))
    return f"weights converted from the pickles of {one_line(record['model'], 100)}{at}{checked}: {hashes}"
