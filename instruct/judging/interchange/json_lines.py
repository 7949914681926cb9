"""Verdicts as JSON lines, with the completions that they were read from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict

from instruct.cards import validated
from instruct.data.sources import read_file
from instruct.engines.base import Completion
from instruct.errors import InputError, one_line
from instruct.judging.comparison import Comparison
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import Verdict
from instruct.runs import write_atomically

_VALUES = {"position": ("first", "second"), "verdict": get_args(Verdict)}


class Line(BaseModel):
    """A judgment, and the completions that it was read from, by key."""

    model_config = ConfigDict(extra="forbid")

    judgment: Judgment
    completions: dict[str, Completion]


def export_jsonl(store: JudgmentStore, path: str | Path, judge: str | None = None) -> int:
    """Write all judgments, or one judge's, one per line; returns their number.

    Raises:
        InputError: there are none.
    """
    lines = []
    for comparison in store.comparisons():
        if judge in (None, comparison.judge):
            judgments = store.judgments(comparison)
            completions = store.completions(key for judgment in judgments for key in judgment.key.split())
            for judgment in judgments:
                found = {key: vars(completions[key]) for key in judgment.key.split() if key in completions}
                lines.append(json.dumps({"judgment": vars(judgment), "completions": found}) + "\n")
    if not lines:
        raise InputError(f"{store.path}: has no verdicts{f' of {one_line(judge, 60)}' if judge else ''}; judge first")
    write_atomically(Path(path), "".join(lines))
    return len(lines)


def import_jsonl(path: str | Path, store: JudgmentStore) -> int:
    """Import a file written by `export_jsonl`; returns the number of judgments.

    Raises:
        InputError: an invalid line (file, row and field), or the store has different verdicts on a comparison.
    """
    lines = read_lines(Path(path).expanduser())
    store_lines(Path(path), lines, store)
    return len(lines)


def read_lines(path: Path) -> list[Line]:
    """The checked lines of a file.

    Raises:
        InputError: an invalid line (file, row and field).
    """
    lines = []
    for row in read_file(path):
        line = validated(Line, row.fields, row.place)
        for name, known in _VALUES.items():
            if getattr(line.judgment, name) not in known:
                raise InputError(f"{row.place}: judgment.{name}: must be one of {', '.join(known)}")
        lines.append(line)
    return lines


def store_lines(path: Path, lines: Sequence[Line], store: JudgmentStore) -> None:
    """Add a file's lines to the store.

    Raises:
        InputError: the store has different verdicts on a comparison.
    """
    judgments = [line.judgment for line in lines]
    check_same(path, store, judgments)
    for judge in dict.fromkeys(judgment.judge for judgment in judgments):
        found = {key: done for line in lines if line.judgment.judge == judge for key, done in line.completions.items()}
        store.add_replies(judge, [(key, done, 0.0) for key, done in found.items()])
    store.add_judgments(judgments)


def check_same(path: Path, store: JudgmentStore, judgments: Iterable[Judgment]) -> None:
    """Refuse to mix or overwrite verdicts on the same comparison.

    Raises:
        InputError: the store has different verdicts on it.
    """
    ours: dict[Comparison, list[Judgment]] = {}
    for judgment in judgments:
        ours.setdefault(judgment.comparison, []).append(judgment)
    for comparison, wanted in ours.items():
        stored = store.judgments(comparison)
        if stored and stored != sorted(wanted, key=lambda judgment: (judgment.pair, judgment.position)):
            judge, candidate, baseline = (one_line(name, 60) for name in comparison)
            raise InputError(
                f"{path}: {store.path} has different verdicts of {judge} on {candidate} vs. {baseline}; "
                "import into another run"
            )
