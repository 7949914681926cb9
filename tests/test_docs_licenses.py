"""docs/licenses.md: no dependency and no card is missing, and the licenses are those of their metadata."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from pins import is_pinned

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "licenses.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| kind")
]
FAMILIES = ("Apache", "MIT", "BSD", "MPL", "PSF", "Python Software Foundation")


def table(kind: str) -> dict[str, str]:
    """Name to license of the rows of a kind."""
    rows = [row for row in ROWS if row[0].startswith(kind)]
    assert all(len(row) == 5 and all(row) for row in rows)
    return {name.strip("`"): row[2] for row in rows for name in row[1].split(", ")}


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [line for extra in project["optional-dependencies"].values() for line in extra]
    names = [re.split(r"[\[<>=!~; ]", line)[0] for line in [*project["dependencies"], *optional]]
    return [name for name in names if name != project["name"]]


def test_every_direct_dependency_is_listed():
    assert set(table("dependency")) == set(dependencies())


@pytest.mark.parametrize("name", dependencies())
def test_a_dependency_has_the_license_of_its_metadata(name):
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    if not is_pinned(name):
        pytest.skip(f"the page describes the pinned version of {name}")
    classifiers = [line for line in metadata.get_all("Classifier", []) if "License" in line]
    stated = metadata.get("License-Expression") or " ".join([*classifiers, (metadata.get("License") or "")[:100]])
    listed = table("dependency")[name]
    assert {family for family in FAMILIES if family in stated} == {family for family in FAMILIES if family in listed}


def test_every_card_is_listed_with_its_license():
    cards = [*ROOT.glob("data/**/*.yaml"), *ROOT.glob("judges/*/judge.yaml")]
    expected = {}
    for card in cards:
        content = yaml.safe_load(re.sub("!function ", "", card.read_text(encoding="utf-8")))
        name = card.parent if card.name == "judge.yaml" else card.with_suffix("")
        expected[str(name.relative_to(ROOT))] = (content["metadata"] if "task" in content else content)["licence"]
    assert table("data card") | table("judge card") == expected


def test_every_file_that_ships_with_a_card_is_covered():
    listed = re.findall(r"`([^`]+)`", " ".join(row[1] for row in ROWS if row[0] == "shipped files"))
    files = [path for folder in ("data", "judges") for path in (ROOT / folder).rglob("*") if path.is_file()]
    shipped = {str(path.relative_to(ROOT)) for path in files if path.name != "judge.yaml" and path.suffix != ".yaml"}
    assert {path for path in shipped if not any(path.startswith(place.rstrip("/")) for place in listed)} == set()
