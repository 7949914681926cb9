"""Which turns of a chat are answers to train on, and what a turn may say besides its role and content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from instruct.base.errors import InputError, one_line
from instruct.data.templates import REASONING

TrainOn = Literal["assistant_turns", "last_turn", "all_tokens"]
TRAIN_ON: tuple[TrainOn, ...] = get_args(TrainOn)
# The product of a row's, a turn's and the prompt's weight stays in float32's range; what is smaller is 0.
MOST_WEIGHT, LEAST_WEIGHT = 10**9, 1e-9


def chat_row(
    messages: Sequence[Mapping[str, Any]], tools: Any, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """A chat as a row to encode; turns after the last answer are left out.

    An answer is an assistant turn with text or tool calls that follows another turn. Empty assistant turns, one that
    opens the chat, and those of weight 0 are context.

    Args:
        messages: `{"role", "content"}`, and what `more_of` returns.
        tools: the tools that the chat template describes to the model, or None.
        turns: counts what the chat has: `answers`, `opening` and `empty` assistant turns, turns `after` the last
            answer, answers `untrained` because the chat says so.

    Returns:
        `{"prompt", "completion"}` if one answer is trained on, `{"messages"}` if several are; with `tools` if there are
        any. None if the chat has no answer; if all have weight 0, the last one is the completion.
    """
    assistant = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    filled = [index for index in assistant if _is_filled(messages[index])]
    answers = [index for index in filled if index > 0 and weight_of(messages[index])]
    untrained = sum(not weight_of(messages[index]) for index in filled)
    if untrained:
        turns["untrained"] += untrained
    if not answers and (not filled or filled[-1] == 0):
        return None
    last = answers[-1] if answers else filled[-1]
    turns.update(
        answers=len(answers),
        opening=filled[0] == 0 and weight_of(messages[0]) > 0,
        empty=sum(index < last for index in assistant) - sum(index < last for index in filled),
        after=len(messages) - 1 - last,
    )
    described = {"tools": tools} if tools else {}
    if len(answers) > 1 and train_on == "assistant_turns":
        return {"messages": list(messages[: last + 1]), **described}
    return {"prompt": list(messages[:last]), "completion": [messages[last]], **described}


def has_answer(row: Mapping[str, Any]) -> bool:
    """Whether a row that `chat_row` returned, or a prompt and its completion, has something to train on."""
    answers = row.get("messages") or row["completion"]
    return weight_of(row) > 0 and (isinstance(answers, str) or any(map(is_answer, answers)))


def _is_filled(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return bool(message.get("tool_calls") or (content.strip() if isinstance(content, str) else content))


def is_answer(message: Mapping[str, Any], of_any_weight: bool = False) -> bool:
    """Whether a message is an answer to train on; `of_any_weight`: also if its weight is 0."""
    return message["role"] == "assistant" and _is_filled(message) and (of_any_weight or weight_of(message) > 0)


def weight_of(part: Mapping[str, Any]) -> float:
    """What the loss of a row's tokens, or of a message's, is multiplied by, once `more_of` or `read_weight` read it."""
    weight: float = part.get("weight", 1.0)
    return weight


def read_weight(value: Any) -> float:
    """A weight as a row or a turn has it; 1 if there is none.

    Raises:
        InputError: it is no number from 0 to MOST_WEIGHT.
    """
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_WEIGHT:
        raise InputError(
            f"weight: must be a number from 0 to {MOST_WEIGHT:,} (given: {one_line(repr(value), 60)}); write one, or "
            "rename it if it is something else"
        )
    return float(value) if value >= LEAST_WEIGHT else 0.0


def more_of(turn: Mapping[str, Any], role: str) -> dict[str, Any]:
    """What a turn says besides its role and content: the same keys for every reader.

    Returns:
        Of an assistant turn `tool_calls`, `reasoning_content` (also called `reasoning` or `thinking`), and `weight` if
        it is not 1: 0 if the turn says `"train": false`. Of a tool's turn `name` and `tool_call_id`.

    Raises:
        InputError: a key has a value that nobody could mean; the message begins with the key.
    """
    if role == "tool":
        return {key: turn[key] for key in ("name", "tool_call_id") if turn.get(key) is not None}
    if role != "assistant":
        return {}
    calls = turn.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        raise InputError(f"tool_calls: must be a list of mappings (given: {one_line(repr(calls), 60)})")
    more: dict[str, Any] = {"tool_calls": calls} if calls else {}
    for key in REASONING:
        if turn.get(key) and not isinstance(turn[key], str):
            raise InputError(f"{key}: must be text (given: {one_line(repr(turn[key]), 60)}); write a string")
    thinking = next((turn[key] for key in REASONING if turn.get(key)), "")
    if thinking.strip():
        more[REASONING[0]] = thinking
    train = turn.get("train")
    if train is not None and train not in (0, 1):
        raise InputError(f"train: must be true or false, 1 or 0 (given: {one_line(repr(train), 60)})")
    weight = read_weight(turn.get("weight")) * (train in (None, 1))
    return more if weight == 1 else {**more, "weight": weight}


_KNOWN = {"assistant": {"tool_calls", *REASONING, "train", "weight"}, "tool": {"name", "tool_call_id"}}


def unused_keys(turn: Mapping[str, Any], role: str, own: Sequence[str]) -> list[str]:
    """The keys of a turn with a value that nobody reads; `own`: those of its role and content."""
    return [key for key, value in turn.items() if value is not None and key not in {*own, *_KNOWN.get(role, ())}]
