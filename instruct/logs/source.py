"""A file that may be a tool's log: what is in it, read once and within limits."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.data.sources import SUFFIXES, RawRow, read_file

# Larger files of one JSON value are not read, which would take several times their size of memory.
_LARGEST = 1 << 30
# So many bytes at most come out of one compressed by gzip.
_MOST_PACKED = 1032


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table (CSV, JSON lines, Parquet) that no tool's reader knows; None: not named."""

    unit: str | None = None
    metric: tuple[str, ...] = ()
    cluster: str | None = None
    system: str | None = None
    task: str | None = None
    epoch: str | None = None


@dataclass(frozen=True)
class Source:
    """A file, and how to read it if no tool wrote it."""

    path: Path
    columns: Columns = Columns()

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """The file's ending, that inside it if it is compressed."""
        path = self.path.with_suffix("") if self.path.suffix.lower() == ".gz" else self.path
        return path.suffix.lower()

    def rows(self) -> Iterator[RawRow]:
        """The rows of a JSON, JSONL, CSV or Parquet file, each with its place; raises as `read_file`."""
        self._check_size()
        return read_file(self.path)

    @cached_property
    def content(self) -> dict[str, Any]:
        """The object that a JSON file holds; {} if the file is no JSON, or holds something else."""
        if self.suffix != ".json":
            return {}
        rows = self.rows()
        first, second = next(rows).fields, next(rows, None)
        return first if second is None else {}

    @cached_property
    def first(self) -> dict[str, Any]:
        """The fields of the first row; of a JSON file with one object that object; {} of other files."""
        if self.suffix not in SUFFIXES:
            return {}
        return self.content or next(self.rows()).fields

    def _check_size(self) -> None:
        if self.suffix != ".json":
            return
        size = self.path.stat().st_size
        if self.path.suffix.lower() == ".gz" and size * _MOST_PACKED > _LARGEST:
            with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(self.path) as file:
                size = sum(
                    map(len, itertools.takewhile(bool, map(file.read, itertools.repeat(1 << 20, _LARGEST >> 20))))
                )
        if size >= _LARGEST:
            raise InputError(
                f"{self.path}: has {size >> 20:,} MiB of JSON or more, {_LARGEST >> 20:,} is too much; split it, or "
                "write JSON lines"
            )
