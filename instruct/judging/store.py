"""The judgement store: every completion that was asked for, committed as it arrives, in SQLite."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from instruct.engines.base import Completion
from instruct.errors import InputError, InstructError
from instruct.judging.comparison import Comparison

VERSION = 2
# A lease outlives its holder by at most this, in seconds; one whose process is gone from this machine ends at once.
LEASE_SECONDS = 120.0
# Keys asked for in one statement: below SQLite's limit of variables.
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
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
CREATE TABLE judgments (
    judge TEXT NOT NULL,
    candidate TEXT NOT NULL,
    baseline TEXT NOT NULL,
    pair INTEGER NOT NULL,
    instruction TEXT NOT NULL,
    dataset TEXT NOT NULL,
    position TEXT NOT NULL CHECK (position IN ('first', 'second')),
    key TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('first', 'second', 'tie', 'unparsed', 'failed')),
    reason TEXT,
    preference REAL,
    ratings TEXT,
    trimmed INTEGER NOT NULL,
    PRIMARY KEY (judge, candidate, baseline, instruction, position)
) STRICT;
CREATE TABLE spending (
    key TEXT NOT NULL,
    judge TEXT NOT NULL,
    usd REAL NOT NULL,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
CREATE TABLE leases (key TEXT PRIMARY KEY, holder TEXT NOT NULL, expires REAL NOT NULL, usd REAL NOT NULL) STRICT;
"""

LeaseState = Literal["granted", "stored", "held", "unaffordable"]


@dataclass(frozen=True)
class Judgment:
    """One verdict in the order shown; `position` is where the candidate stood, `pair` the pair's place.

    `key` names the completion that it was read from: empty without a request, two keys and a space between them for
    two single ratings. `preference` is a weighted judge's, in AlpacaEval's coding and the order shown: 1 the answer
    shown first, 2 the second, 1.5 a draw. `ratings` are those of the answers shown first and second. `trimmed`: the
    answers were cut to fit the judge's context.
    """

    judge: str
    candidate: str
    baseline: str
    pair: int
    instruction: str
    dataset: str
    position: str
    key: str
    verdict: str
    reason: str | None = None
    preference: float | None = None
    ratings: tuple[float, float] | None = None
    trimmed: bool = False

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.judge, self.candidate, self.baseline)


_COLUMNS = ", ".join(field.name for field in fields(Judgment))


def completion_key(asked: dict[str, Any]) -> str:
    """The SHA-256 of what could change a reply, and of nothing else: prompt, model, decoding, sample."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class JudgmentStore:
    """`judgments.sqlite`: the completions, the verdicts read from them, and what they cost.

    WAL with synchronous=FULL: neither a killed process nor a power cut loses what was committed. Several processes
    may work on one store: a lease keeps two from asking the same.

    Raises:
        InputError: the file is no store, or one of another version.
    """

    def __init__(self, path: str | Path, holder: str | None = None) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._holder = holder or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        # Another process that writes is waited for, not failed at.
        self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            # In one statement, and below BEGIN IMMEDIATE: another process may be making the same store at this moment.
            version, tables = self._version()
            if version == tables == 0:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("BEGIN IMMEDIATE")
                with self._db:
                    version, tables = self._version()
                    if version == tables == 0:
                        for statement in _SCHEMA.split(";\n"):
                            self._db.execute(statement)
                        self._db.execute(f"PRAGMA user_version = {VERSION}")
                        version = VERSION
            self._db.execute("PRAGMA synchronous = FULL")
        except sqlite3.OperationalError as error:
            self._db.close()
            raise InstructError(f"{path}: cannot be opened ({error}); free the disk or end who locks it") from None
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise InputError(f"{path}: is no judgement store ({error}); give another run") from None
        if version != VERSION:
            self._db.close()
            raise InputError(
                f"{path}: is a judgement store of version {version}, not {VERSION}; use the emo-instruct that wrote it"
            )

    def again(self) -> JudgmentStore:
        """The same store for another thread; the leases are held together."""
        return JudgmentStore(self.path, self._holder)

    def _version(self) -> tuple[int, int]:
        version, tables = self._db.execute(
            "SELECT user_version, (SELECT COUNT(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        return version, tables

    def __enter__(self) -> JudgmentStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The stored completions among `keys`."""
        found: dict[str, Completion] = {}
        for chunk in _chunks(keys):
            rows = self._db.execute(
                "SELECT key, text, label_logprobs, finish_reason, prompt_tokens, completion_tokens, choice, model "
                f"FROM completions WHERE key IN ({_marks(chunk)})",
                chunk,
            )
            for key, text, logprobs, finish, prompt, completion, choice, model in rows:
                found[key] = Completion(text, _loaded(logprobs), finish, prompt, completion, _loaded(choice), model)
        return found

    def add_replies(self, judge: str, replies: Iterable[tuple[str, Completion | None, float]]) -> None:
        """Commit replies, all of them or none: a key, its completion (None: none came), and what it cost in US dollars.

        The leases on their keys end.
        """
        replies = list(replies)

        def write() -> None:
            self._db.executemany(
                "INSERT OR IGNORE INTO completions (key, text, label_logprobs, finish_reason, prompt_tokens, "
                "completion_tokens, choice, model) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(key, *_completion_row(done)) for key, done, _ in replies if done is not None],
            )
            self._db.executemany(
                "INSERT INTO spending (key, judge, usd) VALUES (?, ?, ?)",
                [(key, judge, usd) for key, _, usd in replies if usd],
            )
            self._db.executemany("DELETE FROM leases WHERE key = ?", [(key,) for key, _, _ in replies])

        self._transaction(write)

    def add_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Commit verdicts; one that stands already for the same pair and order is replaced."""
        rows = [_judgment_row(judgment) for judgment in judgments]
        marks = ", ".join("?" * len(fields(Judgment)))
        statement = f"INSERT OR REPLACE INTO judgments ({_COLUMNS}) VALUES ({marks})"
        if rows:
            self._transaction(lambda: self._db.executemany(statement, rows))

    def remove_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Remove verdicts; the completions that they were read from stay."""
        rows = [(j.judge, j.candidate, j.baseline, j.instruction, j.position) for j in judgments]
        statement = (
            "DELETE FROM judgments WHERE judge = ? AND candidate = ? AND baseline = ? AND instruction = ? "
            "AND position = ?"
        )
        if rows:
            self._transaction(lambda: self._db.executemany(statement, rows))

    def comparisons(self) -> list[Comparison]:
        """The comparisons that have verdicts, sorted by name."""
        rows = self._db.execute(
            "SELECT DISTINCT judge, candidate, baseline FROM judgments ORDER BY judge, candidate, baseline"
        )
        return [Comparison(*row) for row in rows]

    def judgments(self, comparison: Comparison) -> list[Judgment]:
        """The verdicts of one comparison, in the order of the pairs."""
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM judgments WHERE judge = ? AND candidate = ? AND baseline = ? "
            "ORDER BY pair, position",
            comparison,
        )
        return [_judgment(row) for row in rows]

    def spent_usd(self, judge: str | None = None) -> float:
        """What the replies in this store cost, in US dollars: all of them, or one judge's."""
        where, values = ("", ()) if judge is None else (" WHERE judge = ?", (judge,))
        return float(self._db.execute(f"SELECT TOTAL(usd) FROM spending{where}", values).fetchone()[0])

    def lease(self, wanted: Sequence[tuple[str, float]], budget_usd: float | None = None) -> dict[str, LeaseState]:
        """Take keys to ask for, in one transaction with the budget.

        Args:
            wanted: a key and the most that asking for it can cost, in US dollars.
            budget_usd: what is spent, what is reserved by leases, and what is granted here stay within it.

        Returns:
            For each key: `granted`, `stored` (its completion is there), `held` (another process is asking for it) or
            `unaffordable`.
        """
        states: dict[str, LeaseState] = {}

        def write() -> None:
            self._end_dead_leases()
            keys = [key for key, _ in wanted]
            stored, held = self._among("completions", keys), self._among("leases", keys)
            committed = self.spent_usd() + self._reserved_usd()
            granted = []
            for key, usd in wanted:
                if key in stored or key in held:
                    states[key] = "stored" if key in stored else "held"
                elif budget_usd is not None and committed + usd > budget_usd:
                    states[key] = "unaffordable"
                else:
                    states[key] = "granted"
                    committed += usd
                    granted.append((key, self._holder, time.time() + LEASE_SECONDS, usd))
            self._db.executemany("INSERT INTO leases VALUES (?, ?, ?, ?)", granted)

        self._transaction(write)
        return states

    def renew_leases(self) -> None:
        """Put off the end of this store's leases."""
        values = (time.time() + LEASE_SECONDS, self._holder)
        self._transaction(lambda: self._db.execute("UPDATE leases SET expires = ? WHERE holder = ?", values))

    def end_leases(self) -> None:
        """End this store's leases: what they were taken for is not asked any more."""
        self._transaction(lambda: self._db.execute("DELETE FROM leases WHERE holder = ?", (self._holder,)))

    def others_at_work(self) -> bool:
        """Whether another process holds a lease."""
        self._transaction(self._end_dead_leases)
        return self._db.execute("SELECT 1 FROM leases WHERE holder != ?", (self._holder,)).fetchone() is not None

    def _reserved_usd(self) -> float:
        return float(self._db.execute("SELECT TOTAL(usd) FROM leases").fetchone()[0])

    def _end_dead_leases(self) -> None:
        holders = [holder for (holder,) in self._db.execute("SELECT DISTINCT holder FROM leases")]
        for holder in holders:
            if _is_gone(holder):
                self._db.execute("DELETE FROM leases WHERE holder = ?", (holder,))
        self._db.execute("DELETE FROM leases WHERE expires < ?", (time.time(),))

    def _among(self, table: str, keys: Iterable[str]) -> set[str]:
        return {
            key
            for chunk in _chunks(keys)
            for (key,) in self._db.execute(f"SELECT key FROM {table} WHERE key IN ({_marks(chunk)})", chunk)
        }

    def _transaction(self, write: Callable[[], object]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or rolls back
                write()
        except sqlite3.OperationalError as error:
            raise InstructError(
                f"{self.path}: could not be written ({error}); free the disk or end who locks it; what was committed "
                "is kept, and the same command goes on"
            ) from None


def _completion_row(done: Completion) -> tuple[Any, ...]:
    logprobs = None if done.label_logprobs is None else json.dumps(done.label_logprobs)
    choice = None if done.choice is None else json.dumps(done.choice)
    return (
        done.text, logprobs, done.finish_reason, done.prompt_tokens, done.completion_tokens, choice, done.model,
    )  # fmt: skip


def _judgment_row(judgment: Judgment) -> tuple[Any, ...]:
    ratings = None if judgment.ratings is None else json.dumps(judgment.ratings)
    return tuple({**vars(judgment), "ratings": ratings, "trimmed": int(judgment.trimmed)}.values())


def _judgment(row: tuple[Any, ...]) -> Judgment:
    values = dict(zip((field.name for field in fields(Judgment)), row, strict=True))
    ratings = _loaded(values["ratings"])
    return Judgment(**values | {"ratings": tuple(ratings) if ratings else None, "trimmed": bool(values["trimmed"])})


def _is_gone(holder: str) -> bool:
    """Whether a lease's process was on this machine and has ended."""
    host, pid, _ = holder.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is there, and somebody else's
        return False
    return False


def _loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _chunks(keys: Iterable[str]) -> list[list[str]]:
    keys = list(dict.fromkeys(keys))
    return [keys[start : start + _CHUNK] for start in range(0, len(keys), _CHUNK)]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
