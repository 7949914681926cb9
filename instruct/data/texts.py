"""Plain text files, compressed or not: one document a line or one a file, to the letter."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from instruct.data.cards import Documents
from instruct.data.encodings import text_codec, wrong_encoding
from instruct.data.sources import SUFFIXES, RawRow, checked_rows, open_bytes

# WikiText's files end in .tokens. After .gz, every suffix that is not a table's is text.
TEXT_SUFFIXES = (".txt", ".tokens")


def is_text_file(path: Path) -> bool:
    """Whether a file is plain text, by its name."""
    suffix = path.suffix.lower()
    return suffix in TEXT_SUFFIXES or (suffix == ".gz" and Path(path.stem).suffix.lower() not in SUFFIXES)


def read_texts(
    path: Path,
    origin: str | None = None,
    documents: Documents = "line",
    encoding: str | None = None,
    section: str = "data",
) -> Iterator[RawRow]:
    """The documents of a text file, as rows with the field `text`.

    White space is kept: only the line break that ends a line, LF or CRLF, belongs to no document. A row's number is
    that of its line.

    Args:
        path: a text file, or one compressed with gzip (.gz).
        origin: the file's name in errors.
        documents: `line`: each line is a document; `file`: the file is one.
        encoding: Python's name of the encoding; None: UTF-8, with or without a byte order mark.
        section: the config's section that sets the encoding, for errors.

    Raises:
        InputError: a missing or empty file, an unknown encoding, or bytes that do not fit the encoding.
    """
    origin = origin or str(path)

    def rows() -> Iterator[RawRow]:
        name = text_codec(encoding, origin, f"{section}.encoding")
        try:
            with open_bytes(path) as file, io.TextIOWrapper(file, name, newline="\n") as lines:
                for number, text in enumerate([lines.read()] if documents == "file" else lines, start=1):
                    if text:
                        yield RawRow(origin, number, {"text": text if documents == "file" else _line(text)})
        except UnicodeError:
            with open_bytes(path) as file:
                raise wrong_encoding(file.read(), origin, name, f"{section}.encoding", "row") from None

    return checked_rows(path, origin, rows(), "text", "is empty; give a file with text")


def _line(text: str) -> str:
    """A line without its line break."""
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
