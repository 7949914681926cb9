"""Files of replies: a JSON list, written and compared row by row, because as a whole it takes many times its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from instruct.base.files import write_atomically


def json_list(rows: Iterable[dict[str, Any]], indent: int) -> Iterator[bytes]:
    """The pieces of `json.dumps(list(rows), ensure_ascii=False, indent=indent)`, and a newline."""
    pad = "\n" + " " * indent
    before = "["
    for row in rows:
        yield (before + pad + json.dumps(row, ensure_ascii=False, indent=indent).replace("\n", pad)).encode()
        before = ","
    yield b"[]\n" if before == "[" else b"\n]\n"


def write_rows(path: Path, rows: Callable[[], Iterable[dict[str, Any]]], indent: int) -> None:
    """Write a file of rows, unless it already holds them: then its time of change stays.

    Args:
        rows: makes them; called twice.
    """
    if not _holds(path, json_list(rows(), indent)):
        write_atomically(path, json_list(rows(), indent))


def _holds(path: Path, content: Iterable[bytes]) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in content) and not file.read(1)
