"""What the readers of files share: what a reader is, and files next to the one that is fuzzed."""

from __future__ import annotations

import contextlib
import csv
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS = (".json", ".jsonl")


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Attributes:
        suffixes: of the files that it reads.
        valid: the content of valid files: rows, a mapping, or the bytes of a database.
        read: reads the file at a path, in a folder of its own; asserts that everything is accounted for.
        other: what an error may name instead, such as a file that the file itself names.
        several_problems: whether everything that is wrong is reported at once, each on a line.
    """

    suffixes: tuple[str, ...]
    valid: tuple[Any, ...]
    read: Callable[[Path], None]
    other: tuple[str, ...] = ()
    several_problems: bool = False


def rows_in(path: Path) -> int:
    """The rows of a file that was read without an error, counted in another way than the reader does."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            return sum(1 for record in csv.reader(file) if record) - 1
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):
            content = json.loads(text)
            return len(content) if isinstance(content, list) else 1
    return sum(1 for each in text.split("\n") if each.strip())


def fixed(content: object, name: str) -> Path:
    """A valid file next to the one that is fuzzed, in the folder above its own."""
    path = Path(tempfile.gettempdir()) / name
    path.write_text(json.dumps(content))
    return path
