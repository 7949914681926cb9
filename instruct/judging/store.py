"""The judgment store: every completion that was asked for, committed as it arrives, in SQLite."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from instruct.base.errors import InputError, InstructError, one_line
from instruct.engines.base import Completion
from instruct.judging.comparison import Comparison

VERSION = 3
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
"""
# From a version to the next. Version 2 had a table of keys that processes sharing a run had reserved.
_MIGRATIONS = {2: "DROP TABLE leases"}


@dataclass(frozen=True)
class Judgment:
    """One verdict, in the order shown.

    Attributes:
        pair: the pair's index in the comparison.
        position: where the candidate was shown, "first" or "second".
        key: of the completion that the verdict was read from; "" if nothing was asked; two keys separated by a space
            for two single ratings.
        preference: a weighted judge's, in AlpacaEval's coding and the order shown: 1 prefers the first answer, 2 the
            second, 1.5 neither.
        ratings: of the answers shown first and second.
        trimmed: the answers were cut to fit the judge's context.
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


def verdict_problem(judgment: Judgment) -> str | None:
    """What is wrong with a verdict's figures, for verdicts from a file; None if nothing is."""
    preference, verdict = judgment.preference, judgment.verdict
    if preference is not None:
        if not 1 <= preference <= 2:
            return f"preference: {preference:g} must be from 1 (the answer shown first) to 2 (the second)"
        if verdict in ("unparsed", "failed"):
            return f"preference: a verdict that is {verdict} has none; remove it"
        if (verdict, preference > 1.5) in (("first", True), ("second", False)) and preference != 1.5:
            return f"preference: {preference:g} contradicts the verdict {verdict}; correct one of them"
    if judgment.ratings is not None and not all(map(math.isfinite, judgment.ratings)):
        return "ratings: must be two finite numbers"
    return None


_POSITIONS = ("first", "second")
_VERDICTS = ("first", "second", "tie", "unparsed", "failed")
_UNREADABLE = object()
_COLUMNS = ", ".join(field.name for field in fields(Judgment))


def completion_key(asked: dict[str, Any]) -> str:
    """The SHA-256 of everything that could change a reply, and nothing else: prompt, model, decoding, sample."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class JudgmentStore:
    """`judgments.sqlite`: completions, the verdicts read from them, and what they cost.

    WAL with synchronous=FULL: neither a killed process nor a power cut loses what was committed. Reports may read while
    one process judges; that it is one is up to `instruct.run.lock`. A store of version 2 is migrated.

    Raises:
        InputError: the file is not a store, or has another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            version = self._migrated()
            self._db.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            self._db.close()
            if _is_damaged(error):
                raise InputError(f"{path}: is not a judgment store ({_words(error)}); give another run") from None
            raise InstructError(
                f"{path}: cannot be opened ({_words(error)}); free disk space, or end the process that locks it"
            ) from None
        if version != VERSION:
            self._db.close()
            raise InputError(
                f"{path}: is a judgment store of version {version}, not {VERSION}; use the version of emo-instruct "
                "that wrote it"
            )

    def _migrated(self) -> int:
        """The store's version, after creating its tables or migrating them."""
        version, tables = self._version()
        if version == tables == 0:
            self._db.execute("PRAGMA journal_mode = WAL")
        if version in _MIGRATIONS or version == tables == 0:
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:
                version, tables = self._version()  # again: another process may have done it by now
                statements = []
                if version == tables == 0:
                    version, statements = VERSION, _SCHEMA.split(";\n")
                while version in _MIGRATIONS:
                    statements.append(_MIGRATIONS[version])
                    version += 1
                for statement in statements:
                    self._db.execute(statement)
                if statements:
                    self._db.execute(f"PRAGMA user_version = {version}")
        return version

    def _version(self) -> tuple[int, int]:
        """The version and the number of tables; in one statement, so that both are of the same moment."""
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
            rows = self._read(
                "SELECT key, text, label_logprobs, finish_reason, prompt_tokens, completion_tokens, choice, model "
                f"FROM completions WHERE key IN ({_marks(chunk)})",
                chunk,
            )
            for key, text, logprobs, finish, prompt, completion, choice, model in rows:
                odds = self._loaded(logprobs, "label_logprobs", _are_by_label)
                whole = self._loaded(choice, "choice", lambda value: isinstance(value, dict))
                found[key] = Completion(text, odds, finish, prompt, completion, whole, model)
        return found

    def add_replies(self, judge: str, replies: Iterable[tuple[str, Completion | None, float]]) -> None:
        """Commit replies in one transaction: key, completion (None if there was none) and cost in US dollars.

        A completion that is stored already is kept; what the new one cost is counted all the same.
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

        self._transaction(write)

    def add_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Commit verdicts; an earlier verdict on the same pair and order is replaced."""
        rows = [_judgment_row(judgment) for judgment in judgments]
        marks = ", ".join("?" * len(fields(Judgment)))
        statement = f"INSERT OR REPLACE INTO judgments ({_COLUMNS}) VALUES ({marks})"
        if rows:
            self._transaction(lambda: self._db.executemany(statement, rows))

    def remove_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Remove verdicts; the completions that they were read from are kept."""
        rows = [(j.judge, j.candidate, j.baseline, j.instruction, j.position) for j in judgments]
        statement = (
            "DELETE FROM judgments WHERE judge = ? AND candidate = ? AND baseline = ? AND instruction = ? "
            "AND position = ?"
        )
        if rows:
            self._transaction(lambda: self._db.executemany(statement, rows))

    def comparisons(self) -> list[Comparison]:
        """The comparisons that have verdicts, sorted by name."""
        rows = self._read(
            "SELECT DISTINCT judge, candidate, baseline FROM judgments ORDER BY judge, candidate, baseline"
        )
        return [Comparison(*row) for row in rows]

    def judgments(self, comparison: Comparison) -> list[Judgment]:
        """The verdicts on a comparison, ordered by pair and position."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM judgments WHERE judge = ? AND candidate = ? AND baseline = ? "
            "ORDER BY pair, position",
            comparison,
        )
        return [self._judgment(row) for row in rows]

    def spent_usd(self, judge: str | None = None) -> float:
        """What the replies in this store cost, in US dollars: all of them, or one judge's."""
        where, values = ("", ()) if judge is None else (" WHERE judge = ?", (judge,))
        return float(self._read(f"SELECT TOTAL(usd) FROM spending{where}", values)[0][0])

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if _is_damaged(error):
                raise self._damaged(_words(error)) from None
            raise InstructError(
                f"{self.path}: cannot be read ({_words(error)}); end the process that locks it"
            ) from None

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"{self.path}: is damaged ({problem}); restore it from a copy, or judge in another run")

    def _judgment(self, row: tuple[Any, ...]) -> Judgment:
        """A row of judgments, checked: whatever wrote it may have been another program."""
        values = dict(zip((field.name for field in fields(Judgment)), row, strict=True))
        ratings = self._loaded(values["ratings"], "ratings", _are_two)
        judgment = Judgment(
            **values | {"ratings": tuple(ratings) if ratings else None, "trimmed": bool(values["trimmed"])}
        )
        problem = verdict_problem(judgment)
        if judgment.position not in _POSITIONS or judgment.verdict not in _VERDICTS:
            problem = "position or verdict: has an unknown value"
        if problem:
            raise self._damaged(f"pair {judgment.pair}: {problem}")
        return judgment

    def _loaded(self, text: str | None, column: str, fits: Callable[[Any], bool]) -> Any:
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = _UNREADABLE
        if not fits(value):
            raise self._damaged(f"{column}: is not what was stored there")
        return value

    def _transaction(self, write: Callable[[], object]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or rolls back
                write()
        except sqlite3.OperationalError as error:
            raise InstructError(
                f"{self.path}: could not be written ({error}); free disk space, or end the process that locks it; "
                "committed replies are kept, so rerun the command to resume"
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


def _are_two(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _are_by_label(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file itself is wrong, rather than busy, on a full disk or not accessible."""
    return not isinstance(error, sqlite3.OperationalError) or (
        getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    )


def _words(error: sqlite3.Error) -> str:
    return one_line(error, 100)


def _chunks(keys: Iterable[str]) -> list[list[str]]:
    keys = list(dict.fromkeys(keys))
    return [keys[start : start + _CHUNK] for start in range(0, len(keys), _CHUNK)]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
