"""The dtype that a model computes in on this machine: one choice for training, answers, judges and measurements."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal

from instruct.base.errors import InstructError
from instruct.base.files import cache_folder, write_atomically
from instruct.base.machine import has_gpu, least_seconds, processor, processor_line
from instruct.base.output import warn

Dtype = Literal["auto", "bfloat16", "float16", "float32"]

# Rows, inner and outer width of the products that are compared, the small one first: without bfloat16 instructions it
# takes a quarter of a second, where the large one takes two.
_PRODUCTS = ((64, 512, 512), (256, 1024, 1024))
_SECONDS = 0.05  # of each dtype and product


def pick_dtype(asked: str | None, stated: Callable[[], str]) -> str:
    """The dtype that a model computes in on this machine.

    Args:
        asked: a dtype, which is taken; None or auto: on a GPU the checkpoint's own (float16 in place of bfloat16 where
            the GPU lacks it), on a CPU float32, unless a product in bfloat16 is measured to be faster.
        stated: tells the checkpoint's dtype; called on a GPU alone.
    """
    gpu = has_gpu()
    if asked not in (None, "auto"):
        if not gpu and asked != "float32" and not is_faster(asked):
            _warn_of_slow_products(asked)
        return str(asked)
    if not gpu:
        return "bfloat16" if is_faster("bfloat16") else "float32"
    import torch

    dtype = stated()
    return "float16" if dtype == "bfloat16" and not torch.cuda.is_bf16_supported() else dtype


@functools.cache
def _warn_of_slow_products(dtype: str) -> None:
    warn(f"dtype {dtype}: matrix products in it are slower than in float32 on this CPU; leave it out")


@functools.cache
def is_faster(dtype: str) -> bool:
    """Whether matrix products in `dtype` are faster than in float32 on this CPU.

    Measured in about .2 s, and kept in the cache for each processor, version of PyTorch and setting of its kernels.
    """
    # Processors of one name, such as a cloud's, may have different instructions.
    instructions = hashlib.sha256((processor_line("flags") or processor_line("Features")).encode()).hexdigest()[:8]
    settings = [os.environ.get(name, "") for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")]
    key = " | ".join([dtype, processor(), instructions, f"torch {version('torch')}", *settings])
    path = cache_folder() / "faster_dtypes.json"
    kept: Any = None
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(path.read_text(encoding="utf-8"))
    kept = kept if isinstance(kept, dict) else {}
    if isinstance(kept.get(key), bool):
        return bool(kept[key])
    import torch

    faster = all(
        _seconds(getattr(torch, dtype), *sizes) < _seconds(torch.float32, *sizes)  # ends with the first that is slower
        for sizes in _PRODUCTS
    )
    with contextlib.suppress(InstructError):  # a cache that cannot be written is measured again
        write_atomically(path, json.dumps({**kept, key: faster}, indent=1) + "\n")
    return faster


def _seconds(dtype: Any, rows: int, inner: int, outer: int) -> float:
    """The seconds of the fastest of several products of (rows, inner) and (inner, outer) matrices."""
    import torch

    states, weight = torch.ones(rows, inner, dtype=dtype), torch.ones(inner, outer, dtype=dtype)
    return least_seconds(lambda: torch.mm(states, weight), _SECONDS)
