"""Rows as the chat benchmarks publish them: Arena-Hard's, MT-Bench's (FastChat) and IFEval's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from instruct.base.errors import InputError
from instruct.data.formats import text_field
from instruct.data.sources import RawRow

_IDS = ("uid", "question_id", "prompt_id", "key")


def id_of(row: RawRow) -> str | None:
    """What identifies a benchmark's question, in the files of questions, answers and references alike."""
    found = next((row.fields[name] for name in _IDS if row.fields.get(name) is not None), None)
    return None if found is None else str(found)


def as_prompt(row: RawRow) -> RawRow:
    """A row of an evaluation set: a benchmark's question with `instruction`, `later` turns and `dataset`.

    Raises:
        InputError: a turn is no text.
    """
    fields = row.fields
    if "instruction" in fields or id_of(row) is None:
        return row
    asked = next((fields[name] for name in ("turns", "prompt") if fields.get(name)), None)
    turns = [_text(row, turn) for turn in (asked if isinstance(asked, list) else [asked])]
    named = {"instruction": turns[0], "later": turns[1:]} | (
        {"dataset": fields["category"]} if "category" in fields else {}
    )
    return replace(row, fields=fields | named)


def turns_of(row: RawRow) -> list[str]:
    """The answer to each turn, in a row of answers of a leaderboard or of AlpacaEval.

    Raises:
        InputError: there is none, or one is no text.
    """
    choices, messages = row.fields.get("choices"), row.fields.get("messages")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        found = choices[0].get("turns")
    elif isinstance(messages, list):
        found = [told for told in messages if isinstance(told, Mapping) and told.get("role") == "assistant"]
    else:
        return [text_field(row, "output")]
    if not isinstance(found, list) or not found:
        raise InputError(f"{row.place}: has no answers in choices or messages; give the benchmark's own file")
    return [_text(row, turn) for turn in found]


def model_of(row: RawRow) -> str | None:
    """The model that answered, as a leaderboard calls it."""
    return next((text_field(row, name) for name in ("model", "model_id") if row.fields.get(name)), None)


def unwrapped(value: Any) -> Any:
    """The text that a message or an answer of Arena-Hard holds, which may be wrapped in both."""
    for name in ("content", "answer"):
        value = value[name] if isinstance(value, Mapping) and name in value else value
    return value


def _text(row: RawRow, value: Any) -> str:
    return text_field(replace(row, fields={"turn": unwrapped(value)}), "turn")
