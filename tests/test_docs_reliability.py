"""Every fault in tests/faults/README.md names an existing test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = (ROOT / "tests" / "faults" / "README.md").read_text(encoding="utf-8")
GRID, DETAILS = FAULTS.split("\n## Server faults\n")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def rows_of(text: str) -> list[list[str]]:
    """The cells of tables' rows, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_fault_names_an_existing_test():
    for text, folder in ((GRID, "faults"), (DETAILS, "judging")):
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
        assert len(named) > 40
        for file, function in named:
            path = ROOT / file if file.startswith("tests/") else ROOT / "tests" / folder / file
            assert function in functions(path), f"{file}::{function}"
    rows = rows_of(DETAILS)
    assert len(rows) > 25
    assert not [row for row in rows if not re.match(r"`[\w/]+\.py::\w+`", row[-1])]
