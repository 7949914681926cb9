"""Cards of sets with human labels (`data/human/NAME.yaml`), and where the files of a set are found."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, model_validator

from instruct.base.cards import list_cards, nearest, read_yaml, validated
from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.models import cache_folder
from instruct.base.options import Options
from instruct.base.output import warn
from instruct.data.sources import RawRow, read_file

Label = Literal["first", "second", "tie"]
FILE_TYPES = (".json", ".jsonl", ".csv")


class Columns(Options):
    """The columns that make a pair; with several `files`, NAME.COLUMN, or NAME alone for a text file.

    `label`: one column, or one for each annotator. `input` is the instruction's context, for judges that show it
    separately.
    """

    instruction: str
    input: str | None = None
    first: str
    second: str
    label: str | list[str] = Field(min_length=1)
    group: str | None = None


class HumanSetCard(Options):
    """`data/human/NAME.yaml`, which describes a set whose files are not part of this project.

    Attributes:
        file: its path below the card's folder, or below a folder of data (`find_file`).
        files: several such paths by name, whose rows belong together in their order; a .txt file has a value per line.
        key: a column that must be equal in all of the files that have it, such as a question's id.
        columns: the columns of a pair; None: found by their usual names.
        labels: what the values of the label columns mean; None: they are first, second and tie.
        url: where the file is downloaded from if it is not found; needs `sha256`.
        rows: the expected number of pairs.
        groups: the values of the group column in each group.
    """

    name: str = Field(min_length=1)
    description: str
    file: str | None = None
    files: dict[str, str] | None = Field(default=None, min_length=2)
    key: str | None = None
    columns: Columns | None = None
    labels: dict[str | int, Label] | None = Field(default=None, min_length=1)
    url: str | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    rows: int | None = Field(default=None, ge=1)
    licence: str
    citation: str | None = None
    notes: str | None = None
    groups: dict[str, list[str]] | None = None
    _folder: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _fits_together(self) -> HumanSetCard:
        if (self.file is None) == (self.files is None):
            raise ValueError("give exactly one of file (a path) and files (paths by name)")
        if self.files is not None and (self.url or self.sha256):
            raise ValueError("url and sha256 belong to file; remove them")
        if self.files is not None and self.columns is None:
            raise ValueError("files needs columns, as NAME.COLUMN")
        if self.key is not None and self.files is None:
            raise ValueError("key belongs to files")
        if self.url is not None and self.sha256 is None:
            raise ValueError("url needs sha256, by which a download is checked")
        if self.labels is not None and self.columns is None:
            raise ValueError("labels needs columns, so that the labels' columns are known")
        return self

    @property
    def label_columns(self) -> tuple[str, ...]:
        """One for each annotator; () without `columns`."""
        if self.columns is None:
            return ()
        return (self.columns.label,) if isinstance(self.columns.label, str) else tuple(self.columns.label)


def load_human_card(name: str) -> HumanSetCard:
    """The card of a known set, by its name or as a YAML file.

    Raises:
        InputError: no such card (with the nearest names), or an invalid one.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        cards = {card.name: card.path for card in list_cards("data/human")}
        if name not in cards:
            raise InputError(
                f"unknown set of human labels {one_line(name, 80)!r}{nearest(name, cards)}; "
                f"name one of these or a {', '.join(FILE_TYPES)} file of labelled pairs"
            )
        path = cards[name]
    card = validated(HumanSetCard, read_yaml(path), path)
    card._folder = path.resolve().parent
    return card


def find_files(card: HumanSetCard) -> dict[str, Path]:
    """The set's files by their names in the card; a single file has the name "".

    A file is looked for next to the card, in $INSTRUCT_SHARED_DATA (or ../shared/data) and in the cache, and is else
    downloaded into the cache.

    Raises:
        InputError: it is in none of these and cannot be downloaded, or its SHA-256 is not the card's.
    """
    return {name: _find(card, file) for name, file in (card.files or {"": str(card.file)}).items()}


def read_rows(card: HumanSetCard, files: dict[str, Path]) -> list[RawRow]:
    """The set's rows: those of its only file, or the rows of several files side by side.

    Raises:
        InputError: an unreadable file, or files that do not belong together.
    """
    if card.files is None:
        return list(read_file(files[""]))
    read = {name: list(_rows(path)) for name, path in files.items()}
    (first, rows), *others = read.items()
    for name, other in others:
        if len(other) != len(rows):
            raise InputError(
                f"human set {card.name}: {files[name]} has {len(other)} rows, but {files[first]} has {len(rows)}; give "
                "files whose rows belong together"
            )
    return [_joined(card, dict(zip(read, together, strict=True))) for together in zip(*read.values(), strict=True)]


def _joined(card: HumanSetCard, rows: dict[str, RawRow]) -> RawRow:
    fields = {
        f"{name}.{field}" if field else name: value for name, row in rows.items() for field, value in row.fields.items()
    }
    first = next(iter(rows.values()))
    keys = [(row, row.fields[card.key]) for row in rows.values() if card.key in row.fields]
    for row, key in keys[1:]:
        if key != keys[0][1]:
            raise InputError(
                f"{row.place}: {card.key}: {one_line(repr(key), 40)} is not that of {keys[0][0].place} "
                f"({one_line(repr(keys[0][1]), 40)}); give files whose rows belong together"
            )
    return RawRow(first.origin, first.row, fields)


def _rows(path: Path) -> Iterator[RawRow]:
    """The rows of a file; of a text file its lines, in a field without a name."""
    if path.suffix.lower() != ".txt":
        yield from read_file(path)
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; save the file as UTF-8") from None
    yield from (RawRow(str(path), number, {"": line}) for number, line in enumerate(lines, start=1))


def _find(card: HumanSetCard, file: str) -> Path:
    cached = cache_folder() / "human" / file
    shared = Path(os.environ.get("INSTRUCT_SHARED_DATA") or Path("..", "shared", "data"))
    for path in (card._folder / file, shared / file, cached):
        if path.is_file():
            if card.sha256 not in (None, sha256_of(path)):
                raise InputError(
                    f"{path}: is not the file of the set {card.name} (its SHA-256 is not {card.sha256}); "
                    f"replace it with {card.url or 'that file'}"
                )
            return path
    remedy = f"put it at {cached}, or set INSTRUCT_SHARED_DATA to a folder with {file}"
    if card.url is None:
        raise InputError(f"human set {card.name}: its file {file} was not found; {remedy}")
    _download(card, card.url, cached, f"{remedy} (SHA-256 {card.sha256})")
    return cached


def _download(card: HumanSetCard, url: str, path: Path, remedy: str) -> None:
    warn(f"downloading {url} ({card.licence})")
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            content = reply.read()
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise InputError(f"human set {card.name}: {url} is not the card's file (other SHA-256); {remedy}")
        write_atomically(path, content)
    except OSError as error:  # urllib's errors are OSErrors too
        raise InputError(
            f"human set {card.name}: its file was not found and {url} could not be downloaded "
            f"({one_line(error, 120)}); {remedy}"
        ) from None
