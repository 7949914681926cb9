"""A file that may be a tool's log: what is in it, read once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.data.sources import SUFFIXES, RawRow, read_file


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
    def suffix(self) -> str:
        """The file's ending, that inside it if it is compressed."""
        path = self.path.with_suffix("") if self.path.suffix.lower() == ".gz" else self.path
        return path.suffix.lower()

    def rows(self) -> Iterator[RawRow]:
        """The rows of a JSON, JSONL, CSV or Parquet file, each with its place; raises as `read_file`."""
        return iter(self._json) if self.suffix == ".json" else read_file(self.path)

    @cached_property
    def _json(self) -> list[RawRow]:
        """The rows of a JSON file, which is parsed as a whole."""
        return list(read_file(self.path))

    @cached_property
    def problem(self) -> InputError | None:
        """Why the first row of a table or JSON file cannot be read; None: it can, or the file is neither."""
        try:
            if self.suffix in SUFFIXES:
                next(self.rows())
        except InputError as error:
            return error
        return None

    @cached_property
    def content(self) -> dict[str, Any]:
        """The object that a JSON file holds; {} if the file is no JSON, or holds something else."""
        if self.suffix != ".json" or self.problem or len(self._json) > 1:
            return {}
        return self._json[0].fields

    @cached_property
    def first(self) -> dict[str, Any]:
        """The fields of the first row; of a JSON file with one object that object; {} of other files."""
        return {} if self.suffix not in SUFFIXES or self.problem else next(self.rows()).fields


def mapping(content: dict[str, Any], *names: str) -> dict[str, Any]:
    """A mapping in mappings; an empty one if any of them is none."""
    for name in names:
        inner = content.get(name)
        if not isinstance(inner, dict):
            return {}
        content = inner
    return content


def numbers(
    scored: Iterable[tuple[str, float | None, str]], other: set[str]
) -> tuple[dict[str, float | None], str | None]:
    """The values of a row by metric, NaN as missing, and why one is missing; metrics without a number go to `other`.

    Args:
        scored: a metric, its number, and why that is missing.
    """
    values: dict[str, float | None] = {}
    reason = None
    for metric, number, why in scored:
        if number is None:
            other.add(metric)
        elif math.isnan(number):
            values[metric], reason = None, why
        else:
            values[metric] = number
    return values, reason


def read_number(row: RawRow, field: str) -> float | None:
    """The number in a field, 1 for true and 0 for false, also as the text of a cell.

    Returns:
        None if the field is missing, null, empty or not a number (NaN).

    Raises:
        InputError: it is something else, or infinite.
    """
    value = row.fields.get(field)
    if isinstance(value, str):
        text = value.strip().lower()
        value = {"": None, "true": True, "false": False}.get(text, value)
        if value is not None and not isinstance(value, bool):
            with contextlib.suppress(ValueError):
                value = float(text)
    if value is None:
        return None
    with contextlib.suppress(OverflowError):
        if isinstance(value, int | float) and not math.isinf(number := float(value)):
            return None if math.isnan(number) else number
    raise InputError(
        f"{row.place}: {one_line(field, 60)}: {one_line(repr(value), 40)} is not a finite number, true or false; "
        "correct it, or leave it empty where it is missing"
    )
