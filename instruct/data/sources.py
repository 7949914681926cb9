"""Raw rows from local files or the hub, each with the place that it came from."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from instruct.base.errors import InputError, one_line
from instruct.base.hub import use_cache_if_unreachable
from instruct.data.cards import Source
from instruct.data.encodings import likely_encoding, text_codec, wrong_encoding

SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")


@dataclass(frozen=True)
class RawRow:
    """A row as it is in its source. `row` is counted from 1; in a JSONL file it is the line."""

    origin: str
    row: int
    fields: dict[str, Any]

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
    streaming: bool = False,
    section: str = "data",
) -> Iterator[RawRow]:
    """The rows of a card's source; `folder` is that of the card, and `read` reads a file (default: `read_file`).

    `streaming` reads a data set of the hub without downloading all of it; a source's `file` is always downloaded.
    `section` is that of the config whose `files` can take the place of the card, for errors.

    Raises:
        InputError: an unreadable file, or a data set that cannot be downloaded.
    """
    read = read or read_file
    if source.files is not None:
        for file in source.files:
            yield from read(folder / Path(file).expanduser(), None)
    elif source.file is not None:
        yield from read(_download(source, section), f"{source.hub}/{source.file}")
    else:
        yield from _read_hub(source, streaming, section)


def read_file(
    path: Path, origin: str | None = None, *, encoding: str | None = None, option: str | None = None
) -> Iterator[RawRow]:
    """The rows of a JSON (an array of objects), JSONL, CSV (with a header) or Parquet file.

    All but the last may be compressed (.gz).

    Args:
        encoding: of text that is neither UTF-8 nor UTF-16 with its mark, such as cp1252.
        option: what sets the encoding, for errors.

    Raises:
        InputError: a missing file, an unknown type or encoding, no rows, or an unreadable row.
    """
    origin = origin or str(path)
    rows = _read_table(path, origin, encoding, option)
    return checked_rows(path, origin, rows, ", ".join(SUFFIXES), "has no rows; give a file with at least one")


def checked_rows(path: Path, origin: str, rows: Iterator[RawRow], kind: str, empty: str) -> Iterator[RawRow]:
    """The rows of a file, which are not read before it is known to be there.

    Args:
        kind: of file, for the error that there is none.
        empty: what a file without rows is, and what to do.

    Raises:
        InputError: no such file, no complete gzip file, or no row.
    """
    if path.is_dir():
        raise InputError(f"{origin}: is a folder; give the files inside it")
    if not path.is_file():
        raise InputError(f"{origin}: no such file; give the path of an existing {kind} file")
    has_rows = False
    try:
        for row in rows:
            has_rows = True
            yield row
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{origin}: is not a complete gzip file; download or compress it again") from None
    except OSError as error:
        raise InputError(f"{origin}: cannot be read ({error.strerror or error}); check its permissions") from None
    if not has_rows:
        raise InputError(f"{origin}: {empty}")


def _read_table(path: Path, origin: str, encoding: str | None, option: str | None) -> Iterator[RawRow]:
    compressed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem).suffix.lower() if compressed else path.suffix.lower()
    if suffix == ".parquet" and not compressed:
        yield from _read_parquet(path, origin)
        return
    reader = {".json": _read_json, ".jsonl": _read_jsonl, ".csv": _read_csv}.get(suffix)
    if reader is None:
        raise InputError(
            f"{origin}: unknown file type {path.suffix or '(no suffix)'!r}; give a {', '.join(SUFFIXES)} file"
        )
    codec = _codec_of(path, origin, encoding, option)
    try:
        yield from reader(path, origin, codec)
    except UnicodeError:
        with open_bytes(path) as file:
            raise wrong_encoding(file.read(), origin, codec, option, "line") from None


def _codec_of(path: Path, origin: str, encoding: str | None, option: str | None) -> str:
    """UTF-16 by its mark, else UTF-8; the named encoding reads only what is neither."""
    with open_bytes(path) as file:
        beginning = file.read(2)
        data = beginning + file.read() if encoding else b""
    if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    codec = text_codec(encoding, origin, option)
    return codec if encoding and likely_encoding(data) != "utf-8" else "utf-8-sig"


def open_bytes(path: Path) -> IO[bytes]:
    """A file's bytes; those inside it if it is compressed (.gz), see `checked_rows`."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def _read_jsonl(path: Path, origin: str, codec: str) -> Iterator[RawRow]:
    with open_bytes(path) as file, io.TextIOWrapper(file, codec, newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                problem = one_line(getattr(error, "msg", error), 100)
                raise InputError(
                    f"{origin}, row {number}: is not JSON ({problem}); write one JSON object per line"
                ) from None
            yield _as_row(origin, number, content)


def _read_json(path: Path, origin: str, codec: str) -> Iterator[RawRow]:
    with open_bytes(path) as file, io.TextIOWrapper(file, codec) as lines:
        text = lines.read()
    if not text.strip():
        return
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        # Many .json files on the hub are JSON lines, one object per line.
        if getattr(error, "msg", "") == "Extra data" and text.lstrip().startswith("{"):
            yield from _read_jsonl(path, origin, codec)
            return
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        problem = one_line(getattr(error, "msg", error), 100)
        raise InputError(f"{origin}{line}: is not JSON ({problem}); fix that line") from None
    for number, item in enumerate(content if isinstance(content, list) else [content], start=1):
        yield _as_row(origin, number, item)


def _read_csv(path: Path, origin: str, codec: str) -> Iterator[RawRow]:
    """Columns are separated by commas, or as Excel saves them: by semicolons, or by tabs in UTF-16."""
    # A long answer may exceed the default limit of 128 KiB per field.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open_bytes(path) as raw, io.TextIOWrapper(raw, codec, newline="") as file:
        number = 0
        try:
            header = file.readline()
            separators = [mark for mark in (",", ";", "\t") if mark in header]
            reader = csv.DictReader(itertools.chain([header], file), strict=True, delimiter=[*separators, ","][0])
            for number, record in enumerate(reader, start=1):
                if None in record or None in record.values():
                    raise InputError(
                        f"{origin}, row {number}: must have the {len(reader.fieldnames or [])} fields of the header; "
                        "quote fields that contain commas or line breaks"
                    )
                yield RawRow(origin, number, dict(record))
        except csv.Error as error:
            raise InputError(f"{origin}, row {number + 1}: is not CSV ({one_line(error)}); fix its quotes") from None


def _read_parquet(path: Path, origin: str) -> Iterator[RawRow]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1000):
                for fields in batch.to_pylist():
                    number += 1
                    yield RawRow(origin, number, fields)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{origin}: is not a Parquet file ({one_line(error, 120)}); write it again") from None


def _as_row(origin: str, number: int, content: Any) -> RawRow:
    if not isinstance(content, dict):
        raise InputError(
            f'{origin}, row {number}: is a JSON {_json_type(content)}, not an object; write {{"field": "text", …}}'
        )
    return RawRow(origin, number, content)


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _download(source: Source, section: str) -> Path:
    from huggingface_hub import hf_hub_download

    use_cache_if_unreachable()
    assert source.hub is not None
    assert source.file is not None
    try:
        return Path(hf_hub_download(source.hub, source.file, repo_type="dataset", revision=source.revision))
    except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
        raise _unreachable(source, section, error) from None


def _read_hub(source: Source, streaming: bool, section: str) -> Iterator[RawRow]:
    import datasets

    use_cache_if_unreachable()
    assert source.hub is not None
    try:
        rows = datasets.load_dataset(
            source.hub, source.subset, revision=source.revision, split=source.split, streaming=streaming
        )
        for number, fields in enumerate(rows, start=1):
            yield RawRow(source.hub, number, fields)
    except Exception as error:  # as above, and any error of a builder or, of a stream, while it is read
        raise _unreachable(source, section, error) from None


def _unreachable(source: Source, section: str, error: Exception) -> InputError:
    """One line on why a data set could not be downloaded, with the remedy."""
    what = f"data set {source.hub}" + (f", file {source.file}" if source.file else "")
    kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
    text = f"{error} {error.__cause__ or ''}"
    local = f"or download the rows and name the file in place of the data set (--{section}.files)"
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
