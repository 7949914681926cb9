"""The judgement store: every completion that was asked for, committed as it arrives, in SQLite."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from instruct.errors import InputError, InstructError

VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS completions (
    key TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    label_logprobs TEXT,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
CREATE TABLE IF NOT EXISTS judgments (
    judge TEXT NOT NULL,
    candidate TEXT NOT NULL,
    baseline TEXT NOT NULL,
    instruction TEXT NOT NULL,
    dataset TEXT NOT NULL,
    position TEXT NOT NULL CHECK (position IN ('first', 'second')),
    key TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('first', 'second', 'tie', 'unparsed', 'failed')),
    reason TEXT,
    PRIMARY KEY (judge, candidate, baseline, instruction, position)
) STRICT;
"""


@dataclass(frozen=True)
class Completion:
    """A judge's reply. `label_logprobs`: a label's text to its log-probability (natural) as the first token."""

    text: str
    label_logprobs: dict[str, float] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Judgment:
    """One verdict in the order shown; `position` is where the candidate stood."""

    judge: str
    candidate: str
    baseline: str
    instruction: str
    dataset: str
    position: str
    key: str
    verdict: str
    reason: str | None = None


def completion_key(asked: dict[str, Any]) -> str:
    """The SHA-256 of what could change a reply, and of nothing else: prompt, model, decoding, sample."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class JudgmentStore:
    """`judgments.sqlite`: the completions, and the verdicts read from them.

    WAL with synchronous=FULL: neither a killed process nor a power cut loses what was committed.

    Raises:
        InputError: the file is no store, or one of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Another process that writes is waited for, not failed at.
        self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            # In one statement, and below IF NOT EXISTS: another process may be making the same store at this moment.
            version, tables = self._db.execute(
                "SELECT user_version, (SELECT COUNT(*) FROM sqlite_master) FROM pragma_user_version"
            ).fetchone()
            if version == tables == 0:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
                version = VERSION
            self._db.execute("PRAGMA synchronous = FULL")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise InputError(f"{path}: is no judgement store ({error}); give another run") from None
        if version != VERSION:
            self._db.close()
            raise InputError(
                f"{path}: is a judgement store of version {version}, not {VERSION}; use the emo-instruct that wrote it"
            )

    def __enter__(self) -> JudgmentStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def completion(self, key: str) -> Completion | None:
        """A stored completion."""
        row = self._db.execute(
            "SELECT text, label_logprobs, finish_reason, prompt_tokens, completion_tokens FROM completions"
            " WHERE key = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        text, logprobs, *rest = row
        return Completion(text, json.loads(logprobs) if logprobs else None, *rest)

    def add_completions(self, completions: Iterable[tuple[str, Completion]]) -> None:
        """Commit completions: all of them or none."""
        rows = [
            (
                key,
                done.text,
                json.dumps(done.label_logprobs) if done.label_logprobs is not None else None,
                done.finish_reason,
                done.prompt_tokens,
                done.completion_tokens,
            )
            for key, done in completions
        ]
        self._write(
            "INSERT OR IGNORE INTO completions (key, text, label_logprobs, finish_reason, prompt_tokens, "
            "completion_tokens) VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    def add_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Commit verdicts; one that stands already for the same pair and order is replaced."""
        self._write(
            "INSERT OR REPLACE INTO judgments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [tuple(vars(judgment).values()) for judgment in judgments],
        )

    def remove_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Remove verdicts; the completions that they were read from stay."""
        self._write(
            "DELETE FROM judgments WHERE judge = ? AND candidate = ? AND baseline = ? AND instruction = ? "
            "AND position = ?",
            [(j.judge, j.candidate, j.baseline, j.instruction, j.position) for j in judgments],
        )

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or rolls back
                self._db.executemany(statement, rows)
        except sqlite3.OperationalError as error:
            raise InstructError(
                f"{self.path}: could not be written ({error}); free the disk or end who locks it"
            ) from None

    def comparisons(self) -> list[tuple[str, str, str]]:
        """The (judge, candidate, baseline) of which there are verdicts, in the order in which they were first made."""
        return self._db.execute(
            "SELECT judge, candidate, baseline FROM judgments GROUP BY judge, candidate, baseline ORDER BY MIN(rowid)"
        ).fetchall()

    def judgments(self, judge: str, candidate: str, baseline: str) -> list[Judgment]:
        """The verdicts of one comparison, in the order of the prompts."""
        rows = self._db.execute(
            "SELECT judge, candidate, baseline, instruction, dataset, position, key, verdict, reason FROM judgments "
            "WHERE judge = ? AND candidate = ? AND baseline = ? ORDER BY rowid",
            (judge, candidate, baseline),
        ).fetchall()
        return [Judgment(*row) for row in rows]
