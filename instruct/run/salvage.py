"""What can still be read of a damaged store, moved to a new one."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from instruct.base.errors import InputError
from instruct.base.files import sync
from instruct.run.replies import ReplyStore

Store = TypeVar("Store", bound=ReplyStore)
_FILES = ("", "-wal", "-shm")
_LONGEST_GAP = 20_000  # row ids that are tried after the last row that could be read


def salvage(path: Path, make: Callable[[Path], Store]) -> tuple[Path, dict[str, int]]:
    """Put a new store with all rows that can be read in place of a damaged one, which is kept beside it.

    Returns:
        Where the damaged one is now, and how many rows of each table were kept.

    Raises:
        InputError: nothing can be read; the store stays where it is.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".salvage-") as folder:
        copy, new = Path(folder) / "damaged.sqlite", Path(folder) / "new.sqlite"
        for end in _FILES[:2]:  # reading a store may write to it
            if path.with_name(path.name + end).is_file():
                shutil.copyfile(path.with_name(path.name + end), copy.with_name(copy.name + end))
        with make(new) as store, contextlib.closing(sqlite3.connect(copy)) as damaged:
            kept = store.take_from(lambda table, columns: _readable(damaged, table, columns))
        if not any(kept.values()):
            raise InputError(f"{path}: nothing of it can be read; restore it from a copy")
        aside = next(
            place
            for number in range(1, 1000)
            if not (place := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists()
        )
        sync(new)
        for end in _FILES:
            if path.with_name(path.name + end).is_file():
                os.replace(path.with_name(path.name + end), aside.with_name(aside.name + end))
        os.replace(new, path)
    sync(path.parent)
    return aside, kept


def _readable(damaged: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a table that can be read, by their row ids: an index may be damaged where the table is not."""
    query = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid"
    last = end = 0
    while last <= end + _LONGEST_GAP:
        try:
            for rowid, *row in damaged.execute(query, [last]):
                if rowid <= last:  # damaged pages may lead in a circle
                    break
                last = end = rowid
                yield tuple(row)
            else:
                return
        except (sqlite3.Error, UnicodeDecodeError):
            pass
        last += 1
