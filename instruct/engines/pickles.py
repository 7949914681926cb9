"""Weights that exist only as pickles: checked against the hub's hashes and converted to safetensors, once."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.files import cache_folder, sha256_of
from instruct.base.models import folder_made_of, whole_folder
from instruct.base.output import warn
from instruct.engines.memory import GIB
from instruct.engines.weights import PICKLES, TEXTS, model_identity

RECORD = "pickles.json"


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
    local = Path(model).is_dir()
    commit = None if local else _commit(model, revision)
    identity = model_identity(model, None, (PICKLES,)) if local else f"{model}@{commit}"
    folder = folder_made_of(model, hashlib.sha256(identity.encode()).hexdigest())
    if (folder / "config.json").is_file():
        return folder
    source = Path(model) if local else _downloaded(subject, model, str(commit))
    files = sorted(source.glob(PICKLES))
    _check_disk(folder, sum(path.stat().st_size for path in files))
    warn(f"instruct: {one_line(model, 100)}: its pickled weights are converted to safetensors, once: {folder}")
    hashes = {path.name: sha256_of(path) for path in files}
    if not local:
        _check_hashes(subject, model, str(commit), hashes)
    record = {"model": model, "revision": commit, "checked_against_the_hub": not local, "sha256": hashes}
    with whole_folder(folder) as making:
        _convert(files, making)
        for path in {path for pattern in TEXTS for path in source.glob(pattern)}:
            if not path.name.startswith("pytorch_model"):  # the pickles' index
                shutil.copyfile(path, making / path.name)
        (making / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return folder


def conversion_note(folder: Path) -> str:
    """Where the weights in a converted folder are from, for a report."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    checked = ", checked against the hub's SHA-256" if record["checked_against_the_hub"] else ""
    at = f" at revision {record['revision']}" if record["revision"] else ""
    hashes = ", ".join(f"{name} {digest}" for name, digest in sorted(record["sha256"].items()))
    return f"weights converted from the pickles of {one_line(record['model'], 100)}{at}{checked}: {hashes}"


def _commit(model: str, revision: str | None) -> str:
    """The commit of a revision, whose config.json is here already."""
    from huggingface_hub import snapshot_download

    if revision is not None and re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    return Path(snapshot_download(model, revision=revision, allow_patterns=["config.json"])).name


def _downloaded(subject: str, model: str, commit: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(model, revision=commit, allow_patterns=[PICKLES, *TEXTS]))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise InputError(
            f"{subject}: {model} could not be downloaded ({one_line(error, 150)}); rerun the command to resume"
        ) from None


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


def _check_disk(folder: Path, size: int) -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache_folder()).free
    if free < size:
        raise InputError(
            f"{folder}: the converted weights need {size / GIB:.1f} GiB of disk and {free / GIB:.1f} GiB are free; "
            "free some, or set INSTRUCT_CACHE to a folder on a larger disk"
        )


def _convert(files: list[Path], folder: Path) -> None:
    """Write each pickle as one safetensors file, and their index if there are several."""
    from safetensors.torch import save_file

    weights: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        target = "model.safetensors" if len(files) == 1 else f"model-{number:05}-of-{len(files):05}.safetensors"
        tensors = dict(_tensors(path))
        save_file(tensors, folder / target, {"format": "pt"})
        weights |= dict.fromkeys(tensors, target)
    if len(files) > 1:
        index = {"metadata": {}, "weight_map": weights}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _tensors(path: Path) -> Iterator[tuple[str, Any]]:
    """The named tensors in a pickle; nothing in it is run."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a pickle that holds code, a torn file, ...
        raise InputError(
            f"{path}: torch's unpickler for tensors cannot read it ({one_line(f'{type(error).__name__}: {error}')}); "
            "download it again, or use weights that are safetensors"
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no named tensors; use weights that are safetensors")
    storages: set[int] = set()
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise InputError(
                f"{path}: holds more than tensors ({one_line(name, 60)}: {type(tensor).__name__}); "
                "use weights that are safetensors"
            )
        storage = tensor.untyped_storage().data_ptr()
        # safetensors holds no two tensors that share memory, such as tied embeddings
        yield name, tensor.clone() if storage in storages else tensor.contiguous()
        storages.add(storage)
