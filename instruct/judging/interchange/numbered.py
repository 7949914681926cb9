"""Verdicts on pairs that are known by their numbers: PandaLM's and Auto-J's files, and a table of this project's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

from instruct.base.errors import InputError, one_line
from instruct.data.sources import RawRow
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.store import Judgment, Verdict

# The order in which the answers were shown; `swapped`: the second answer was shown first.
Order = Literal["first", "swapped"]
POSITIONS: dict[Order, str] = {"first": "first", "swapped": "second"}

# The authors count what they could not read ("garbage") as a tie; here it is unparsed.
_PANDALM = {"0": "tie", "1": "first", "2": "second", "tie": "tie", "garbage": "unparsed"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie", "-1": "unparsed"}
TABLE, PANDALM, AUTOJ = "verdicts by pair index", "PandaLM's layout", "Auto-J's layout"


def read_numbered(rows: Sequence[RawRow], pairs: int, order: Order) -> tuple[str, list[FileVerdict]]:
    """The layout, and the verdicts; the first answer of a pair is the candidate's.

    PandaLM: `{"idx", "NAME_result": 0 | 1 | 2 | "Tie"}`. Auto-J: a line `{"output": 0 | 1 | 2}` for each pair. A table:
    `{"pair", "order": "first" | "swapped", "verdict"}` and optionally `margin`.

    Args:
        pairs: how many there are, from 0.
        order: the order in which the answers were shown; a table states it itself.

    Raises:
        InputError: unknown layout, an invalid row, a verdict on an unknown pair, or two on one.
    """
    fields = rows[0].fields
    results = [name for name in fields if name.endswith("_result")]
    number, words, judge = "", _AUTOJ, ""
    if {"pair", "order", "verdict"} <= fields.keys():
        layout, number, said, words = TABLE, "pair", "verdict", {word: word for word in get_args(Verdict)}
    elif len(results) == 1:
        [said] = results
        layout, number, words, judge = PANDALM, "idx", _PANDALM, said.removesuffix("_result")
    elif "output" in fields and "instruction" not in fields:
        layout, said = AUTOJ, "output"
    else:
        raise InputError(
            f"{rows[0].place}: unknown layout (columns: {', '.join(one_line(name, 40) for name in fields)}); give "
            "PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's (instruction, output_1, output_2, "
            "preference) or pair, order, verdict"
        )
    verdicts: dict[tuple[int, str], FileVerdict] = {}
    for line, row in enumerate(rows):
        shown: Any = row.fields.get("order") if layout == TABLE else order
        if not isinstance(shown, str) or shown not in POSITIONS:
            raise InputError(f"{row.place}: order: {one_line(repr(shown), 60)} must be first or swapped")
        value = str(row.fields.get(number)) if number else str(line)
        pair = int(value) if value.isdecimal() else -1
        if number and not 0 <= pair < pairs:
            raise InputError(
                f"{row.place}: {number}: {one_line(value, 40)!r} is not a pair of the set (0 to {pairs - 1}); "
                "give the verdicts on this set"
            )
        if (pair, shown) in verdicts:
            raise InputError(f"{row.place}: {number}: pair {pair} already has a verdict; remove one of them")
        about = (judge, "first", "second", pair, str(pair), "", POSITIONS[shown], "")
        margin = row.fields.get("margin") if layout == TABLE else None
        margin = None if margin is None else finite(margin, row, "margin")
        verdicts[pair, shown] = FileVerdict(Judgment(*about, _word(row, said, words)), row.place, margin=margin)
    return layout, list(verdicts.values())


def finite(value: Any, row: RawRow, field: str) -> float:
    """The number in a field.

    Raises:
        InputError: it is no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{row.place}: {field}: {one_line(repr(value), 60)} must be a finite number")
    return float(value)


def _word(row: RawRow, field: str, known: dict[str, str]) -> str:
    value = row.fields.get(field)
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word not in known:
        cell = one_line(repr(value), 60)
        raise InputError(f"{row.place}: {field}: {cell} is not a verdict; write one of {', '.join(known)}")
    return known[word]
