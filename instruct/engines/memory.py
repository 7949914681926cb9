"""Whether a model fits on this machine, as far as that is known before anything is fetched or loaded."""

from __future__ import annotations

import contextlib
import gc
import itertools
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu
from instruct.engines.base import EngineOptions

GIB = 2**30
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
# "A GPU of 24 GB" reports a little less.
_REPORTED = 0.95


def available_gib() -> float:
    """The free memory of the first GPU, or of the machine if it has no GPU, in GiB."""
    import psutil

    if has_gpu():
        import torch

        return float(torch.cuda.mem_get_info()[0]) / GIB
    return float(psutil.virtual_memory().available) / GIB


def free_memory() -> None:
    """Free what a dropped model held, before another one needs it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def restart_peak() -> None:
    """From now on `peak_gib` counts anew, where the machine can."""
    if has_gpu():
        import torch

        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: VmHWM becomes the current size


def peak_gib() -> float | None:
    """The most memory of this process on the first GPU, or without one in the machine's memory; None: not known."""
    if has_gpu():
        import torch

        return round(torch.cuda.max_memory_allocated() / GIB, 3)
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return round(int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 2**20, 3)
    return None


def check_memory(options: EngineOptions) -> None:
    """Refuse a model that does not fit; nothing is looked up on the hub.

    A hub model is compared with what its card says it needs, a folder with the size of its files: weights that would
    not fit even at half that size, which float32 weights are loaded in, are refused.

    Raises:
        InputError: no GPU or too small a one, or too little memory; the message says what is needed.
    """
    if options.elsewhere:
        return
    instead = "choose a smaller `model`" if options.reward else "give `base_url` of a server that serves it"
    folder = Path(options.model).expanduser()
    if folder.is_dir():
        size = sum(path.stat().st_size for path in itertools.chain(*map(folder.glob, _WEIGHTS)))
        needed = size / GIB / (8 if options.quantization else 2) / options.tensor_parallel_size
        if needed > (available := available_gib()):
            raise InputError(
                f"{options.subject}: the weights in {options.model} need at least {needed:.0f} GiB of memory and "
                f"{available:.0f} GiB are free; free some, or {instead}"
            )
        return
    if options.needs is None:
        return
    if not has_gpu():
        raise InputError(f"{options.subject}: needs {options.needs}, and this machine has no GPU; {instead}")
    if options.gpu_gb is None or options.quantization:
        return
    import torch

    total = torch.cuda.get_device_properties(0).total_memory * options.tensor_parallel_size / 1e9
    if total < _REPORTED * options.gpu_gb:
        raise InputError(
            f"{options.subject}: needs {options.needs}, and this machine's GPU has {total:.0f} GB; {instead}"
        )
