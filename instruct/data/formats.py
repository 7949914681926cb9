"""From a raw row in one of five formats to a prompt and its completion, to a chat, or to a text, in TRL's format."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from instruct.base.errors import InputError, one_line
from instruct.base.parsing import RepeatedKeyError, parse_json
from instruct.data.cards import Format, Template
from instruct.data.sources import RawRow
from instruct.data.templates import REASONING

Message = dict[str, Any]
Prompt = str | list[Message]
TrainOn = Literal["assistant_turns", "last_turn", "all_tokens"]
TRAIN_ON: tuple[TrainOn, ...] = get_args(TrainOn)
# The product of a row's, a turn's and the prompt's weight stays in float32's range; what is smaller is 0.
MOST_WEIGHT, LEAST_WEIGHT = 10**9, 1e-9

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
_PARTS = [re.split(r"\{instruction\}|\{input\}", prompt) for prompt in (PROMPT_INPUT, PROMPT_NO_INPUT)]

KEYS: dict[Format, tuple[str, ...]] = {
    "alpaca": ("instruction", "output"),
    "sharegpt": ("conversations",),
    "messages": ("messages",),
    "prompt_completion": ("prompt", "completion"),
    "text": ("text",),  # the last: other rows may have such a column, too
}
# Other columns that a format reads.
_OPTIONAL: dict[Format, tuple[str, ...]] = {
    "alpaca": ("input", "system", "history"),
    "sharegpt": ("system", "tools", "chat_template_kwargs"),
    "messages": ("tools", "chat_template_kwargs"),
    "prompt_completion": ("tools", "chat_template_kwargs"),
    "text": (),
}
SHAREGPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
ROLES = {role: role for role in ("system", "developer", "user", "assistant", "tool")}
# What a turn may say besides its role and content.
_MORE = {"assistant": ("tool_calls", *REASONING, "train", "weight"), "tool": ("name", "tool_call_id")}
_MOST_COLUMNS = 10  # named in a note
# Columns of pictures, film and sound, as TRL's data sets and their models' processors name them.
MEDIA = ("image", "images", "pixel_values", "video", "videos", "audio", "audios")
_TEXT_ALONE = (
    "only text is trained on here (EMOTrainer takes pictures, as TRL); remove the row, or set on_bad_row: skip"
)


def detect_format(row: RawRow) -> Format:
    """The format whose fields the row has.

    Raises:
        InputError: no format matches; the message names the columns present and those of each format.
    """
    for format, keys in KEYS.items():
        if all(key in row.fields for key in keys):
            return format
    known = "; ".join(f"{format}: {', '.join(keys)}" for format, keys in KEYS.items())
    raise InputError(f"{row.place}: columns {row.columns} match no format ({known}); rename them")


def columns_of(format: Format) -> tuple[str, ...]:
    """The columns that a format reads."""
    return (*KEYS[format], *_OPTIONAL[format], "weight")


def unread_columns(fields: Mapping[str, Any], read: Collection[str]) -> list[str]:
    """The columns of a row that have text but are not among those that are `read`."""
    return [str(name) for name, value in fields.items() if name not in read and has_text(value)]


def unread_note(rows_with: Mapping[str, int], rows: int, unused: str = "is not trained on") -> str:
    """What the user has to know about columns that are not read; `rows_with`: the rows that have text in each."""
    listed = [f"{one_line(name, 40)} ({count / rows:.0%} of the rows)" for name, count in rows_with.items()]
    more = f" and {len(listed) - _MOST_COLUMNS} more" if len(listed) > _MOST_COLUMNS else ""
    return f"columns with text that {unused}: {', '.join(listed[:_MOST_COLUMNS])}{more}"


def has_text(value: Any) -> bool:
    """Whether a value is a text that is not blank, or holds one."""
    if isinstance(value, dict | list | tuple):
        return any(map(has_text, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and bool(value.strip())


def to_row(
    raw: RawRow,
    format: Format,
    template: Template,
    train_on: TrainOn = "assistant_turns",
    turns: Counter[str] | None = None,
) -> dict[str, Any] | None:
    """The row as it is encoded: `{"prompt", "completion"}`, `{"messages"}` or `{"text"}`.

    Under `alpaca`, prompt and completion are plain text; under `chat`, they are lists of messages, and a chat with
    several answers to train on is `{"messages"}`. A message is `{"role", "content"}`, of an assistant with
    `tool_calls`, `reasoning_content` and a `weight` other than 1, of a tool with `name` and `tool_call_id`. A text is
    kept to the letter. A row keeps a `weight` other than 1, which is 0 if none of its answers is trained on, its
    `tools` and its `chat_template_kwargs`.

    Args:
        turns: counts what chats have: `answers` to train on, `opening` and `empty` assistant turns, turns `after` the
            last answer, answers `untrained` because the chat says so, and keys of turns that nobody reads.

    Returns:
        The row, or None if the response or the text is empty, blank, null or missing: there is nothing to learn.

    Raises:
        InputError: a missing column, a field that is not text, an unknown role, or a chat that the template cannot
            represent.
    """
    value = raw.fields.get("weight")
    if raw.is_csv and isinstance(value, str):
        with contextlib.suppress(ValueError):  # a text that is no number is refused below
            value = float(value) if value.strip() else None
    weight = _weight(value, f"{raw.place}: ")
    row: dict[str, Any] | None
    if format == "text":
        text = _text_or_empty(raw, "text")
        row = {"text": text} if text.strip() else None
    else:
        row = _answered(raw, format, template, train_on, Counter() if turns is None else turns)
    if row is None:
        return None
    weight *= row.pop("weight", 1.0)
    return row if weight == 1 else {**row, "weight": weight}


def _answered(
    raw: RawRow, format: Format, template: Template, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """A row with answers, see `to_row`."""
    for name in MEDIA:
        if raw.fields.get(name):
            raise InputError(f"{raw.place}: {name}: {_TEXT_ALONE}")
    begin = None  # of a chat, every answer is trained on; of prompts and completions, those of the completion
    if format == "alpaca":
        messages = _alpaca_messages(raw)
    elif format == "prompt_completion":
        messages = _messages(raw, "prompt", turns, "user")
        begin = len(messages)
        messages += _messages(raw, "completion", turns, "assistant")
        if not any(message["role"] == "assistant" for message in messages[begin:]):
            raise InputError(f"{raw.place}: completion: has no assistant message; move its turns to the prompt")
    else:
        messages = _messages(raw, KEYS[format][0], turns)
        if format == "sharegpt" and messages and messages[0]["role"] != "system":
            messages = [*_system(raw), *messages]
    tools = _tools(raw) if "tools" in _OPTIONAL[format] else None
    if template == "alpaca":  # its rows have one answer
        train_on = "last_turn"
    # An instruction and its answer are no chat whose turns are counted.
    is_chat = any(isinstance(raw.fields.get(name), list) for name in (*KEYS[format], "history"))
    row = _split(raw, messages, begin, train_on, turns if is_chat else Counter())
    if row is None:
        return None
    if template == "alpaca":
        asked = [text_field(raw, "instruction"), text_field(raw, "input", optional=True)] if format == "alpaca" else []
        return _as_alpaca(raw, row["prompt"], row["completion"][0], tools, asked)
    if tools:
        row["tools"] = tools
    if "chat_template_kwargs" in _OPTIONAL[format] and (arguments := raw.fields.get("chat_template_kwargs")):
        if not isinstance(arguments, dict):
            raise InputError(f"{raw.place}: chat_template_kwargs: must be a mapping (given: {_shown(arguments)})")
        row["chat_template_kwargs"] = arguments
    return row


def _alpaca_messages(raw: RawRow) -> list[Message]:
    """A row of Alpaca as a chat; none if its output is blank."""
    instruction, input = text_field(raw, "instruction"), text_field(raw, "input", optional=True)
    before, output = [*_system(raw), *_history(raw)], _text_or_empty(raw, "output")
    if not output.strip():
        return []
    request = f"{instruction}\n\n{input}" if input else instruction
    return [*before, {"role": "user", "content": request}, {"role": "assistant", "content": output}]


def _system(raw: RawRow) -> list[Message]:
    """The row's own system prompt (LLaMA-Factory's column), as a message; none if it is empty or not there."""
    text = text_field(raw, "system", optional=True)
    return [{"role": "system", "content": text}] if text.strip() else []


def _history(raw: RawRow) -> list[Message]:
    """The messages before the instruction: LLaMA-Factory's column of pairs of a request and its answer."""
    messages = []
    history = raw.fields.get("history") or []
    if not isinstance(history, list):
        raise InputError(f"{raw.place}: history: must be a list of pairs (given: {_shown(history)})")
    for index, pair in enumerate(history):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"{raw.place}: history[{index}]: must be a request and its answer (given: {_shown(pair)})")
        for role, content in zip(("user", "assistant"), pair, strict=True):
            messages.append({"role": role, "content": _text(content, raw, f"history[{index}]")})
    return messages


def _messages(raw: RawRow, field: str, turns: Counter[str], role_of_text: str | None = None) -> list[Message]:
    """The messages of a column, checked; `turns` counts their keys that nobody reads.

    A text is one message, if there is a `role_of_text`.
    """
    value = _field(raw, field)
    if role_of_text and not isinstance(value, list):
        text = "" if value is None and role_of_text == "assistant" else _text(value, raw, field)
        return [{"role": role_of_text, "content": text}]
    if not isinstance(value, list):
        raise InputError(f"{raw.place}: {field}: must be a list of turns (given: {_shown(value)})")
    keys, roles = ("role", "content"), ROLES
    if field == "conversations" and not (value and isinstance(value[0], dict) and "role" in value[0]):
        keys, roles = ("from", "value"), SHAREGPT_ROLES
    messages = []
    for index, turn in enumerate(value):
        where = f"{field}[{index}]"
        if not isinstance(turn, dict):
            raise InputError(
                f"{raw.place}: {where}: must be a mapping with {' and '.join(keys)} (given: {_shown(turn)})"
            )
        for key in keys:
            if key not in turn and not (key == keys[1] and turn.get("tool_calls")):
                keys_here = one_line(", ".join(map(str, turn)), 120)
                raise InputError(f"{raw.place}: {where}: no key {key!r} (keys: {keys_here}); rename the key")
        name, content = turn[keys[0]], turn.get(keys[1])
        if not isinstance(name, str) or name not in roles:
            raise InputError(
                f"{raw.place}: {where}.{keys[0]}: unknown role {_shown(name)}; known are {', '.join(roles)}"
            )
        role = roles[name]
        if content is None and role in _MORE:
            content = ""
        elif isinstance(content, list) and content and all(map(_is_text_part, content)):  # as servers join them
            content = "\n".join(part["text"] for part in content)
        more: Message = {}
        if role == "assistant":
            more = _of_answer(turn, f"{raw.place}: {where}")
        elif role == "tool":
            more = {key: turn[key] for key in _MORE["tool"] if turn.get(key) is not None}
        check_storable(raw, where, more)
        messages.append({"role": role, "content": _text(content, raw, f"{where}.{keys[1]}"), **more})
        unused = turn.keys() - {*keys, *_MORE.get(role, ())}
        turns.update(f"unused key {one_line(key, 40)}" for key in turn if key in unused and turn[key] is not None)
    return messages


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _of_answer(turn: Mapping[str, Any], place: str) -> Message:
    """What an assistant's turn says besides its role and content; `"train": false` is a weight of 0."""
    more: Message = {}
    if calls := turn.get("tool_calls"):
        if not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
            raise InputError(f"{place}.tool_calls: must be a list of mappings (given: {_shown(calls)})")
        more["tool_calls"] = calls
    thoughts = {key: turn[key] for key in REASONING if turn.get(key)}
    for key, thought in thoughts.items():
        if not isinstance(thought, str):
            raise InputError(f"{place}.{key}: must be text (given: {_shown(thought)}); write a string")
    thinking = next(iter(thoughts.values()), "")
    if thinking.strip():
        more[REASONING[0]] = thinking
    train = turn.get("train")
    if train not in (None, 0, 1):
        raise InputError(f"{place}.train: must be true or false, 1 or 0 (given: {_shown(train)})")
    weight = _weight(turn.get("weight"), f"{place}.") * (train in (None, 1))
    return more if weight == 1 else {**more, "weight": weight}


def is_weight(value: Any) -> bool:
    """Whether a value is a number that a loss can be multiplied by."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_WEIGHT


def _weight(value: Any, place: str) -> float:
    """A weight as a row or a turn has it; 1 if there is none."""
    if value is None:
        return 1.0
    if not is_weight(value):
        raise InputError(
            f"{place}weight: must be a number from 0 to {MOST_WEIGHT:,} (given: {_shown(value)}); write one, or "
            "rename it if it is something else"
        )
    return float(value) if value >= LEAST_WEIGHT else 0.0


def is_answer(message: Message) -> bool:
    """Whether a message is an assistant's, with text or tool calls."""
    return message["role"] == "assistant" and bool(message.get("tool_calls") or message["content"].strip())


def _split(
    raw: RawRow, messages: list[Message], begin: int | None, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """Messages as a prompt and its completion, or as a chat of several answers; without what follows the last answer.

    An answer is trained on if it has a weight and a turn before it; of a prompt and its completion, only from
    message `begin` on.
    """
    answers = [index for index, message in enumerate(messages) if is_answer(message)]
    if answers and answers[-1] == 0:
        raise InputError(f"{raw.place}: no turn before the answer; remove the row")
    possible = [index for index in answers if index >= (begin or 1)]
    if not possible:
        return None
    weights = {index: messages[index].get("weight", 1.0) for index in answers}
    trained = [index for index in possible if weights[index]]
    last = (trained or possible)[-1]
    if untrained := sum(not weight for weight in weights.values()):
        turns["untrained"] += untrained
    turns.update(
        answers=len(trained),
        opening=bool(weights.get(0)),
        empty=sum(message["role"] == "assistant" and not is_answer(message) for message in messages[:last]),
        after=len(messages) - 1 - last,
    )
    row: dict[str, Any]
    if begin is None and len(trained) > 1 and train_on == "assistant_turns":
        row = {"messages": messages[: last + 1]}
    else:
        middle = last if begin is None or train_on == "last_turn" else begin
        row = {"prompt": messages[:middle], "completion": messages[middle : last + 1]}
    return row if trained else {**row, "weight": 0.0}


def _as_alpaca(raw: RawRow, prompt: list[Message], answer: Message, tools: Any, asked: list[str]) -> dict[str, Any]:
    """A request and its answer as plain text; `asked` are instruction and input, if the row has them apart."""
    roles = ", ".join(message["role"] for message in prompt)
    if roles != "user" or tools or not answer.keys() <= {"role", "content", "weight"}:
        kind = one_line(roles, 60) if roles != "user" else "tool calls or thinking"
        raise InputError(
            f"{raw.place}: the turns before the answer ({kind}) do not fit the alpaca template, which "
            "takes a single request; set template: chat"
        )
    row = {"prompt": alpaca_prompt(*(asked or [prompt[0]["content"]])), "completion": answer["content"]}
    return {**row, "weight": answer.get("weight", 1.0)}


def _tools(raw: RawRow) -> Any:
    """The descriptions of the tools that a chat may call: a list of mappings, or the same as JSON text."""
    tools = raw.fields.get("tools")
    if isinstance(tools, str):
        try:
            tools = parse_json(tools) if tools.strip() else None
        except RepeatedKeyError as error:
            raise InputError(f"{raw.place}: tools: {error}") from None
        except ValueError:
            raise InputError(f"{raw.place}: tools: is not JSON ({_shown(tools)}); write a list of mappings") from None
    check_storable(raw, "tools", tools)
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise InputError(f"{raw.place}: tools: must be a list of mappings (given: {_shown(tools)})")
    return tools or None


def turns_before(raw: RawRow) -> list[Message]:
    """The messages before the instruction: the row's system prompt, and its `earlier` messages or its `history`.

    Raises:
        InputError: one of them is malformed.
    """
    earlier = _messages(raw, "earlier", Counter()) if raw.fields.get("earlier") else []
    messages = [*_system(raw), *_history(raw), *earlier]
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def alpaca_prompt(instruction: str, input: str = "") -> str:
    """Stanford Alpaca's prompt for an instruction, with or without an input."""
    # Not str.format: an instruction may contain braces or look like the other placeholder.
    before, *between, after = _PARTS[1 if input == "" else 0]
    return before + instruction + "".join(text + input for text in between) + after


def alpaca_request(prompt: str) -> str:
    """What an `alpaca_prompt` asks: its instruction, and its input after an empty line."""
    for before, *between, after in _PARTS:
        if prompt.startswith(before) and prompt.endswith(after):
            asked = prompt[len(before) : len(prompt) - len(after)]
            return asked.replace(between[0], "\n\n", 1) if between else asked
    return prompt


def text_field(raw: RawRow, name: str, *, optional: bool = False) -> str:
    """The text of a field; an `optional` field may be missing or null and is then empty.

    Raises:
        InputError: a missing column (with those present), or a value that is not text.
    """
    value = _field(raw, name, optional=optional)
    if value is None and optional:
        return ""
    return _text(value, raw, name)


def word_field(row: RawRow, name: str) -> str:
    """A name or a number; empty if there is none."""
    value = row.fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text_field(row, name, optional=True)


def with_cluster(row: RawRow, column: str | None) -> RawRow:
    """The row, whose `cluster` is what it has in the named column.

    Raises:
        InputError: it has no such column, or nothing or no word there.
    """
    if column is None:
        return row
    if column not in row.fields:
        raise InputError(
            f"{row.place}: no column {one_line(column, 60)!r} (columns: {row.columns}); correct the name of the column "
            "with clusters"
        )
    if not (cluster := word_field(row, column)):
        raise InputError(f"{row.place}: {column!r} is empty; give each row a cluster, of its own if it depends on none")
    return replace(row, fields=row.fields | {"cluster": cluster})


def _field(raw: RawRow, name: str, *, optional: bool = False) -> Any:
    if name not in raw.fields and not optional:
        raise InputError(
            f"{raw.place}: no column {name!r} (columns: {raw.columns}); rename the column, or name the format in a "
            "data card"
        )
    return raw.fields.get(name)


def _text_or_empty(raw: RawRow, name: str) -> str:
    """The text of a column that has to be there; empty if it is null."""
    value = _field(raw, name)
    return "" if value is None else _text(value, raw, name)


def check_storable(raw: RawRow, field: str, value: Any) -> None:
    """Refuse a JSON value that cannot be stored as it is.

    Raises:
        InputError: half a surrogate pair in one of its texts, or more than 100 levels.
    """
    level = [value]
    for _ in range(100):
        try:
            "".join(part for part in level if isinstance(part, str)).encode()
        except UnicodeEncodeError:
            raise InputError(f"{raw.place}: {field}: has half a surrogate pair; write complete characters") from None
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner += [*part, *part.values()]
            elif isinstance(part, list):
                inner += part
        level = inner
        if not level:
            return
    raise InputError(f"{raw.place}: {field}: is nested more than 100 levels deep; simplify it")


def _text(value: Any, raw: RawRow, field: str) -> str:
    kinds = [part.get("type") for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    if media := [kind for kind in kinds if isinstance(kind, str) and kind != "text"]:
        raise InputError(f"{raw.place}: {field}: has a part of type {_shown(media[0])}; {_TEXT_ALONE}")
    if not isinstance(value, str):
        raise InputError(f"{raw.place}: {field}: must be text (given: {_shown(value)}); write a string")
    check_storable(raw, field, value)
    return value


def _shown(value: Any) -> str:
    return one_line(repr(value), 60)
