"""The pinned lists hold what pyproject.toml asks for, in versions that it allows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(*names: str) -> dict[str, str]:
    lines = [line for name in names for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()]
    found = [(canonicalize_name(name), version) for name, version in (line.split("==") for line in lines if line)]
    assert len(dict(found)) == len(set(found)), "two pins of one package differ"
    return dict(found)


@pytest.mark.parametrize("runtime", ["cpu", "gpu"])
@pytest.mark.parametrize("extra", ["", "dev"])
def test_every_dependency_is_pinned_to_a_version_that_pyproject_allows(runtime, extra):
    pinned = pins(runtime, extra) if extra else pins(runtime)
    for dependency in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        required = Requirement(dependency)
        version = pinned.get(canonicalize_name(required.name))
        assert version is not None, f"{required.name} is not in requirements/{runtime}.txt"
        assert required.specifier.contains(version, prereleases=True), f"{dependency}: pinned to {version}"
