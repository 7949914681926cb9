"""Verdicts that were given elsewhere: PandaLM's, Auto-J's and AlpacaEval's published layouts, and this project's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from instruct.analysis.outcomes import EXCHANGED
from instruct.data.sources import RawRow, read_file
from instruct.errors import InputError, one_line
from instruct.judging.verdicts import Verdict
from instruct.validation.human_sets import HumanPair

Order = Literal["first", "swapped"]

# The authors count what they could not read ("garbage") as a tie; here it is unparsed.
_PANDALM = {"0": "tie", "1": "first", "2": "second", "tie": "tie", "garbage": "unparsed"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie", "-1": "unparsed"}


@dataclass(frozen=True)
class PublishedVerdicts:
    """A file's verdicts, one a pair and order, as shown: `swapped` is with the pair's second answer shown first.

    `layout` is what the file was read as; `positions_known` is False where it does not tell the order shown.
    """

    path: Path
    layout: str
    verdicts: dict[Order, list[str]]
    positions_known: bool = True


def read_published(path: Path, pairs: Sequence[HumanPair], order: Order = "first") -> PublishedVerdicts:
    """The verdicts in a file on the pairs of a set.

    PandaLM: `[{"idx", "NAME_result": 0 | 1 | 2 | "Tie"}]`. Auto-J: a line `{"output": 0 | 1 | 2}` for each pair, in the
    set's order. AlpacaEval: annotations with `instruction`, `output_1`, `output_2` and `preference`, joined on the
    texts, an input behind an empty line. This project's: `{"pair", "order": "first" | "swapped", "verdict"}`.

    Args:
        order: the order in which the answers were shown; this project's layout says it itself.

    Raises:
        InputError: another layout, another number of verdicts than pairs, a verdict on an unknown pair, or two on one.
    """
    rows = list(read_file(path))
    fields = rows[0].fields
    if {"pair", "order", "verdict"} <= fields.keys():
        return PublishedVerdicts(path, "verdicts by pair index", _own(rows, path, len(pairs)))
    if "preference" in fields:
        return PublishedVerdicts(
            path, "AlpacaEval's annotations", {order: _alpaca_eval(rows, path, pairs, order)}, False
        )
    results = [field for field in fields if field.endswith("_result")]
    if len(results) == 1:
        verdicts = _by_index(rows, path, len(pairs), "idx", lambda row: _word(row, results[0], _PANDALM))
        return PublishedVerdicts(path, f"PandaLM's layout ({one_line(results[0], 40)})", {order: verdicts})
    if "output" in fields and "instruction" not in fields:
        if len(rows) != len(pairs):
            raise _other_length(path, len(rows), len(pairs))
        return PublishedVerdicts(path, "Auto-J's layout", {order: [_word(row, "output", _AUTOJ) for row in rows]})
    raise InputError(
        f"{rows[0].place}: no layout of verdicts (columns: {', '.join(one_line(field, 40) for field in fields)}); give "
        "PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's (instruction, output_1, output_2, "
        "preference) or pair, order, verdict"
    )


def _own(rows: list[RawRow], path: Path, pairs: int) -> dict[Order, list[str]]:
    by_order: dict[Order, list[RawRow]] = {}
    for row in rows:
        order = row.fields.get("order")
        if order not in ("first", "swapped"):
            raise InputError(f"{row.place}: order: {one_line(repr(order), 60)} is none; write first or swapped")
        by_order.setdefault(order, []).append(row)
    known = {verdict: verdict for verdict in get_args(Verdict)}
    return {
        order: _by_index(some, path, pairs, "pair", lambda row: _word(row, "verdict", known))
        for order, some in by_order.items()
    }


def _by_index(rows: list[RawRow], path: Path, pairs: int, field: str, verdict_of: Callable[[RawRow], str]) -> list[str]:
    verdicts: dict[int, str] = {}
    for row in rows:
        value = str(row.fields.get(field))
        index = int(value) if value.isdecimal() else -1
        if not 0 <= index < pairs:
            raise InputError(
                f"{row.place}: {field}: {one_line(value, 40)!r} is no pair of the set (0 to {pairs - 1}); "
                "give the verdicts on this set"
            )
        if index in verdicts:
            raise InputError(f"{row.place}: {field}: pair {index} has a verdict already; remove one of them")
        verdicts[index] = verdict_of(row)
    if len(verdicts) != pairs:
        raise _other_length(path, len(verdicts), pairs)
    return [verdicts[index] for index in range(pairs)]


def _other_length(path: Path, found: int, pairs: int) -> InputError:
    return InputError(f"{path}: holds verdicts on {found} pairs, and the set has {pairs}; give a verdict for each")


def _word(row: RawRow, field: str, known: dict[str, str]) -> str:
    value = row.fields.get(field)
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word not in known:
        raise InputError(f"{row.place}: {field}: {one_line(repr(value), 60)} is no verdict; write {', '.join(known)}")
    return known[word]


def _alpaca_eval(rows: list[RawRow], path: Path, pairs: Sequence[HumanPair], order: Order) -> list[str]:
    """`preference` is about output_1 and output_2, whichever of them the judge was shown first."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for pair in pairs:
        question = f"{pair.instruction}\n\n{pair.input}" if pair.input else pair.instruction
        places.setdefault((question, pair.first, pair.second), []).append(pair.index)
    verdicts: dict[int, str] = {}
    for row in rows:
        texts = [row.fields.get(field) for field in ("instruction", "output_1", "output_2")]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"{row.place}: needs instruction, output_1 and output_2, by which it is found in the set")
        question, one, two = map(str, texts)
        verdict = _preference(row)
        # Pairs that stand in the set several times have an annotation each, taken in turn.
        listed, exchanged = places.get((question, one, two), []), places.get((question, two, one), [])
        if not (listed or exchanged):
            raise InputError(
                f"{row.place}: its instruction ({one_line(question, 60)!r}) with these two outputs is no pair of the "
                "set; give the annotations of this set"
            )
        free = next((index for index in listed if index not in verdicts), None)
        turned = free is None
        if free is None:
            free = next((index for index in exchanged if index not in verdicts), None)
        if free is None:
            raise InputError(f"{row.place}: its pair has a verdict already; remove one of the annotations")
        verdicts[free] = EXCHANGED.get(verdict, verdict) if turned else verdict
    if len(verdicts) != len(pairs):
        raise _other_length(path, len(verdicts), len(pairs))
    in_set = [verdicts[index] for index in range(len(pairs))]
    return in_set if order == "first" else [EXCHANGED.get(verdict, verdict) for verdict in in_set]


def _preference(row: RawRow) -> str:
    """1: output_1 is better, 2: output_2; 0 and 1.5: a draw; between 1 and 2: a weighted judge's inclination."""
    value = row.fields.get("preference")
    if value is None or value == "":
        return "unparsed"
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if math.isnan(number):
        return "unparsed"
    if number == 0 or number == 1.5:
        return "tie"
    if not 1 <= number <= 2:
        raise InputError(
            f"{row.place}: preference: {one_line(repr(value), 60)} is none of AlpacaEval's; "
            "write 1 to 2, or 0 for a draw"
        )
    return "first" if number < 1.5 else "second"
