"""From a raw row in one of five formats to a prompt and its completion, or to a text, in TRL's format.

A chat becomes one row: the last assistant turn is the completion, the turns before it are the prompt, and turns after
it are dropped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from instruct.data.cards import Format, Template
from instruct.data.sources import RawRow
from instruct.errors import InputError, one_line

Message = dict[str, str]
Prompt = str | list[Message]

# Stanford Alpaca's prompts, byte for byte (tatsu-lab/stanford_alpaca, train.py).
PROMPT_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)
PROMPT_NO_INPUT = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:"
)

KEYS: dict[Format, tuple[str, ...]] = {
    "alpaca": ("instruction", "output"),
    "sharegpt": ("conversations",),
    "messages": ("messages",),
    "prompt_completion": ("prompt", "completion"),
    "text": ("text",),  # the last: other rows may have such a column, too
}
SHAREGPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
ROLES = {role: role for role in ("system", "user", "assistant")}


def detect_format(row: RawRow) -> Format:
    """The format whose fields the row has.

    Raises:
        InputError: no format matches; the message names the columns present and those of each format.
    """
    for format, keys in KEYS.items():
        if all(key in row.fields for key in keys):
            return format
    known = "; ".join(f"{format}: {', '.join(keys)}" for format, keys in KEYS.items())
    raise InputError(f"{row.place}: columns {_names(row.fields)} match no format ({known}); rename them")


def to_row(raw: RawRow, format: Format, template: Template) -> dict[str, Any] | None:
    """The row as `{"prompt", "completion"}`: plain text under `alpaca`, lists of messages under `chat`.

    A text `prompt` is a plain request, which the template is applied to. A row of format `text` becomes `{"text"}`, to
    the letter.

    Returns:
        The row, or None if the response or the text is empty, blank, null or missing: there is nothing to learn.

    Raises:
        InputError: a missing column, a field that is not text, an unknown role, or a chat that the template cannot
            represent.
    """
    if format == "text":
        text = _response(_field(raw, "text"), raw, "text")
        return None if text is None else {"text": text}
    if format == "alpaca":
        return _from_alpaca(raw, template)
    if format == "prompt_completion":
        turns = _prompt_completion_turns(raw)
    else:
        turns = _chat_turns(raw, format)
    return _from_turns(raw, turns, template)


def alpaca_prompt(instruction: str, input: str = "") -> str:
    """Stanford Alpaca's prompt for an instruction, with or without an input."""
    # Not str.format: an instruction may contain braces or look like the other placeholder.
    if input == "":
        before, after = PROMPT_NO_INPUT.split("{instruction}")
        return before + instruction + after
    before, rest = PROMPT_INPUT.split("{instruction}")
    between, after = rest.split("{input}")
    return before + instruction + between + input + after


def text_field(raw: RawRow, name: str, *, optional: bool = False) -> str:
    """The text of a field; an `optional` field may be missing or null and is then empty.

    Raises:
        InputError: a missing column (with those present), or a value that is not text.
    """
    value = _field(raw, name, optional=optional)
    if value is None and optional:
        return ""
    return _text(value, raw, name)


def _field(raw: RawRow, name: str, *, optional: bool = False) -> Any:
    if name not in raw.fields and not optional:
        near = difflib.get_close_matches(name, map(str, raw.fields), n=1)
        hint = f"; nearest: {one_line(near[0], 60)}" if near else ""
        raise InputError(
            f"{raw.place}: no column {name!r} (columns: {_names(raw.fields)}{hint}); "
            "rename the column or set the right format"
        )
    return raw.fields.get(name)


def _from_alpaca(raw: RawRow, template: Template) -> dict[str, Any] | None:
    instruction = text_field(raw, "instruction")
    input = text_field(raw, "input", optional=True)
    output = _response(_field(raw, "output"), raw, "output")
    if output is None:
        return None
    if template == "alpaca":
        return {"prompt": alpaca_prompt(instruction, input), "completion": output}
    request = f"{instruction}\n\n{input}" if input else instruction
    return _conversational([{"role": "user", "content": request}], output)


def _from_turns(raw: RawRow, turns: list[tuple[str, Any, str]], template: Template) -> dict[str, Any] | None:
    answers = [index for index, (role, _, _) in enumerate(turns) if role == "assistant"]
    if not answers:
        return None
    last = answers[-1]
    response = _response(turns[last][1], raw, turns[last][2])
    if response is None:
        return None
    prompt = [{"role": role, "content": _text(content, raw, where)} for role, content, where in turns[:last]]
    if not prompt:
        raise InputError(f"{raw.place}: {turns[last][2]}: no turn before the answer; remove the row")
    if template == "chat":
        return _conversational(prompt, response)
    if [message["role"] for message in prompt] != ["user"]:
        roles = ", ".join(message["role"] for message in prompt)
        raise InputError(
            f"{raw.place}: the turns before the answer ({one_line(roles, 60)}) do not fit the alpaca template, which "
            "takes a single request; set template: chat"
        )
    return {"prompt": alpaca_prompt(prompt[0]["content"]), "completion": response}


def _chat_turns(raw: RawRow, format: Format) -> list[tuple[str, Any, str]]:
    """The turns as (role, content, the field's name in errors)."""
    if format == "sharegpt":
        return _turns(raw, "conversations", _field(raw, "conversations"), ("from", "value"), SHAREGPT_ROLES)
    return _turns(raw, "messages", _field(raw, "messages"), ("role", "content"), ROLES)


def _prompt_completion_turns(raw: RawRow) -> list[tuple[str, Any, str]]:
    prompt, completion = _field(raw, "prompt"), _field(raw, "completion")
    if isinstance(prompt, list):
        turns = _turns(raw, "prompt", prompt, ("role", "content"), ROLES)
    else:
        turns = [("user", prompt, "prompt")]
    if not isinstance(completion, list):
        return [*turns, ("assistant", completion, "completion")]
    answer = _turns(raw, "completion", completion, ("role", "content"), ROLES)
    if [role for role, _, _ in answer] != ["assistant"]:
        raise InputError(f"{raw.place}: completion: must be one assistant message; move other turns to the prompt")
    return turns + answer


def _turns(
    raw: RawRow, field: str, value: Any, keys: tuple[str, str], roles: dict[str, str]
) -> list[tuple[str, Any, str]]:
    if not isinstance(value, list):
        raise InputError(f"{raw.place}: {field}: must be a list of turns (given: {_shown(value)})")
    found = []
    for index, turn in enumerate(value):
        where = f"{field}[{index}]"
        if not isinstance(turn, dict):
            raise InputError(
                f"{raw.place}: {where}: must be a mapping with {' and '.join(keys)} (given: {_shown(turn)})"
            )
        for key in keys:
            if key not in turn:
                raise InputError(f"{raw.place}: {where}: no key {key!r} (keys: {_names(turn)}); rename the key")
        role = turn[keys[0]]
        if not isinstance(role, str) or role not in roles:
            raise InputError(
                f"{raw.place}: {where}.{keys[0]}: unknown role {_shown(role)}; known are {', '.join(roles)}"
            )
        found.append((roles[role], turn[keys[1]], f"{where}.{keys[1]}"))
    return found


def _conversational(prompt: list[Message], response: str) -> dict[str, Any]:
    return {"prompt": prompt, "completion": [{"role": "assistant", "content": response}]}


def _response(value: Any, raw: RawRow, field: str) -> str | None:
    """The response, or None if it is missing or blank."""
    if value is None:
        return None
    text = _text(value, raw, field)
    return text if text.strip() else None


def _text(value: Any, raw: RawRow, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{raw.place}: {field}: must be text (given: {_shown(value)}); write a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{raw.place}: {field}: has half a surrogate pair; write complete characters") from None
    return value


def _shown(value: Any) -> str:
    return one_line(repr(value), 60)


def _names(fields: Iterable[str]) -> str:
    return one_line(", ".join(map(str, fields)), 120)
