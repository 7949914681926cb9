"""Which turns of a chat are answers to train on, and what a turn may say besides its role and content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from instruct.base.errors import InputError, one_line
from instruct.data.templates import REASONING

TrainOn = Literal["assistant_turns", "last_turn", "all_tokens"]
TRAIN_ON: tuple[TrainOn, ...] = get_args(TrainOn)


def chat_row(
    messages: Sequence[Mapping[str, Any]], tools: Any, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """A chat as a row to encode; turns after the last answer are left out.

    An answer is an assistant turn with text or tool calls that follows another turn. Empty assistant turns, one that
    opens the chat, and those that say `"train": false` are context.

    Args:
        messages: `{"role", "content"}`, and what `more_of` returns.
        tools: the tools that the chat template describes to the model, or None.
        turns: counts what the chat has: `answers`, `opening` and `empty` assistant turns, turns `after` the last
            answer, answers `untrained` because the chat says so.

    Returns:
        `{"prompt", "completion"}` if one answer is trained on, `{"messages"}` if several are; with `tools` if there are
        any. None if the chat has no answer.
    """
    assistant = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    filled = [index for index in assistant if _is_filled(messages[index])]
    answers = [index for index in filled if index > 0 and messages[index].get("train", True)]
    untrained = sum(not messages[index].get("train", True) for index in filled)
    if untrained:
        turns["untrained"] += untrained
    if not answers:
        return None
    last = answers[-1]
    turns.update(
        answers=len(answers),
        opening=filled[0] == 0 and messages[0].get("train", True),
        empty=sum(index < last for index in assistant) - sum(index < last for index in filled),
        after=len(messages) - 1 - last,
    )
    described = {"tools": tools} if tools else {}
    if len(answers) > 1 and train_on == "assistant_turns":
        return {"messages": list(messages[: last + 1]), **described}
    return {"prompt": list(messages[:last]), "completion": [messages[last]], **described}


def has_answer(row: Mapping[str, Any]) -> bool:
    """Whether a row that `chat_row` returned, or a conversational prompt and completion, has something to train on."""
    return "messages" in row or any(is_answer(row["completion"], i) for i in range(len(row["completion"])))


def _is_filled(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return bool(message.get("tool_calls") or (content.strip() if isinstance(content, str) else content))


def is_answer(messages: Sequence[Mapping[str, Any]], index: int) -> bool:
    """Whether a message is an answer to train on."""
    message = messages[index]
    return message["role"] == "assistant" and _is_filled(message) and bool(message.get("train", True))


def more_of(turn: Mapping[str, Any], role: str) -> dict[str, Any]:
    """What a turn says besides its role and content: the same keys for every reader.

    Returns:
        Of an assistant turn `tool_calls`, `reasoning_content` (also called `reasoning` or `thinking`), and `train`:
        False if the turn says `"train": false` or `"weight": 0`. Of a tool's turn `name` and `tool_call_id`.

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
    for key in ("train", "weight"):
        if turn.get(key) is not None and turn[key] not in (0, 1):
            raise InputError(f"{key}: must be true or false, 1 or 0 (given: {one_line(repr(turn[key]), 60)})")
    if any(turn.get(key) is not None and not turn[key] for key in ("train", "weight")):
        more["train"] = False
    return more


_KNOWN = {"assistant": {"tool_calls", *REASONING, "train", "weight"}, "tool": {"name", "tool_call_id"}}


def unused_keys(turn: Mapping[str, Any], role: str, own: Sequence[str]) -> list[str]:
    """The keys of a turn with a value that nobody reads; `own`: those of its role and content."""
    return [key for key, value in turn.items() if value is not None and key not in {*own, *_KNOWN.get(role, ())}]
