"""The replies of a system that were stored while it answered, as tests look at them and take some away."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple


class Stored(NamedTuple):
    """A reply as it was stored."""

    text: str
    tokens: int | None
    finish: str


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.replies.sqlite"


def select(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a store, whether or not another process is writing it; none before it has made the tables."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'work'").fetchall():
            return []
        return database.execute(query).fetchall()


def change(folder: Path, name: str, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path_of(folder, name))) as database:
        database.executescript(";".join(statements))


def replies(folder: Path, name: str) -> list[Stored]:
    """The replies in the order of their prompts."""
    rows = select(path_of(folder, name), "SELECT key, text, completion_tokens, finish_reason FROM completions")
    places = {key: int(key.split("/")[1]) for key, *_ in rows}
    return [Stored(*row) for key, *row in sorted(rows, key=lambda row: places[row[0]])]


def made_by(folder: Path, name: str) -> tuple[str, str]:
    """The fingerprint and the engine of a system's replies."""
    ((work, engine),) = select(path_of(folder, name), "SELECT work, engine FROM work")
    return work, engine


def count(folder: Path, name: str) -> int:
    """How many replies are stored; 0 while there is no store, or it is just being written."""
    try:
        counts = select(path_of(folder, name), "SELECT COUNT(*) FROM completions")
    except sqlite3.DatabaseError:
        return 0
    return int(counts[0][0]) if counts else 0


def forget(folder: Path, name: str, kept: int) -> None:
    """Leave only the replies to the first prompts of a system, as if the call had been stopped after them."""
    place = f"CAST(substr(key, {len(name) + 2}) AS INTEGER)"
    change(folder, name, f"DELETE FROM completions WHERE {place} >= {kept}")
