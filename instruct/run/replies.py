"""Replies of models, committed as they arrive, in SQLite."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.replies import Completion, Failure, Reply

VERSION = 8
# Attempts at a request that keeps failing: the first, and two by reruns.
_MOST_ATTEMPTS = 3
# Keys in one statement: fewer than SQLite's limit on variables.
_CHUNK = 500

_SCHEMA = """
CREATE TABLE completions (
    key TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    label_logprobs TEXT,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    choice TEXT,
    model TEXT,
    reasoning TEXT,
    tool_calls TEXT,
    reasoning_tokens INTEGER,
    changes TEXT,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
CREATE TABLE spending (
    key TEXT NOT NULL,
    judge TEXT NOT NULL,
    usd REAL NOT NULL,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
CREATE TABLE attempts (
    key TEXT PRIMARY KEY,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    permanent INTEGER NOT NULL
) STRICT;
"""
_WORK = """
CREATE TABLE work (
    work TEXT PRIMARY KEY,
    engine TEXT NOT NULL,
    weights TEXT,
    seconds REAL NOT NULL
) STRICT;
"""
# What a store keeps of a completion, and what of it as JSON.
_FIELDS = [
    *("text", "label_logprobs", "finish_reason", "prompt_tokens", "completion_tokens", "choice", "model"),
    *("reasoning", "tool_calls", "reasoning_tokens", "changes"),
]
_COLUMNS = ", ".join(["key", *_FIELDS])
_JSON = ("label_logprobs", "choice", "tool_calls")
_PARTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_checked: set[Path] = set()  # stores whose pages this process has checked


def completion_key(asked: dict[str, Any]) -> str:
    """The SHA-256 of everything that could change a reply, and nothing else: prompt, model, decoding, sample."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class ReplyStore:
    """Completions by their keys, what they cost, and requests that failed.

    synchronous=FULL: neither a killed process nor a power cut loses what was committed.

    Raises:
        InputError: the file is not a store, is damaged, or has another version.
    """

    kind = "store of replies"
    instead = "restore it from a copy, or give another run"
    schema = _SCHEMA
    shared = True  # other processes may read while one writes

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._reserved: dict[str, int | None] = {}  # the rows in spending of what this process has reserved
        self._db = sqlite3.connect(":memory:")
        try:
            self._db = self._connected()
            if not self.shared:
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._check_pages()
            if self._version() == (0, 0):
                self._create()
            version = self._version()[0]
            unknown = self._unknown_parts() if version == VERSION else []
            self._db.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            self._db.close()
            if _is_damaged(error):
                raise InputError(f"{path}: is not a {self.kind} ({_words(error)}); {self.instead}") from None
            raise InstructError(
                f"{path}: cannot be opened ({_words(error)}); free disk space, or make it readable, or end the process "
                "that locks it"
            ) from None
        if version != VERSION:
            self._db.close()
            raise InputError(
                f"{path}: is a {self.kind} of version {version}, not {VERSION}; use the version of emo-instruct "
                "that wrote it"
            )

        if unknown:
            self._db.close()
            raise InputError(f"{path}: is no {self.kind} of this program (its {unknown[0]}); {self.instead}")

    def _connected(self) -> sqlite3.Connection:
        """The database; a copy in memory, to read alone, where nothing can be written: SQLite writes to read."""
        places = (self.path, self.path.parent)
        if str(self.path) == ":memory:" or not self.path.exists() or all(os.access(path, os.W_OK) for path in places):
            return sqlite3.connect(self.path, timeout=30, isolation_level=None)
        memory = sqlite3.connect(":memory:", isolation_level=None)
        with tempfile.TemporaryDirectory() as folder:
            for ending in ("", "-wal"):
                if os.path.exists(f"{self.path}{ending}"):
                    shutil.copyfile(f"{self.path}{ending}", f"{folder}/store{ending}")
            with contextlib.closing(sqlite3.connect(f"{folder}/store")) as copy:
                copy.backup(memory)
        memory.execute("PRAGMA query_only = ON")
        return memory

    def _unknown_parts(self) -> list[str]:
        """What the database has besides, or instead of, the store's tables: triggers, views, other columns."""
        with contextlib.closing(sqlite3.connect(":memory:")) as new:
            new.executescript(self.schema)
            parts, expected = (
                {(kind, name, " ".join(sql.split())) for kind, name, sql in database.execute(_PARTS)}
                for database in (self._db, new)
            )
        return sorted(f"{kind} {one_line(name, 60)}" for kind, name, _ in parts ^ expected)

    def _check_pages(self) -> None:
        """Refuse a file whose pages are damaged, once a process: 0.2 s for 100,000 replies."""
        place = self.path.resolve()
        if place in _checked:
            return
        try:
            problems = [problem for (problem,) in self._db.execute("PRAGMA quick_check(1)")]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a damaged name may be in the message
            if not _is_damaged(error) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise
            problems = [one_line(error, 100)]
        if problems != ["ok"]:
            self._db.close()
            raise self._damaged(one_line(problems[0], 100))
        _checked.add(place)

    def _create(self) -> None:
        if self.shared:
            self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            if self._version() == (0, 0):  # another process may have done it by now
                for statement in self.schema.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> tuple[int, int]:
        """The version and the number of tables; in one statement, so that both are of the same moment."""
        version, tables = self._db.execute(
            "SELECT user_version, (SELECT COUNT(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        return version, tables

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The stored completions among `keys`."""
        completions = {}
        for key, *values in self._by_key(f"SELECT {_COLUMNS} FROM completions", keys):
            fields = dict(zip(_FIELDS, values, strict=True))
            for name in _JSON:
                fields[name] = self._loaded(fields[name], name)
            completions[key] = Completion(**fields)
        return completions

    def replies(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to those of `keys` that were asked: completions, or why a request failed the last time.

        A failure is `permanent` if it is asked again only on demand: refused for good, or asked again twice in vain.
        """
        keys = [*keys]
        rows = self._by_key("SELECT key, attempts, reason, permanent FROM attempts", keys)
        failed: dict[str, Reply] = {
            key: Failure(reason, permanent=bool(permanent) or attempts >= _MOST_ATTEMPTS)
            for key, attempts, reason, permanent in rows
        }
        return failed | self.completions(keys)

    def given_up(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys without a completion that are asked again only on demand."""
        return {key for key, reply in self.replies(keys).items() if isinstance(reply, Failure) and reply.permanent}

    def add_replies(self, judge: str, replies: Iterable[tuple[str, Reply, float]]) -> None:
        """Commit replies in one transaction: key, reply and cost in US dollars.

        A completion that is stored already is kept; what the new one cost is counted all the same, in place of what was
        reserved for it. A failure is one more attempt at its request, if it was tried.
        """
        replies = list(replies)
        with self._transaction():
            self._insert((key, reply) for key, reply, _ in replies)
            self._release(key for key, _, _ in replies)
            self._db.executemany(
                "INSERT INTO spending (key, judge, usd) VALUES (?, ?, ?)",
                [(key, judge, usd) for key, _, usd in replies if usd],
            )

    def reserve(self, judge: str, key: str, usd: float) -> None:
        """Commit the most that a request can cost before it is sent, in US dollars: it counts as spent until it ends.

        `created` is empty meanwhile. What is still reserved when a process has ended may have been charged.
        """
        with self._transaction():
            self._release([key])
            values = [key, judge, usd]
            row = self._db.execute("INSERT INTO spending (key, judge, usd, created) VALUES (?, ?, ?, '')", values)
        self._reserved[key] = row.lastrowid

    def release(self, keys: Iterable[str]) -> None:
        """Remove what is reserved for requests that were not sent, or that nobody was charged for."""
        with self._transaction():
            self._release(keys)

    def _release(self, keys: Iterable[str]) -> None:
        rows = [(self._reserved.pop(key),) for key in keys if key in self._reserved]
        self._db.executemany("DELETE FROM spending WHERE rowid = ? AND created = ''", rows)

    def keep_reserved(self) -> None:
        """Count what a process that has ended had reserved as spent for good."""
        if self._read("SELECT 1 FROM spending WHERE created = '' LIMIT 1"):
            with self._transaction():
                self._db.execute(
                    "UPDATE spending SET created = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE created = ''"
                )

    def _insert(self, replies: Iterable[tuple[str, Reply]]) -> None:
        for key, reply in replies:
            if isinstance(reply, Completion):
                row = {name: getattr(reply, name) for name in _FIELDS}
                row |= {name: json.dumps(row[name]) for name in _JSON if row[name] is not None}
                marks = ", ".join("?" * (1 + len(_FIELDS)))
                self._db.execute(
                    f"INSERT OR IGNORE INTO completions ({_COLUMNS}) VALUES ({marks})", [key, *row.values()]
                )
            elif reply.tried:
                self._db.execute(
                    "INSERT INTO attempts VALUES (?, 1, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                    "attempts = attempts + 1, reason = excluded.reason, permanent = excluded.permanent",
                    [key, reply.reason, reply.permanent],
                )

    def spent_usd(self, judge: str | None = None) -> float:
        """What the replies in this store cost, in US dollars: all of them, or one judge's.

        Raises:
            InputError: a cost is negative or not finite, which would lift a budget.
        """
        where, values = ("", ()) if judge is None else (" WHERE judge = ?", (judge,))
        least, total = self._read(f"SELECT MIN(usd), TOTAL(usd) FROM spending{where}", values)[0]
        if (least or 0) < 0 or not math.isfinite(total):
            raise self._damaged("spending: a cost is negative or infinite")
        return float(total)

    def _by_key(self, select: str, keys: Iterable[str]) -> list[tuple[Any, ...]]:
        """The rows of a table that have one of `keys`."""
        keys = list(dict.fromkeys(keys))
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            rows += self._read(f"{select} WHERE key IN ({', '.join('?' * len(chunk))})", chunk)
        return rows

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if _is_damaged(error):
                raise self._damaged(_words(error)) from None
            raise InstructError(
                f"{self.path}: cannot be read ({_words(error)}); end the process that locks it"
            ) from None

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"{self.path}: is damaged ({problem}); {self.instead}")

    def _loaded(self, text: str | None, column: str) -> Any:
        try:
            return None if text is None else json.loads(text)
        except ValueError:
            raise self._damaged(f"{column}: is not what was stored there") from None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or rolls back
                yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            if _is_damaged(error):
                raise self._damaged(_words(error)) from None
            raise InstructError(
                f"{self.path}: could not be written ({error}); free disk space, or end the process that locks it; "
                "committed replies are kept, so rerun the command to resume"
            ) from None


class Work(NamedTuple):
    """What a system's replies were made with.

    Attributes:
        work: a hash of everything that could change a reply, besides the engine.
        engine: its name, version and device.
        weights: what came of comparing those that answer with those that were trained.
        seconds: that the replies took.
    """

    work: str
    engine: str
    weights: str | None = None
    seconds: float = 0.0


class AnswerStore(ReplyStore):
    """Replies to a system's prompts, all of one work and one engine.

    One process has it open, so that a network file system will do: it needs no shared memory, and no lock but the
    first.
    """

    kind = "store of answers"
    instead = "delete it, and its prompts are asked again"
    schema = ReplyStore.schema + _WORK
    shared = False

    def work(self) -> Work | None:
        """What the replies were made with; None: there are none."""
        rows = self._read("SELECT work, engine, weights, seconds FROM work")
        return Work(*rows[0]) if rows else None

    def start(self, work: Work) -> None:
        """Begin another work, without any replies."""
        with self._transaction():
            for table in ("completions", "attempts", "work"):
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("INSERT INTO work VALUES (?, ?, ?, ?)", work)

    def set_weights(self, weights: str | None) -> None:
        """What came of comparing the weights, with the same engine."""
        with self._transaction():
            self._db.execute("UPDATE work SET weights = ?", [weights])

    def add(self, replies: Iterable[tuple[str, Reply]], seconds: float) -> None:
        """Commit replies by their keys, and what they took."""
        with self._transaction():
            self._insert(replies)
            self._db.execute("UPDATE work SET seconds = seconds + ?", [seconds])

    def forgive(self) -> bool:
        """Let every failed request be sent again, also those that were refused; whether there is one."""
        failed = "key NOT IN (SELECT key FROM completions)"
        if not self._read(f"SELECT 1 FROM attempts WHERE {failed} LIMIT 1"):
            return False
        with self._transaction():
            self._db.execute(f"UPDATE attempts SET attempts = 0, permanent = 0 WHERE {failed}")
        return True


def _is_damaged(error: Exception) -> bool:
    """Whether the file itself is wrong, rather than busy, on a full disk or not accessible."""
    return not isinstance(error, sqlite3.OperationalError) or (
        getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    )


def _words(error: Exception) -> str:
    return one_line(error, 100)
