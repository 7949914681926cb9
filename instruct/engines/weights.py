"""Folders of weights: adapter or whole model, and a hash that identifies them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of

_BLOCK = 1 << 16
_BLOCKS = 256
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_WEIGHTS = "*.safetensors"
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
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
        if not any(folder.glob(_WEIGHTS)):
            raise InputError(f"{model}: the model has no weights (*.safetensors); save it again with save_pretrained")
        return None
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
        if not isinstance(config, str):
            config = hf_hub_download(model, "config.json", revision=revision)
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise InputError(
            f"model {one_line(model, 100)}: no such folder, and the hub does not give it; check the name "
            f"({one_line(error, 150)})"
        ) from error
    return Path(config).parent.name


def model_identity(model: str, revision: str | None, weights: tuple[str, ...] = (_WEIGHTS,)) -> str:
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


def lora_rank(adapter: Path) -> int:
    """The largest rank in an adapter.

    Raises:
        InputError: its adapter_config.json cannot be read, or is not for LoRA.
    """
    path = adapter / "adapter_config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if config["peft_type"] != "LORA":
            kind = one_line(config["peft_type"], 40)
            raise InputError(f"{path}: peft_type is {kind}, vLLM serves LORA only; set generation.engine transformers")
        return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no LoRA configuration ({one_line(error, 100)}); save the adapter again") from error
