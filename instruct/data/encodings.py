"""Which encoding the text of a file is in."""

from __future__ import annotations

import codecs
import contextlib
import string

from instruct.base.errors import InputError, one_line

# In Western European text most letters are ASCII. Other languages' 8-bit encodings cannot be told apart this simply.
_WESTERN = 0.3


def text_codec(encoding: str | None, origin: str, option: str | None) -> str:
    """The name of the codec of an encoding; that of UTF-8, the default, skips a byte order mark.

    Raises:
        InputError: Python knows no such encoding of text.
    """
    try:
        codec = codecs.lookup(encoding or "utf-8")
        if not codec._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):  # ValueError: half a surrogate pair, a null character
        raise InputError(
            f"{origin}: unknown encoding {one_line(encoding, 40)!r}; set {option} to one that Python knows, such as "
            "latin-1"
        ) from None
    return "utf-8-sig" if codec.name == "utf-8" else codec.name


def wrong_encoding(data: bytes, origin: str, encoding: str, option: str | None, unit: str) -> InputError:
    """One line on where a file does not fit its encoding, with the encoding that it probably has.

    Args:
        option: what sets the encoding, if anything does.
        unit: what a line of the file is called.
    """
    name, place = "UTF-8" if encoding == "utf-8-sig" else encoding, ""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = f", {unit} {line}: byte {data[error.start]:#04x}"
    except UnicodeError:  # of a codec that does not say where
        pass
    guess = likely_encoding(data)
    problem = f"{origin}{place}: is not {name} text"
    if guess == "utf-8":
        return InputError(f"{problem} but UTF-8; remove {option}")
    if option is None:
        return InputError(f"{problem}; save the file as UTF-8")
    if guess is None or guess == encoding:
        remedy = f"set {option} to the file's encoding"
    else:
        remedy = f"it is probably {guess}: set {option} {guess}"
    return InputError(f"{problem}; {remedy}, or save the file as UTF-8")


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
