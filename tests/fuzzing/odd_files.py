"""Files as they should not be: arbitrary ones, and valid ones with random changes, for readers to meet."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

# What readers trip over: edges of types and ranges, half characters, control characters, depth, odd numbers.
DEEP: Any = "bottom"
for _ in range(150):
    DEEP = [DEEP]
ODD = [
    None, True, False, 0, -1, 1, 2, 3, 1.5, 0.5, 2**31, 2**63, -(2**64), 10**400, 1e308, math.nan, math.inf,
    -math.inf,
    "", " ", "\n", "0", "-1", "1e5", "nan", "x" * 300, "九" * 90, "\ud83d", "\udc00", "\x00", "\x1b[31m", "a\nb",
    "é", "'", '"',
    "/", "..", "~", "~nobody/x", "{instruction}", "first", "second", "tie", "failed", "baseline", [], {}, [[]],
    [None], {"": None},
    {"a": {"b": [1, "c"]}}, DEEP,
]  # fmt: skip
TEXTS = st.text(st.characters(codec=None), max_size=8)
VALUES = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


JUDGMENT_COLUMNS = (
    "judge", "candidate", "baseline", "pair", "instruction", "dataset", "position", "key", "verdict", "reason",
    "preference", "ratings", "trimmed",
)  # fmt: skip
COMPLETION_COLUMNS = (
    "key", "text", "label_logprobs", "finish_reason", "prompt_tokens", "completion_tokens", "choice", "model",
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn, suffixes: Sequence[str], valid: Sequence[Any]) -> tuple[str, bytes]:
    """One of the suffixes, and the content of such a file: a valid one, a changed one, or an arbitrary one.

    Args:
        valid: the content of valid files; for `.sqlite` functions that return their bytes, for `.zip` their bytes.
    """
    suffix = draw(st.sampled_from(suffixes))
    chosen = draw(st.sampled_from(valid))
    if suffix == ".sqlite":
        database = chosen()
        kind = draw(st.sampled_from(["cells", "cells", "schema", "bytes", "arbitrary"]))
        if kind in ("cells", "schema"):
            return suffix, draw(changed_database(database, kind))
    elif suffix == ".zip":
        database, kind = chosen, draw(st.sampled_from(["valid", "bytes", "bytes", "arbitrary bytes"]))
    else:
        kind = draw(st.sampled_from(["valid", *["changed"] * 5, "bytes", "bytes", "arbitrary", "arbitrary bytes"]))
        if kind != "arbitrary bytes":
            content = chosen if kind in ("valid", "bytes") else draw(changed(chosen) if kind == "changed" else VALUES)
            database = written(content, suffix, draw)
    if kind == "bytes":
        database = draw(changed_bytes(database))
    elif kind == "arbitrary bytes" or (suffix == ".sqlite" and kind == "arbitrary"):
        database = draw(st.binary(max_size=60))
    return suffix, database


@st.composite
def changed(draw: st.DrawFn, content: Any) -> Any:
    """A JSON value with one to three changes at random places."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(content))
        if not places:
            return copy.deepcopy(draw(VALUES))
        parent, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "rename", "take"]))
        if change == "replace":
            parent[key] = copy.deepcopy(draw(VALUES))  # a later change must not reach into ODD
        elif change == "remove":
            del parent[key]
        elif change == "repeat" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        elif change == "rename" and isinstance(parent, dict):
            parent[draw(TEXTS)] = parent.pop(key)
        else:
            other, where = draw(st.sampled_from(places))
            with contextlib.suppress(LookupError):  # it was removed
                parent[key] = copy.deepcopy(other[where])
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
    if suffix == ".txt":
        rows = content if isinstance(content, list) else [content]
        return "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogatepass")
    if suffix == ".yaml" and draw(st.booleans()):
        return yaml.safe_dump(content, allow_unicode=draw(st.booleans()), sort_keys=False).encode(
            errors="surrogatepass"
        )
    escaped = draw(st.booleans())
    if suffix == ".jsonl" or (suffix == ".json" and isinstance(content, list) and draw(st.integers(0, 4)) == 0):
        rows = content if isinstance(content, list) else [content]
        return "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows).encode("utf-8", "surrogatepass")
    return json.dumps(content, ensure_ascii=escaped).encode("utf-8", "surrogatepass")


# Bytes that mean something to JSON, YAML, CSV or a decoder.
PIECES = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\xbd", b"\\ud83d", b"\n", b"\r", b"\r\n", b"\x0b", b"\x1c",
    b"\xe2\x80\xa8",
    b'"', b"'", b",", b":", b": ", b"{", b"}", b"[", b"]", b"- ", b"#", b"&a ", b"*a", b"!!int ", b"!!float ",
    b"!!binary ",
    b"!!timestamp ", b"!!set ", b"!!omap ", b"!!pairs ", b"!!python/none ", b"2026-13-45", b"2026-02-30T25:61:61Z",
    b"1e999", b"NaN",
    b"-Infinity", b"0x", b"0b", b"0o8", b"1:99:99", b"9" * 5000, b"[" * 2000, b"{a: " * 500, b"? ", b"<<: ",
    b"<<: [1]", b"%", b"@", b"`",
    b"---\n", b"...\n", b"|\n", b">\n", b"~", b"null", b"true", b"yes", b"=", b"\t", b"&a [*a]", b"&a {b: *a}",
    b"\xc2\x85",
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


@st.composite
def changed_database(draw: st.DrawFn, database: bytes, kind: str) -> bytes:
    """A store with other values in some cells, or with other tables, columns or versions."""
    tables = {"judgments": JUDGMENT_COLUMNS, "completions": COMPLETION_COLUMNS, "spending": ("key", "judge", "usd")}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store.sqlite")
        Path(path).write_bytes(database)
        with contextlib.closing(sqlite3.connect(path)) as db:
            for _ in range(draw(st.integers(1, 3))):
                table = draw(st.sampled_from(sorted(tables)))
                column = draw(st.sampled_from(tables[table]))
                with contextlib.suppress(sqlite3.Error, UnicodeEncodeError, OverflowError):
                    if kind == "cells":
                        value = draw(
                            st.sampled_from([each for each in ODD if not isinstance(each, list | dict)]) | TEXTS
                        )
                        if draw(st.integers(0, 3)) == 0:
                            value = json.dumps(draw(VALUES))
                        where = draw(st.sampled_from(["", "WHERE rowid = 1", "WHERE rowid = 2"]))
                        db.execute("PRAGMA ignore_check_constraints = ON")
                        cast = "CAST(x'ff00fe' AS TEXT)" if draw(st.integers(0, 9)) == 0 else "?"
                        db.execute(f"UPDATE {table} SET {column} = {cast} {where}", [value] if cast == "?" else [])
                    else:
                        version = draw(st.sampled_from([0, 1, 2, 3, 4, 99]))
                        statements = [
                            f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME TO x", f"DELETE FROM {table}",
                            f"ALTER TABLE {table} DROP COLUMN {column}", f"PRAGMA user_version = {version}",
                            f"ALTER TABLE {table} RENAME COLUMN {column} TO x", "CREATE TABLE x (a)",
                            "CREATE TABLE leases (a)",
                            f"DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1",
                        ]  # fmt: skip
                        db.executescript(draw(st.sampled_from(statements)))
                db.commit()
        return Path(path).read_bytes()
