"""The rows of a task: fields and a label, from the hub or from files."""

from __future__ import annotations

import csv
import fnmatch
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.output import say
from instruct.data.cards import Source
from instruct.data.formats import check_storable
from instruct.data.sources import RawRow, read_file, read_source
from instruct.data.texts import decoded, read_texts
from instruct.measuring.tasks.cards import PLACEHOLDER, SplitOptions, TaskCard, TaskSource

# What sets the encoding, for errors: `the card's local.encoding`.
_SECTION = "the card's local"


@dataclass(frozen=True)
class TaskRow:
    """A row: its fields as text (those that the card uses), its label's name, and its place for error messages."""

    fields: dict[str, str]
    label: str
    place: str


@dataclass(frozen=True)
class TaskRows:
    """The rows of a task: those of the demonstrations' split, and the test rows. `sha256` names their content."""

    train: list[TaskRow]
    test: list[TaskRow]
    sha256: str


def load_rows(card: TaskCard, folder: Path | None = None) -> TaskRows:
    """The demonstrations and test rows of a task.

    Args:
        folder: where the files of the card's `local` source are; None, or a card without one: its `source`.

    Raises:
        InputError: a file or split that is missing or cannot be read, a field or label that is missing, a label that
            the card does not have.
    """
    source = card.local if folder is not None and card.local else card.source
    if source.hub is None and folder is None:
        raise InputError(
            f"task {card.name}: its rows are files; set --evaluation.tasks.folder to the folder that contains "
            f"{source.splits['test'].files[0] if source.splits['test'].files else 'them'}"
        )
    train = _rows_of(card, source, card.demonstrations_from, folder)
    test = _rows_of(card, source, "test", folder)
    content = json.dumps([[[*row.fields.items()], row.label] for row in (*train, *test)]).encode()
    return TaskRows(train, test, hashlib.sha256(content).hexdigest())


def _rows_of(card: TaskCard, source: TaskSource, split: str, folder: Path | None) -> list[TaskRow]:
    options = source.splits[split]
    rows = [_task_row(card, source, raw) for raw in _raw_rows(card, source, options, folder)]
    if options.each_label:
        rows = _of_each_label(rows, card.labels, *options.each_label)
    if not rows:
        raise InputError(f"task {card.name}: the split {split!r} has no rows; correct the card's {split}")
    return rows


def _of_each_label(rows: Sequence[TaskRow], labels: Sequence[str], first: int, last: int) -> list[TaskRow]:
    """The rows from `first` to before `last` of each label, in their order."""
    seen = dict.fromkeys(labels, 0)
    kept = []
    for row in rows:
        if first <= seen[row.label] < last:
            kept.append(row)
        seen[row.label] += 1
    return kept


def _task_row(card: TaskCard, source: TaskSource, raw: RawRow) -> TaskRow:
    fields = {}
    for name in used_fields(card):
        column = source.fields.get(name, name)
        if PLACEHOLDER.search(column):
            fields[name] = PLACEHOLDER.sub(lambda found: _text(card, raw, found[1]), column)
        else:
            fields[name] = _text(card, raw, column)
    return TaskRow(fields, _label(card, source, raw), raw.place)


def _text(card: TaskCard, raw: RawRow, column: str) -> str:
    value = _column(card, raw, column)
    if not isinstance(value, str | int | float):
        raise InputError(f"{raw.place}: {column} is not text; correct the row, or fields in the card {card.name}")
    check_storable(raw, column, value)
    return str(value)


def used_fields(card: TaskCard) -> list[str]:
    """The fields of a row that any wording of the task uses, the label left out."""
    texts = [text for name in (None, *card.variants) for text in (card.worded(name).template, card.worded(name).hint)]
    found = [name for text in texts for name in PLACEHOLDER.findall(text)]
    found += [card.text] if card.demonstrations == "retrieved" else []
    return sorted({*found, *([card.group] if card.group else [])} - {"label"})


def _column(card: TaskCard, raw: RawRow, name: str) -> Any:
    value: Any = raw.fields
    for part in name.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            known = ", ".join(one_line(each, 40) for each in raw.fields)
            raise InputError(
                f"{raw.place}: has no field {name!r} (fields: {known}); add it, or correct the card {card.name}"
            ) from None
    return value


def _label(card: TaskCard, source: TaskSource, raw: RawRow) -> str:
    value = _column(card, raw, source.label)
    text = str(value).strip()
    values = source.values if source.values is not None else card.labels
    if isinstance(values, dict):
        if text in values:
            return values[text]
        known = ", ".join(values)
    else:
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) < len(values):
            return values[int(text)]
        if text in card.labels:
            return text
        known = f"0 to {len(values) - 1}, {', '.join(card.labels)}"
    raise InputError(
        f"{raw.place}: the label {one_line(text, 40)!r} is not in the card {card.name} ({one_line(known, 200)}); "
        "correct the row, or values in the card"
    )


# Files


def _raw_rows(card: TaskCard, source: TaskSource, split: SplitOptions, folder: Path | None) -> Iterator[RawRow]:
    if split.split is not None:
        hub = Source(hub=source.hub, subset=source.subset, revision=source.revision, split=split.split)
        yield from read_source(hub, Path())
        return
    assert folder is not None
    for file in (*(split.files or []), *(split.label_files or [])):
        path = folder / (file.partition("!")[0] if source.format == "csv" else file)
        if not path.is_file():
            raise InputError(
                f"task {card.name}: {path}: no such file; set --evaluation.tasks.folder to the folder with the task's "
                "files, or correct the card's files"
            )
    for number, file in enumerate(split.files or []):
        if source.format == "table":
            yield from read_file(folder / file)
        elif source.format == "label_text":
            for raw in _without_blanks(
                folder / file, read_texts(folder / file, encoding=source.encoding, section=_SECTION)
            ):
                label, space, text = raw.fields["text"].strip().partition(" ")
                if not space:
                    raise InputError(f"{raw.place}: is not a label, a space and a text; correct the line")
                yield RawRow(raw.origin, raw.row, {"label": label, "text": text})
        elif source.format == "lines":
            labels = (split.label_files or [])[number]
            yield from _parallel(folder / file, folder / labels, source.encoding)
        else:
            yield from _headless(folder, file, source)


def _parallel(path: Path, label_file: Path, encoding: str) -> Iterator[RawRow]:
    """The lines of a file, each with the same line of the file of labels."""
    texts = list(read_texts(path, encoding=encoding, section=_SECTION))
    labels = list(read_texts(label_file, encoding=encoding, section=_SECTION))
    if len(texts) != len(labels):
        raise InputError(f"{path}: has {len(texts)} lines, {label_file} has {len(labels)}; each text needs one label")
    rows = (
        RawRow(text.origin, text.row, {"text": text.fields["text"].strip(), "label": label.fields["text"]})
        for text, label in zip(texts, labels, strict=True)
    )
    yield from _without_blanks(path, rows)


def _without_blanks(path: Path, rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """The rows that have a text; how many have none, and the first of them, is said."""
    blank = []
    for row in rows:
        if str(row.fields["text"]).strip():
            yield row
        else:
            blank.append(row.row)
    if blank:
        first = ", ".join(map(str, blank[:5])) + (", …" if len(blank) > 5 else "")
        say(f"note: {path}: blank rows left out: {len(blank)} (row {first})")


def _headless(folder: Path, file: str, source: TaskSource) -> Iterator[RawRow]:
    """The rows of CSV files without a header: one file, or those of an archive that match a pattern."""
    header = source.header or []
    for origin, matched, content in _contents(folder, file):
        text = decoded(content, origin, source.encoding, _SECTION)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        number = 0
        try:
            for number, record in enumerate(reader, start=1):
                if len(record) != len(header):
                    raise InputError(
                        f"{origin}, row {number}: has {len(record)} fields, the card's header {len(header)}; quote "
                        "fields that contain commas or line breaks"
                    )
                yield RawRow(origin, number, {**dict(zip(header, record, strict=True)), "file": matched})
        except csv.Error as error:
            raise InputError(f"{origin}, row {number + 1}: is not CSV ({one_line(error)}); fix its quotes") from None


def _contents(folder: Path, file: str) -> Iterator[tuple[str, str, bytes]]:
    """Origin, what matched the pattern's `*`, and bytes of a file (maybe gzip) or of an archive's matching members."""
    name, _, pattern = file.partition("!")
    path = folder / name
    try:
        if not pattern:
            data = path.read_bytes()
            yield str(path), path.stem, gzip.decompress(data) if path.suffix == ".gz" else data
            return
        with zipfile.ZipFile(path) as archive:
            names = sorted(fnmatch.filter(archive.namelist(), pattern))
            if not names:
                raise InputError(f"{path}: contains no {one_line(pattern, 80)}; correct the card's files")
            before, _, after = pattern.partition("*")
            for member in names:
                matched = member[len(before) : len(member) - len(after)]
                yield f"{path}!{one_line(member, 80)}", matched, archive.read(member)
    except (InputError, PermissionError):
        raise
    except Exception as error:  # of a damaged archive: zipfile's, the decompressors', struct's; of a password
        reason = one_line(error, 100) or type(error).__name__
        raise InputError(
            f"{path}: is damaged, or not compressed as its name says ({reason}); download it again"
        ) from None


def shown(fields: Mapping[str, str], template: str) -> str:
    """A template with the fields of a row in place of their names; braces in the fields are left alone."""
    return PLACEHOLDER.sub(lambda found: fields[found[1]], template)
