"""docs/architecture.md: its files exist, and each is imported by one that its walk names before."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = {
    text.splitlines()[0]: re.findall(r"^\d+\. \[`(.+?)`\]\(\.\./instruct/\1\)", text, re.MULTILINE)
    for text in PAGE.split("\n## ")[1:]
    if text.startswith("How ")
}


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def imports_of(file: Path) -> set[Path]:
    """The project's files that a file imports, at any place; through a package, also what its __init__.py imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("instruct"):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {path for path in map(file_of, names) if path and path != file}
    packages = {path for path in found if path.name == "__init__.py" and path.parent != ROOT / "instruct"}
    return found.union(*map(imports_of, packages))


def test_there_are_six_walks():
    assert len(WALKS) == 6
    assert all(WALKS.values())


@pytest.mark.parametrize("walk", WALKS)
def test_each_file_is_imported_by_an_earlier_one(walk):
    files = [ROOT / "instruct" / name for name in WALKS[walk]]
    reached = {files[0]}
    for file in files:
        assert file.is_file(), file
        assert file in reached, f"{file.name} is imported by none of the files before it"
        reached |= imports_of(file)
