"""The pinned versions: what requirements/*.txt install."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"


def pins(*names: str) -> dict[str, str]:
    """The versions that lists pin, by canonical name."""
    lines = [line for name in names for line in (REQUIREMENTS / f"{name}.txt").read_text().splitlines()]
    found = [(canonicalize_name(name), version) for name, version in (line.split("==") for line in lines if line)]
    assert len(dict(found)) == len(set(found)), "two pins of one package differ"
    return dict(found)


def is_pinned(package: str) -> bool:
    """Whether the installed version of a package is the pinned one; `make test-latest` installs others."""
    return pins("cpu", "cluster", "dev").get(canonicalize_name(package)) == importlib.metadata.version(package)
