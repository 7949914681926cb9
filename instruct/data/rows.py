"""The rows of a card or of files, in TRL's prompt-completion format, with counts of what was read and left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruct.data.cards import DatasetCard, Template, check_purpose
from instruct.data.formats import detect_format, to_row
from instruct.data.sources import RawRow, read_file, read_source
from instruct.errors import InputError


@dataclass(frozen=True)
class RowSet:
    """Rows that have a response.

    Attributes:
        rows: `{"prompt", "completion"}`, both text or both lists of `{"role", "content"}`.
        sources: "file:row" of each row; rows are counted from 1, in JSONL by line.
        counts: `read` = `kept` + `empty` (left out because the response is empty, blank, null or missing).
        sha256: of the rows; independent of the file that they came from.
        notes: warnings for the user, one line each.
    """

    rows: list[dict[str, Any]]
    sources: list[str]
    counts: dict[str, int]
    sha256: str
    notes: list[str] = field(default_factory=list)


def load_rows(
    card: DatasetCard | None,
    *,
    files: list[str] | None = None,
    template: Template | None = None,
    limit: int | None = None,
) -> RowSet:
    """The rows of a card's source, or of `files` read as the card says.

    Args:
        card: where the rows are and how to read them; without a card, the first row of `files` determines the format.
        files: .json, .jsonl, .csv or .parquet, instead of the card's source.
        template: instead of the card's (without a card: `chat`).
        limit: stop after keeping this many rows.

    Raises:
        InputError: a source without rows, a row that does not match the format, or no row with a response. The message
            names the file, the row, the field and the remedy.
    """
    if card is None and not files:
        raise InputError("no card and no files; name a card (see `instruct list data`) or give files")
    if card is not None:
        check_purpose(card, "train")
    template = template or (card.template if card else "chat")
    format = card.format if card else None
    rows: list[dict[str, Any]] = []
    sources: list[str] = []
    read = 0
    digest = hashlib.sha256()
    origin = ""
    for raw in _raw_rows(card, files):
        if limit is not None and len(rows) == limit:
            break
        read += 1
        origin = origin or raw.origin
        format = format or detect_format(raw)
        row = to_row(raw, format, template)
        if row is None:
            continue
        rows.append(row)
        sources.append(f"{raw.origin}:{raw.row}")
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode())
    if not rows:
        raise InputError(f"{origin}: all {read} responses are empty; fill them in or give other files")
    counts = {"read": read, "kept": len(rows), "empty": read - len(rows)}
    notes = []
    if card and not files and limit is None and card.rows not in (None, read):
        notes.append(f"card {card.name} expects {card.rows} rows, its source has {read}: the data set has changed")
    return RowSet(rows, sources, counts, digest.hexdigest(), notes)


def _raw_rows(card: DatasetCard | None, files: list[str] | None) -> Iterator[RawRow]:
    if files:
        raw_rows: Iterator[RawRow] = (raw for file in files for raw in read_file(Path(file).expanduser()))
    else:
        assert card is not None
        raw_rows = read_source(card.source, card.folder)
    for raw in raw_rows:
        # A user's own file does not have to nest its fields like the card's source.
        if card is None or card.column is None or (files and card.column not in raw.fields):
            yield raw
        else:
            yield _unwrapped(raw, card.column)


def _unwrapped(raw: RawRow, column: str) -> RawRow:
    if column not in raw.fields:
        names = ", ".join(raw.fields)
        raise InputError(f"{raw.place}: no column {column!r} (columns: {names}); fix the card's column")
    inner = raw.fields[column]
    if not isinstance(inner, dict):
        raise InputError(f"{raw.place}: {column}: must be a mapping; fix the card's column")
    return RawRow(raw.origin, raw.row, inner)
