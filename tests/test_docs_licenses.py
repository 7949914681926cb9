"""docs/licenses.md: dependencies have the licenses that it states, and every file that ships with a card is covered."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from pins import is_pinned

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "licenses.md").read_text(encoding="utf-8")
PERMISSIVE = ("Apache", "MIT", "BSD", "PSF", "Python Software Foundation")


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [line for extra in project["optional-dependencies"].values() for line in extra]
    names = [re.split(r"[\[<>=!~; ]", line)[0] for line in [*project["dependencies"], *optional]]
    return [name for name in names if name != project["name"]]


def test_a_dependency_is_permissive_or_an_exception():
    installed = {each.metadata["Name"].lower() for each in importlib.metadata.distributions()}
    described = {name for name in dependencies() if name.lower() in installed and is_pinned(name)}
    assert described
    for name in described:
        metadata = importlib.metadata.metadata(name)
        classifiers = [line for line in metadata.get_all("Classifier", []) if "License" in line]
        stated = metadata.get("License-Expression") or " ".join([*classifiers, (metadata.get("License") or "")[:100]])
        exception = re.search(rf"`{name}` \((\w+)", PAGE)
        assert any(license in stated for license in ((exception[1],) if exception else PERMISSIVE)), (name, stated)
