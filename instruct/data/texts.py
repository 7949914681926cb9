"""Plain text files, compressed or not: one document a line or one a file, to the letter."""

from __future__ import annotations

import codecs
import contextlib
import io
import string
from collections.abc import Iterator
from pathlib import Path

from instruct.base.errors import InputError, one_line
from instruct.data.cards import Documents
from instruct.data.sources import SUFFIXES, RawRow, checked_rows, open_bytes

# WikiText's files end in .tokens. After .gz, every suffix that is not a table's is text.
TEXT_SUFFIXES = (".txt", ".tokens")
# In Western European text most letters are ASCII. Other languages' 8-bit encodings cannot be told apart this simply.
_WESTERN = 0.3


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
        name = _codec(origin, encoding, section)
        try:
            with open_bytes(path) as file, io.TextIOWrapper(file, name, newline="\n") as lines:
                for number, text in enumerate([lines.read()] if documents == "file" else lines, start=1):
                    if text:
                        yield RawRow(origin, number, {"text": text if documents == "file" else _line(text)})
        except UnicodeError:
            with open_bytes(path) as file:
                raise _wrong_encoding(file.read(), origin, encoding, section) from None

    return checked_rows(path, origin, rows(), "text", "is empty; give a file with text")


def _codec(origin: str, encoding: str | None, section: str) -> str:
    """The name of the codec of an encoding; that of UTF-8 skips a byte order mark."""
    try:
        codec = codecs.lookup(encoding or "utf-8")
        if not codec._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):  # ValueError: half a surrogate pair, a null character
        raise InputError(
            f"{origin}: unknown encoding {one_line(encoding, 40)!r}; set {section}.encoding to one that Python knows, "
            "such as latin-1"
        ) from None
    return "utf-8-sig" if codec.name == "utf-8" else codec.name


def _line(text: str) -> str:
    """A line without its line break."""
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def _wrong_encoding(data: bytes, origin: str, encoding: str | None, section: str) -> InputError:
    """One line on where a file does not fit its encoding, with the encoding that it probably has."""
    name, place = encoding or "UTF-8", ""
    try:
        data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = f", row {line}: byte {data[error.start]:#04x}"
    except UnicodeError:  # of a codec that does not say where
        pass
    guess = likely_encoding(data)
    if guess == "utf-8":
        return InputError(f"{origin}{place}: is not {name} text but UTF-8; remove {section}.encoding")
    if guess is None or guess == encoding:
        remedy = f"set {section}.encoding to the file's encoding"
    else:
        remedy = f"it is probably {guess}: set {section}.encoding {guess}"
    return InputError(f"{origin}{place}: is not {name} text; {remedy}, or save the file as UTF-8")


def likely_encoding(data: bytes) -> str | None:
    """The encoding that bytes probably have; None if they give no hint."""
    with contextlib.suppress(UnicodeDecodeError):
        data.decode()
        return "utf-8"
    for mark, name in [
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ]:
        if data.startswith(mark):
            return name
    if data[1::2].count(0) > len(data) / 4:
        return "utf-16-le"
    if data[::2].count(0) > len(data) / 4:
        return "utf-16-be"
    high = data.translate(None, bytes(range(0x80)))
    ascii_letters = len(data) - len(data.translate(None, string.ascii_letters.encode()))
    if not high or len(high) > _WESTERN * (len(high) + ascii_letters):
        return None
    # Latin-1 has only control characters between 0x80 and 0x9f, Windows' code page has quotation marks and dashes.
    return "cp1252" if any(byte < 0xA0 for byte in high) else "latin-1"
