"""Files as they should not be: arbitrary ones, and valid ones with random changes, for readers to meet."""

from __future__ import annotations

import copy
import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

# What readers trip over: edges of types and ranges, half characters, control characters, depth, odd numbers.
DEEP: Any = "bottom"
for _ in range(150):
    DEEP = [DEEP]
ODD = [
    None, True, 0, -1, 3, 1.5, 2**63, 10**400, math.nan, -math.inf, "", "\n", "0", "1e5", "nan", "x" * 300, "\ud83d",
    "\x00", "\x1b[31m", "a\nb", "é", '"', "..", "~nobody/x", "{instruction}", "first", "tie", "failed", "baseline", [],
    {}, [None], {"": None}, {"a": {"b": [1, "c"]}}, DEEP,
]  # fmt: skip
TEXTS = st.text(st.characters(codec=None), max_size=8)
VALUES = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def files(draw: st.DrawFn, suffixes: Sequence[str], valid: Sequence[Any]) -> tuple[str, bytes]:
    """One of the suffixes, and the content of such a file: a valid one, a changed one, or an arbitrary one.

    Args:
        valid: the content of valid files.
    """
    suffix, content = draw(st.sampled_from(suffixes)), draw(st.sampled_from(valid))
    kind = draw(st.sampled_from([*["changed"] * 5, "bytes", "bytes", "arbitrary", "arbitrary bytes"]))
    if kind == "arbitrary bytes":
        return suffix, draw(st.binary(max_size=60))
    if kind != "bytes":
        content = draw(changed(content) if kind == "changed" else VALUES)
    whole = written(content, suffix, draw)
    return suffix, draw(changed_bytes(whole)) if kind == "bytes" else whole


@st.composite
def changed(draw: st.DrawFn, content: Any) -> Any:
    """A JSON value with one to three changes at random places."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(content))
        if not places:
            return copy.deepcopy(draw(VALUES))
        parent, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "remove", "repeat", "rename"]))
        if change == "remove":
            del parent[key]
        elif change == "repeat" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        elif change == "rename" and isinstance(parent, dict):
            parent[draw(TEXTS)] = parent.pop(key)
        else:
            parent[key] = copy.deepcopy(draw(VALUES))  # a later change must not reach into ODD
    return content


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: its list or mapping, and its index or key."""
    for key in range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ():
        yield value, key
        yield from _places(value[key])


def written(content: Any, suffix: str, draw: st.DrawFn) -> bytes:
    if suffix == ".csv":
        rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
        text = io.StringIO()
        writer = csv.writer(text)
        columns = list(rows[0]) if rows else ["x"]
        writer.writerow(columns)
        writer.writerows([row.get(column, "") for column in columns] for row in rows)
        return text.getvalue().encode("utf-8", "surrogatepass")
    if suffix == ".yaml" and draw(st.booleans()):
        return yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode(errors="surrogatepass")
    rows = content if isinstance(content, list) else [content]
    parts = [content] if suffix in (".json", ".yaml") else rows
    escaped = draw(st.booleans())
    return "".join(json.dumps(part, ensure_ascii=escaped) + "\n" for part in parts).encode("utf-8", "surrogatepass")


# Bytes that mean something to JSON, YAML, CSV or a decoder.
PIECES = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\xbd", b"\\ud83d", b"\n", b"\r", b"\xe2\x80\xa8", b'"', b",", b": ",
    b"{", b"]", b"- ", b"#", b"&a [*a]", b"!!int ", b"!!timestamp ", b"!!set ", b"2026-13-45", b"1e999", b"NaN",
    b"9" * 5000, b"[" * 2000, b"? ", b"<<: ", b"%", b"---\n", b"|\n", b"~", b"null", b"yes", b"\t",
]  # fmt: skip


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes with one to three pieces removed, inserted, replaced or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 0, 1, 2, 8, 40])))
        piece = draw(st.just(b"") | st.sampled_from(PIECES) | st.binary(min_size=1, max_size=4))
        content = content[:start] + (b"" if draw(st.integers(0, 9)) == 0 else piece + content[end:])
    return content
