"""Verdicts as JSON lines, with the completions that they were read from."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.base.replies import Completion
from instruct.data.formats import check_storable
from instruct.data.sources import RawRow, read_file
from instruct.judging.interchange.contents import Contents
from instruct.judging.store import VALUES, Judgment, JudgmentStore, verdict_problem

_MOST = 2**63 - 1  # of an integer in the store


class Line(BaseModel):
    """A judgment, and the completions that it was read from, by key; `id` identifies its pair.

    The `id` is needed if a comparison has several pairs with one instruction.
    """

    model_config = ConfigDict(extra="forbid")

    id: str | int | None = None
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
                found = {key: completions[key].record() for key in judgment.key.split() if key in completions}
                lines.append(json.dumps({"judgment": vars(judgment), "completions": found}) + "\n")
    if not lines:
        raise InputError(f"{store.path}: has no verdicts{f' of {one_line(judge, 60)}' if judge else ''}; judge first")
    write_atomically(Path(path), "".join(lines))
    return len(lines)


def read_lines(path: Path) -> list[Line]:
    """The checked lines of a file. Where the instruction of several pairs is the same, the `id` stands in its place.

    Raises:
        InputError: an invalid line (file, row and field), or two lines on the same pair and order.
    """
    rows = list(read_file(path))
    lines = [_line(row) for row in rows]
    shown = [(line.judgment.comparison, line.judgment.position, line.judgment.instruction) for line in lines]
    repeated = {(place[0], place[2]) for place, count in Counter(shown).items() if count > 1}
    taken: dict[tuple[str, ...], RawRow] = {}
    found = []
    for row, line in zip(rows, lines, strict=True):
        judgment, where = line.judgment, "judgment.instruction"
        if line.id is not None and (judgment.comparison, judgment.instruction) in repeated:
            judgment, where = dataclasses.replace(judgment, instruction=str(line.id)), "id"
        place = (*judgment.comparison, judgment.position, judgment.instruction)
        earlier = taken.setdefault(place, row)
        if earlier is not row:
            raise InputError(
                f"{row.place}: {where}: {one_line(judgment.instruction, 60)!r} in the order {judgment.position} is "
                f"already in row {earlier.row}; give each of these pairs an `id` of its own, or remove one of the lines"
            )
        found.append(line.model_copy(update={"judgment": judgment}))
    return found


def _line(row: RawRow) -> Line:
    check_storable(row, "line", row.fields)
    line = validated(Line, row.fields, row.place)
    judgment = line.judgment
    for name, known in VALUES.items():
        if getattr(judgment, name) not in known:
            raise InputError(f"{row.place}: judgment.{name}: must be one of {', '.join(known)}")
    for name in ("judge", "candidate", "baseline", "instruction"):
        if not getattr(judgment, name).strip():
            raise InputError(f"{row.place}: judgment.{name}: is empty; write it")
    if not 0 <= judgment.pair <= _MOST:
        raise InputError(f"{row.place}: judgment.pair: must be the pair's number, from 0")
    if problem := verdict_problem(judgment):
        raise InputError(f"{row.place}: judgment.{problem}")
    if judgment.candidate == judgment.baseline and judgment.verdict in ("first", "second"):
        raise InputError(
            f"{row.place}: judgment: candidate and baseline are both {one_line(judgment.candidate, 60)!r}, and one of "
            "them is preferred; give the systems different names"
        )
    for key, reply in line.completions.items():
        for name in ("prompt_tokens", "completion_tokens"):
            count = getattr(reply, name)
            if count is not None and not 0 <= count <= _MOST:
                raise InputError(f"{row.place}: completions.{one_line(key, 40)}.{name}: must be a number of tokens")
    return line


def contents_of_lines(lines: Sequence[Line]) -> Contents:
    """The lines' verdicts, and their replies by judge."""
    replies: dict[str, dict[str, Completion]] = {}
    for line in lines:
        replies.setdefault(line.judgment.judge, {}).update(line.completions)
    return Contents([line.judgment for line in lines], replies)
