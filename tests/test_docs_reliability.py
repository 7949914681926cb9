"""docs/reliability.md: every row of its tables names an existing test, and its numbers are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from instruct.engines import server, server_http

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_fault_names_an_existing_test():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 40
    for file, function in named:
        path = ROOT / file if file.startswith("tests/") else ROOT / "tests" / "judging" / file
        assert function in functions(path), f"{file}::{function}"
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    assert len(rows) > 25
    assert not [row for row in rows if not re.search(r"\| `[\w/]+\.py::\w+`.* \|$", row)]


def test_the_numbers_are_those_of_the_code():
    page = " ".join(TEXT.split())
    for words in (
        f"At most {server.CONCURRENCY} requests",
        f"up to {server.ATTEMPTS} times, after {server.FIRST_WAIT} s",
        f"{server.LONGEST_WAIT:.0f} s at most",
        f"none in {server.TIMEOUT:.0f} s, `--timeout`) it is sent up to {server.PAID_ATTEMPTS} times",
        f"{server.FAILURES_IN_A_ROW} requests in a row",
        f"waited for ({server.LAST_REPLIES:.0f} s)",
        f"{server.TIMEOUT:.0f} s in all (`--timeout`)",
        f"{server_http._PER_TOKEN // 2**10} KiB for each token of a reply",
        f"{server_http.LARGEST_REPLY // 2**20} MiB at most",
        f"exit code 2 after {server.PAID_ATTEMPTS} attempts",
        f"after {server.ATTEMPTS} attempts",
    ):
        assert words in page
