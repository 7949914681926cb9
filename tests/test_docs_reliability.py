"""Every fault in tests/faults/README.md names an existing test; docs/reliability.md has the numbers of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import openai._constants as client

from instruct.engines import server, transport

ROOT = Path(__file__).resolve().parent.parent
FAULTS = (ROOT / "tests" / "faults" / "README.md").read_text(encoding="utf-8")
TEXT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8") + FAULTS
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


def test_the_numbers_are_those_of_the_code():
    page = " ".join(TEXT.split())
    for words in (
        f"At most {server.CONCURRENCY} requests",
        f"up to {server.ATTEMPTS} times, after {client.INITIAL_RETRY_DELAY} s",
        f"{client.MAX_RETRY_DELAY:.0f} s at most",
        f"more than {client.MAX_RETRY_AFTER_DELAY // 60} minutes is not waited for",
        f"no reply in {server.TIMEOUT:.0f} s, `judges[].timeout`) it is sent up to {server.PAID_ATTEMPTS} times",
        f"{server.FAILURES_IN_A_ROW} requests in a row",
        f"waited for ({server.LAST_REPLIES:.0f} s)",
        f"{server.TIMEOUT:.0f} s in all (`timeout`)",
        f"{transport.LARGEST_REPLY // 2**20} MiB of a reply",
        f"exit code 2 after {server.PAID_ATTEMPTS} attempts",
        f"after {server.ATTEMPTS} attempts",
    ):
        assert words in page
