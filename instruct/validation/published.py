"""Verdicts made elsewhere: the published layouts of PandaLM, Auto-J and AlpacaEval, and this project's own."""

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

OWN_LAYOUT = "verdicts by pair index"
ALPACA_EVAL_LAYOUT = "AlpacaEval's annotations"
# The authors count what they could not read ("garbage") as a tie; here it is unparsed.
_PANDALM = {"0": "tie", "1": "first", "2": "second", "tie": "tie", "garbage": "unparsed"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie", "-1": "unparsed"}


@dataclass(frozen=True)
class PublishedVerdicts:
    """One verdict per pair for each order, in the order shown; `swapped` means the second answer was shown first.

    `layout` names the format that was recognized.
    """

    path: Path
    layout: str
    verdicts: dict[Order, list[str]]

    @property
    def positions_known(self) -> bool:
        """Whether the file tells which answer was shown first."""
        return self.layout != ALPACA_EVAL_LAYOUT


def read_published(path: Path, pairs: Sequence[HumanPair], order: Order = "first") -> PublishedVerdicts:
    """A file's verdicts on the pairs of a set.

    PandaLM: `[{"idx", "NAME_result": 0 | 1 | 2 | "Tie"}]`. Auto-J: a line `{"output": 0 | 1 | 2}` for each pair, in the
    set's order. AlpacaEval: annotations with `instruction`, `output_1`, `output_2` and `preference`, matched by their
    texts, any input after a blank line. This project's: `{"pair", "order": "first" | "swapped", "verdict"}`.

    Args:
        order: the order in which the answers were shown; this project's layout states it itself.

    Raises:
        InputError: unknown layout, not exactly one verdict per pair, or a verdict on an unknown pair.
    """
    rows = list(read_file(path))
    fields = rows[0].fields
    results = [field for field in fields if field.endswith("_result")]
    if {"pair", "order", "verdict"} <= fields.keys():
        return PublishedVerdicts(path, OWN_LAYOUT, _own(rows, path, len(pairs)))
    if "preference" in fields:
        verdicts = _alpaca_eval(rows, pairs, order)
        layout = ALPACA_EVAL_LAYOUT
    elif len(results) == 1:
        verdicts = _by_index(rows, len(pairs), "idx", lambda row: _word(row, results[0], _PANDALM))
        layout = f"PandaLM's layout ({one_line(results[0], 40)})"
    elif "output" in fields and "instruction" not in fields:
        verdicts = dict(enumerate(_word(row, "output", _AUTOJ) for row in rows))
        layout = "Auto-J's layout"
    else:
        raise InputError(
            f"{rows[0].place}: unknown layout (columns: {', '.join(one_line(field, 40) for field in fields)}); give "
            "PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's (instruction, output_1, output_2, "
            "preference) or pair, order, verdict"
        )
    return PublishedVerdicts(path, layout, {order: _one_per_pair(verdicts, path, len(pairs))})


def _one_per_pair(verdicts: dict[int, str], path: Path, pairs: int) -> list[str]:
    if len(verdicts) != pairs:
        raise InputError(f"{path}: has verdicts on {len(verdicts)} pairs, but the set has {pairs}; give one for each")
    return [verdicts[index] for index in range(pairs)]


def _own(rows: list[RawRow], path: Path, pairs: int) -> dict[Order, list[str]]:
    by_order: dict[Order, list[RawRow]] = {}
    for row in rows:
        order = row.fields.get("order")
        if order not in ("first", "swapped"):
            raise InputError(f"{row.place}: order: {one_line(repr(order), 60)} must be first or swapped")
        by_order.setdefault(order, []).append(row)
    known = {verdict: verdict for verdict in get_args(Verdict)}
    return {
        order: _one_per_pair(_by_index(some, pairs, "pair", lambda row: _word(row, "verdict", known)), path, pairs)
        for order, some in by_order.items()
    }


def _by_index(rows: list[RawRow], pairs: int, field: str, verdict_of: Callable[[RawRow], str]) -> dict[int, str]:
    verdicts: dict[int, str] = {}
    for row in rows:
        value = str(row.fields.get(field))
        index = int(value) if value.isdecimal() else -1
        if not 0 <= index < pairs:
            raise InputError(
                f"{row.place}: {field}: {one_line(value, 40)!r} is not a pair of the set (0 to {pairs - 1}); "
                "give the verdicts on this set"
            )
        if index in verdicts:
            raise InputError(f"{row.place}: {field}: pair {index} already has a verdict; remove one of them")
        verdicts[index] = verdict_of(row)
    return verdicts


def _word(row: RawRow, field: str, known: dict[str, str]) -> str:
    value = row.fields.get(field)
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word not in known:
        given = one_line(repr(value), 60)
        raise InputError(f"{row.place}: {field}: {given} is not a verdict; write one of {', '.join(known)}")
    return known[word]


def _alpaca_eval(rows: list[RawRow], pairs: Sequence[HumanPair], order: Order) -> dict[int, str]:
    """`preference` is about output_1 and output_2, whichever of them the judge was shown first."""
    # A set may contain a pair several times, also with its answers swapped: its annotations are taken in turn.
    matches: dict[tuple[str, str, str], list[tuple[int, bool]]] = {}
    for turned in (False, True):
        for pair in pairs:
            question = f"{pair.instruction}\n\n{pair.input}" if pair.input else pair.instruction
            outputs = (pair.second, pair.first) if turned else (pair.first, pair.second)
            matches.setdefault((question, *outputs), []).append((pair.index, turned))
    verdicts: dict[int, str] = {}
    for row in rows:
        texts = [row.fields.get(field) for field in ("instruction", "output_1", "output_2")]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"{row.place}: needs instruction, output_1 and output_2 to be matched with the set")
        question, one, two = map(str, texts)
        verdict = _preference(row)
        found = matches.get((question, one, two), [])
        if not found:
            raise InputError(
                f"{row.place}: its instruction ({one_line(question, 60)!r}) with these two outputs is not a pair of "
                "the set; give the annotations of this set"
            )
        index, turned = next(((index, turned) for index, turned in found if index not in verdicts), (None, False))
        if index is None:
            raise InputError(f"{row.place}: its pair already has a verdict; remove one of the annotations")
        verdicts[index] = EXCHANGED.get(verdict, verdict) if turned != (order == "swapped") else verdict
    return verdicts


def _preference(row: RawRow) -> str:
    """1: output_1 is better; 2: output_2; 0 and 1.5: a draw; between 1 and 2: a weighted judge's preference."""
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
        given = one_line(repr(value), 60)
        raise InputError(f"{row.place}: preference: {given} must be between 1 and 2, or 0 for a draw")
    return "first" if number < 1.5 else "second"
