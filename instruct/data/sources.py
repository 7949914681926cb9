"""Raw rows from local files, tables or plain text, or from the hub, each with the place that it came from."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.models import use_cache_if_unreachable
from instruct.base.parsing import JSON, RepeatedKeyError, parse_json
from instruct.data.cards import Documents, Source
from instruct.data.nulls import ArrowRows

SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")
# WikiText's files end in .tokens. After .gz, every suffix that is not a table's is text.
TEXT_SUFFIXES = (".txt", ".tokens")

_Reader = Callable[[io.TextIOWrapper, str], Iterator["RawRow"]]


@dataclass(frozen=True)
class RawRow:
    """A row as it is in its source. `row` is counted from 1; in a JSONL file it is the line.

    `nulls`: the keys of its tool calls and tools that were left out, see `ArrowRows`. `is_csv`: numbers are texts, too.
    """

    origin: str
    row: int
    fields: dict[str, Any]
    nulls: int = 0
    is_csv: bool = False

    @property
    def place(self) -> str:
        """The place as an error message names it."""
        return f"{self.origin}, row {self.row}"

    @property
    def columns(self) -> str:
        """The names of its columns, for error messages."""
        return one_line(", ".join(map(str, self.fields)), 120)


def read_source(
    source: Source,
    folder: Path,
    read: Callable[[Path, str | None], Iterator[RawRow]] | None = None,
    section: str = "data",
) -> Iterator[RawRow]:
    """The rows of a card's source; `folder` is that of the card, and `read` reads a file (default: `read_file`).

    `section` is that of the config whose `files` can take the place of the card, for errors.

    Raises:
        InputError: an unreadable file, or a data set that cannot be downloaded.
    """
    read = read or read_file
    if source.files is not None:
        for file in source.files:
            yield from read(folder / Path(file).expanduser(), None)
        return
    use_cache_if_unreachable()
    assert source.hub is not None
    try:
        if source.file is None:
            from datasets import load_dataset

            rows = load_dataset(source.hub, source.subset, revision=source.revision, split=source.split)
            arrow = ArrowRows(rows.features and rows.features.arrow_schema)
            for number, fields in enumerate(rows, start=1):
                yield RawRow(source.hub, number, *arrow.restored(fields))
            return
        from huggingface_hub import hf_hub_download

        path = hf_hub_download(source.hub, source.file, repo_type="dataset", revision=source.revision)
    except Exception as error:  # the hub's client raises its own, httpx's and the system's errors; a builder, any
        raise _unreachable(source, section, error) from None
    yield from read(Path(path), f"{source.hub}/{source.file}")


def read_file(path: Path, origin: str | None = None) -> Iterator[RawRow]:
    """The rows of a JSON (an array of objects), JSONL, CSV (with a header) or Parquet file, in UTF-8.

    All but the last may be compressed (.gz).

    Raises:
        InputError: a missing file, an unknown type, no rows, or an unreadable row.
    """
    packed, suffix = path.suffix.lower() == ".gz", Path(path.name.lower().removesuffix(".gz")).suffix
    readers: dict[str, _Reader] = {".json": _read_json, ".jsonl": _read_jsonl, ".csv": _read_csv}
    if not packed:
        readers[".parquet"] = lambda file, name: _read_parquet(file.buffer, name)
    return _rows(path, origin or str(path), ", ".join(SUFFIXES), readers.get(suffix))


def read_texts(path: Path, origin: str | None = None, documents: Documents = "line") -> Iterator[RawRow]:
    """The documents of a text file in UTF-8, as rows with the field `text`.

    White space is kept: only the line break that ends a line, LF or CRLF, belongs to no document. A row's number is
    that of its line.

    Args:
        path: a text file, or one compressed with gzip (.gz).
        origin: the file's name in errors.
        documents: `line`: each line is a document; `file`: the file is one.

    Raises:
        InputError: a missing or empty file, or one that is not UTF-8.
    """

    def read(file: io.TextIOWrapper, name: str) -> Iterator[RawRow]:
        for number, line in enumerate([file.read()] if documents == "file" else file, start=1):
            text = line if documents == "file" else re.sub(r"\r?\n\Z", "", line)
            if line:
                yield RawRow(name, number, {"text": text})

    return _rows(path, origin or str(path), "text", read)


def is_text_file(path: Path) -> bool:
    """Whether a file is plain text, by its name."""
    suffix = path.suffix.lower()
    return suffix in TEXT_SUFFIXES or (suffix == ".gz" and Path(path.stem).suffix.lower() not in SUFFIXES)


def _rows(path: Path, origin: str, kind: str, read: _Reader | None) -> Iterator[RawRow]:
    """The rows of a file.

    Args:
        kind: of file, for the error that there is none.
        read: the rows of an open file, which may be compressed, and is called `origin`; None: nobody can read it.

    Raises:
        InputError: no such file, no complete gzip file, a tar archive, no UTF-8, or no row.
    """
    if path.is_dir():
        raise InputError(f"{origin}: is a folder; give the files inside it")
    if not path.is_file():
        raise InputError(f"{origin}: no such file; give the path of an existing {kind} file")
    if read is None:
        raise InputError(f"{origin}: unknown file type {path.suffix or '(no suffix)'!r}; give a {kind} file")
    row = None
    open_bytes: Callable[..., Any] = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with open_bytes(path, "rb") as file:
            beginning = file.read(262)
        if beginning[257:] == b"ustar":
            raise InputError(f"{origin}: holds a tar archive; unpack it and give the files inside")
        # A carriage return may be inside a row.
        with io.TextIOWrapper(open_bytes(path, "rb"), "utf-8-sig", newline="\n") as text:
            for row in read(text, origin):
                yield row
    except UnicodeDecodeError:
        with open_bytes(path, "rb") as file:
            lines = enumerate(file, start=1)
            wrong = next(number for number, line in lines if line.decode(errors="ignore").encode() != line)
        raise InputError(f"{origin}, line {wrong}: is not UTF-8 text; save the file as UTF-8, or unpack it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{origin}: is not a complete gzip file; download or compress it again") from None
    except OSError as error:
        raise InputError(f"{origin}: cannot be read ({error.strerror or error}); check its permissions") from None
    if row is None:
        raise InputError(f"{origin}: has no rows; give a file with at least one")


def check_names(names: Iterable[str], place: str) -> None:
    """Refuse columns that are lost, as the last of a name is read, or not found, because of a space.

    Raises:
        InputError: two columns have the same name, or one begins or ends with white space.
    """
    for name, times in Counter(filter(None, names)).items():
        if times > 1:
            raise InputError(f"{place}: has the column {one_line(name, 60)!r} {times} times; keep one of them")
        if name != name.strip():
            raise InputError(
                f"{place}: the column {one_line(repr(name), 60)} begins or ends with white space; rename it to "
                f"{one_line(name.strip(), 60)!r}"
            )


def _read_jsonl(file: io.TextIOBase, origin: str) -> Iterator[RawRow]:
    for number, line in enumerate(file, start=1):
        if line.isspace():
            continue
        try:
            content = parse_json(line)
        except RepeatedKeyError as error:
            raise InputError(f"{origin}, row {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            problem = one_line(getattr(error, "msg", error), 100)
            raise InputError(
                f"{origin}, row {number}: is not JSON ({problem}); write one JSON object per line"
            ) from None
        yield _as_row(origin, number, content)


def _read_json(file: io.TextIOWrapper, origin: str) -> Iterator[RawRow]:
    text = file.read()
    if not text.strip():
        return
    try:
        content = parse_json(text)
    except RepeatedKeyError as error:
        row, end = 0, 0
        with contextlib.suppress(RepeatedKeyError):  # in the row that it ends with
            while True:
                row += 1
                end = re.compile(r"[\s\[,]*").match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
                _, end = JSON.raw_decode(text, end)
        raise InputError(f"{origin}, row {row}: {error}") from None
    except (ValueError, RecursionError) as error:
        # Many .json files on the hub are JSON lines, one object per line.
        if getattr(error, "msg", "") == "Extra data" and text.lstrip().startswith("{"):
            yield from _read_jsonl(io.StringIO(text), origin)
            return
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        problem = one_line(getattr(error, "msg", error), 100)
        raise InputError(f"{origin}{line}: is not JSON ({problem}); fix that line") from None
    for number, item in enumerate(content if isinstance(content, list) else [content], start=1):
        yield _as_row(origin, number, item)


def _read_csv(file: io.TextIOWrapper, origin: str) -> Iterator[RawRow]:
    """Columns are separated by commas, or as some programs save them, by semicolons or tabs."""
    # A long answer may exceed the default limit of 128 KiB per field.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    number = 0
    try:
        header = file.readline()
        separators = [mark for mark in (",", ";", "\t") if mark in header]
        reader = csv.DictReader(itertools.chain([header], file), strict=True, delimiter=[*separators, ","][0])
        check_names(reader.fieldnames or [], f"{origin}, header")
        for number, record in enumerate(reader, start=1):
            if None in record or None in record.values():
                raise InputError(
                    f"{origin}, row {number}: must have the {len(reader.fieldnames or [])} fields of the header; "
                    "quote fields that contain commas or line breaks"
                )
            yield RawRow(origin, number, dict(record), is_csv=True)
    except csv.Error as error:
        raise InputError(f"{origin}, row {number + 1}: is not CSV ({one_line(error)}); fix its quotes") from None


def _read_parquet(content: Any, origin: str) -> Iterator[RawRow]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(content) as file:
            check_names(file.schema_arrow.names, origin)
            arrow = ArrowRows(file.schema_arrow, json_texts=True)
            for batch in file.iter_batches(batch_size=1000):
                for fields in batch.to_pylist():
                    number += 1
                    yield RawRow(origin, number, *arrow.restored(fields))
    except RepeatedKeyError as error:
        raise InputError(f"{origin}, row {number}: {error}") from None
    except (pyarrow.ArrowException, ValueError) as error:
        raise InputError(f"{origin}: is not a Parquet file ({one_line(error, 120)}); write it again") from None


def _as_row(origin: str, number: int, content: Any) -> RawRow:
    if not isinstance(content, dict):
        names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
        kind = names.get(type(content), "null")
        raise InputError(f'{origin}, row {number}: is a JSON {kind}, not an object; write {{"field": "text", …}}')
    check_names(content, f"{origin}, row {number}")
    return RawRow(origin, number, content)


def _unreachable(source: Source, section: str, error: Exception) -> InputError:
    """One line on why a data set could not be downloaded, with the remedy."""
    what = f"data set {source.hub}" + (f", file {source.file}" if source.file else "")
    kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
    text = f"{error} {error.__cause__ or ''}"
    local = f"or download the rows and name the file in place of the data set ({section}.files)"
    access = f"{what}: access is restricted; accept its terms on its hub page and run `hf auth login`, {local}"
    if "Gated" in kinds or "gated dataset" in text:
        return InputError(access)
    if "offline" in text.lower():
        return InputError(
            f"{what}: the rows are not cached, and the hub is out of reach or its offline mode is on; check the "
            f"network and HF_HUB_OFFLINE, {local}"
        )
    if "Unknown split" in text:
        return InputError(
            f"{what}: has no split {source.split!r} ({one_line(error, 120)}); fix the card's source.split"
        )
    # The hub also answers 401 for a missing data set, so check for that before the status.
    if "NotFound" in kinds and "LocalEntryNotFound" not in kinds:
        return InputError(
            f"{what}: not found at revision {source.revision!r}; check the card's source, "
            f"run `hf auth login` if it is private, {local}"
        )
    if re.search(r"\b(401|403)\b", text):
        return InputError(access)
    reason = one_line(error, 140) or type(error).__name__
    return InputError(f"{what}: could not be downloaded ({reason}); check the network and HF_ENDPOINT, {local}")
