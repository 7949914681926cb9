"""The judgment store: replies and the verdicts read from them, committed as they arrive, in SQLite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from instruct.analysis.outcomes import EXCHANGED, ShownVerdict
from instruct.base.errors import InputError, one_line
from instruct.judging.comparison import ComparisonKey
from instruct.run.directory import RunDirectory
from instruct.run.replies import ReplyStore

_JUDGMENTS = """
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
"""


@dataclass(frozen=True)
class Judgment(ShownVerdict):
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

    @property
    def comparison(self) -> ComparisonKey:
        return ComparisonKey(self.judge, self.candidate, self.baseline)


Verdict = Literal["first", "second", "tie", "unparsed", "failed"]
_FIELDS = [field.name for field in fields(Judgment)]
_COLUMNS = ", ".join(_FIELDS)


class JudgmentStore(ReplyStore):
    """`judgments.sqlite`: replies, the verdicts read from them, and what they cost.

    Reports may read while one process judges (WAL); that it is one is up to `instruct.run.lock`.
    """

    kind = "judgment store"
    schema = ReplyStore.schema + _JUDGMENTS

    def add_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Commit verdicts; an earlier verdict on the same pair and order is replaced."""
        rows = [vars(judged) | {"ratings": judged.ratings and json.dumps(judged.ratings)} for judged in judgments]
        values = ", ".join(f":{name}" for name in _FIELDS)
        with self._transaction():
            self._db.executemany(f"INSERT OR REPLACE INTO judgments ({_COLUMNS}) VALUES ({values})", rows)

    def remove_judgments(self, comparison: ComparisonKey) -> None:
        """Remove the verdicts on a comparison; the replies that they were read from are kept."""
        with self._transaction():
            self._db.execute("DELETE FROM judgments WHERE (judge, candidate, baseline) = (?, ?, ?)", comparison)

    def comparisons(self) -> list[ComparisonKey]:
        """The comparisons that have verdicts, sorted by name."""
        names = "judge, candidate, baseline"
        return [ComparisonKey(*row) for row in self._read(f"SELECT DISTINCT {names} FROM judgments ORDER BY {names}")]

    def judgments(self, comparison: ComparisonKey) -> list[Judgment]:
        """The verdicts on a comparison, ordered by pair and position."""
        these = "WHERE judge = ? AND candidate = ? AND baseline = ? ORDER BY pair, position"
        return [self._judgment(row) for row in self._read(f"SELECT {_COLUMNS} FROM judgments {these}", comparison)]

    def seen_judgments(self, comparison: ComparisonKey) -> list[Judgment]:
        """The same, from whichever side the comparison was made."""
        return self.judgments(comparison) or [
            replace(made, candidate=made.baseline, baseline=made.candidate, position=EXCHANGED[made.position])
            for made in self.judgments(comparison.mirrored)
        ]

    def _judgment(self, row: tuple[Any, ...]) -> Judgment:
        values = dict(zip(_FIELDS, row, strict=True))
        ratings = self._loaded(values["ratings"], "ratings")
        values |= {"ratings": ratings and tuple(ratings), "trimmed": bool(values["trimmed"])}
        return Judgment(**values)


def verdicts_sha256(judgments: Iterable[Judgment]) -> str:
    """SHA-256 of what verdicts count for."""
    rows = [[j.pair, j.position, j.instruction, j.key, j.verdict, j.preference, j.ratings] for j in judgments]
    return hashlib.sha256(json.dumps(sorted(rows, key=lambda row: row[:3])).encode()).hexdigest()


def are_recorded(judgments: Sequence[Judgment], record: dict[str, Any]) -> bool:
    """Whether verdicts are those that the record of their judging states, if it is done."""
    digest = (record.get("results") or {}).get("sha256")
    return record.get("status") != "done" or not digest or verdicts_sha256(judgments) == digest


def check_verdicts(run: RunDirectory, judgments: Sequence[Judgment], record: dict[str, Any]) -> None:
    """Refuse verdicts that are not those that the record of their judging states.

    Raises:
        InputError: they are others, or fewer.
    """
    if not are_recorded(judgments, record):
        judged = ", ".join((record.get("comparison") or {}).values())
        raise InputError(
            f"{run.store}: its verdicts are not those that were recorded ({one_line(judged, 120)}); restore it, or "
            f"judge again: instruct judge {run.folder}"
        )
