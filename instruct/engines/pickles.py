"""Weights that exist only as a pickle, converted to safetensors once."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from instruct.errors import InputError, one_line
from instruct.models import cache_folder, save_whole


def safetensors_folder(model: str, revision: str | None, identity: str) -> Path:
    """A folder in the cache with `model` as safetensors, converted with torch's safe unpickler on first use.

    Args:
        identity: distinguishes these weights from others with the same name.

    Raises:
        InputError: the pickle holds more than tensors, or cannot be read.
    """
    name = re.sub(r"[^\w.-]+", "--", model).strip("-")[-60:]
    digest = hashlib.sha256(f"{identity}@{revision}".encode()).hexdigest()[:16]
    folder = cache_folder() / "models" / f"{name}-{digest}"
    if (folder / "config.json").is_file():
        return folder
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print(
        f"instruct: {one_line(model, 100)}: its pickled weights are made into safetensors, once: {folder}",
        file=sys.stderr,
    )
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            model, revision=revision, dtype="auto", use_safetensors=False, weights_only=True, trust_remote_code=False
        )
    except Exception as error:  # a pickle that holds code, a torn file, an unknown architecture, ...
        raise unreadable(model, error) from error
    tokenizer = AutoTokenizer.from_pretrained(model, revision=revision, trust_remote_code=False)
    save_whole(folder, loaded, tokenizer)
    return folder


def unreadable(model: str, error: Exception) -> InputError:
    """The error for weights that transformers cannot load."""
    reason = one_line(f"{type(error).__name__}: {error}")
    return InputError(f"model {model}: transformers cannot load it ({reason}); check the folder")
