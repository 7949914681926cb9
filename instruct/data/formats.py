"""From a raw row in one of five formats to a prompt and its completion, to a chat, or to a text, in TRL's format."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.base.parsing import RepeatedKeyError, parse_json
from instruct.data.cards import Format, Template
from instruct.data.chats import TrainOn, chat_row, is_answer, more_of, read_weight, unused_keys
from instruct.data.sources import RawRow
from instruct.data.templates import is_text, text_of

Message = dict[str, Any]
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


class _Turn(NamedTuple):
    """A turn of a chat, whose text is not checked yet; `where` names the text in errors."""

    message: Message
    where: str

    def is_filled(self, raw: RawRow) -> bool:
        return "tool_calls" in self.message or _response(self.message["content"], raw, self.where) is not None

    def checked(self, raw: RawRow) -> Message:
        content = "" if self.message["content"] is None and _says_more(self.message) else self.message["content"]
        return {**self.message, "content": _text(content, raw, self.where)}


def _says_more(message: Message) -> bool:
    """Whether a message has tool calls, thinking or a tool's name."""
    return not message.keys() <= {"role", "content", "weight"}


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
    """The row as `{"prompt", "completion"}`: plain text under `alpaca`, lists of messages under `chat`.

    A chat of which several answers are trained on is `{"messages"}`; see `chat_row`. A text `prompt` is a plain
    request, which the template is applied to. A row of format `text` becomes `{"text"}`, to the letter. A row keeps a
    `weight` other than 1.

    Args:
        turns: counts the turns of chats, see `chat_row`.

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
    try:
        weight = read_weight(value)
    except InputError as error:
        raise InputError(f"{raw.place}: {error}") from None
    row = _unweighted(raw, format, template, train_on, Counter() if turns is None else turns)
    if row is None:
        return None
    weight *= row.pop("weight", 1.0)
    return row if weight == 1 else {**row, "weight": weight}


def _unweighted(
    raw: RawRow, format: Format, template: Template, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """`to_row` without the row's own weight."""
    if format == "text":
        text = _response(_field(raw, "text"), raw, "text")
        return None if text is None else {"text": text}
    for name in MEDIA:
        if raw.fields.get(name):
            raise InputError(f"{raw.place}: {name}: {_TEXT_ALONE}")
    if format == "alpaca":
        return _from_alpaca(raw, template, train_on, turns)
    if format == "prompt_completion":
        return _from_prompt_completion(raw, template, train_on, turns)
    if format == "sharegpt":
        value = _field(raw, "conversations")
        if isinstance(value, list) and value and isinstance(value[0], dict) and "role" in value[0]:
            chat = _turns(raw, "conversations", value, turns)
        else:
            chat = _turns(raw, "conversations", value, turns, ("from", "value"), SHAREGPT_ROLES)
        if chat and chat[0].message["role"] != "system":
            chat = [*_system(raw), *chat]
    else:
        chat = _turns(raw, "messages", _field(raw, "messages"), turns)
    if template == "alpaca":  # its rows have one answer
        train_on = "last_turn"
    tools = _tools(raw)
    return _from_chat(raw, chat, tools, template, train_on, turns)


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
        near = difflib.get_close_matches(name, map(str, raw.fields), n=1)
        hint = f"; nearest: {one_line(near[0], 60)}" if near else ""
        raise InputError(
            f"{raw.place}: no column {name!r} (columns: {raw.columns}{hint}); "
            "rename the column, or name the format in a data card"
        )
    return raw.fields.get(name)


def _system(raw: RawRow) -> list[_Turn]:
    """The row's own system prompt (LLaMA-Factory's column), as a turn; none if it is empty or not there."""
    text = text_field(raw, "system", optional=True)
    return [_Turn({"role": "system", "content": text}, "system")] if text.strip() else []


def _history(raw: RawRow) -> list[_Turn]:
    """The turns before the instruction: LLaMA-Factory's column of pairs of a request and its answer."""
    turns = []
    history = raw.fields.get("history") or []
    if not isinstance(history, list):
        raise InputError(f"{raw.place}: history: must be a list of pairs (given: {_shown(history)})")
    for index, pair in enumerate(history):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"{raw.place}: history[{index}]: must be a request and its answer (given: {_shown(pair)})")
        for role, content in zip(("user", "assistant"), pair, strict=True):
            turns.append(_Turn({"role": role, "content": content}, f"history[{index}]"))
    return turns


def turns_before(raw: RawRow) -> list[Message]:
    """The messages before the instruction: the row's system prompt, and its `earlier` messages or its `history`.

    Raises:
        InputError: one of them is malformed.
    """
    earlier = raw.fields.get("earlier") or []
    turns = [*_system(raw), *_history(raw), *_turns(raw, "earlier", earlier, None)]
    return [{"role": turn.message["role"], "content": turn.checked(raw)["content"]} for turn in turns]


def _from_alpaca(raw: RawRow, template: Template, train_on: TrainOn, turns: Counter[str]) -> dict[str, Any] | None:
    before = [*_system(raw), *_history(raw)]
    instruction = text_field(raw, "instruction")
    input = text_field(raw, "input", optional=True)
    output = _response(_field(raw, "output"), raw, "output")
    if output is None:
        return None
    if template == "alpaca":
        if before:
            raise InputError(
                f"{raw.place}: {before[0].where}: does not fit the alpaca template, which takes a single request; set "
                "template: chat"
            )
        return {"prompt": alpaca_prompt(instruction, input), "completion": output}
    request = {"role": "user", "content": f"{instruction}\n\n{input}" if input else instruction}
    answer = {"role": "assistant", "content": output}
    if before:
        chat = [*before, _Turn(request, "instruction"), _Turn(answer, "output")]
        return _from_chat(raw, chat, None, template, train_on, turns)
    return {"prompt": [request], "completion": [answer]}


def _from_prompt_completion(
    raw: RawRow, template: Template, train_on: TrainOn, counts: Counter[str]
) -> dict[str, Any] | None:
    """The answers of the completion alone are trained on, also where the prompt is a chat with answers."""
    prompt, completion = _field(raw, "prompt"), _field(raw, "completion")
    if isinstance(prompt, list):
        turns = _turns(raw, "prompt", prompt, counts)
    else:
        turns = [_Turn({"role": "user", "content": prompt}, "prompt")]
    if isinstance(completion, list):
        answers = _turns(raw, "completion", completion, counts)
    else:
        answers = [_Turn({"role": "assistant", "content": completion}, "completion")]
    if not any(turn.message["role"] == "assistant" for turn in answers):
        raise InputError(f"{raw.place}: completion: has no assistant message; move its turns to the prompt")
    row = _from_chat(raw, [*turns, *answers], _tools(raw), template, "last_turn", Counter())
    if row is None or isinstance(row["prompt"], str):
        return row
    if len(row["prompt"]) < len(turns):  # the last answer is the prompt's
        return {**row, "weight": 0.0} if any(is_answer(turn.message, True) for turn in answers) else None
    if train_on == "last_turn":
        return row
    messages = [*row["prompt"], *row["completion"]]
    return {**row, "prompt": messages[: len(turns)], "completion": messages[len(turns) :]}


def _from_chat(
    raw: RawRow, chat: list[_Turn], tools: Any, template: Template, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    answers = [index for index, turn in enumerate(chat) if turn.message["role"] == "assistant"]
    while answers and not chat[answers[-1]].is_filled(raw):
        answers.pop()
    if not answers:
        return None
    if answers[-1] == 0:
        raise InputError(f"{raw.place}: {chat[0].where}: no turn before the answer; remove the row")
    messages = [turn.checked(raw) for turn in chat[: answers[-1] + 1]]
    # Only roles matter of the turns after the last answer, which are counted and left out.
    after = [{"role": turn.message["role"], "content": ""} for turn in chat[len(messages) :]]
    row = chat_row([*messages, *after], tools, train_on, turns)
    if row is None or template == "chat":
        arguments = raw.fields.get("chat_template_kwargs")
        if arguments is not None and not isinstance(arguments, dict):
            raise InputError(f"{raw.place}: chat_template_kwargs: must be a mapping (given: {_shown(arguments)})")
        return {**row, "chat_template_kwargs": arguments} if row and arguments else row
    prompt, answer = row["prompt"], row["completion"][0]
    roles = ", ".join(message["role"] for message in prompt)
    if roles != "user" or tools or _says_more(answer):
        kind = one_line(roles, 60) if roles != "user" else "tool calls or thinking"
        raise InputError(
            f"{raw.place}: the turns before the answer ({kind}) do not fit the alpaca template, which "
            "takes a single request; set template: chat"
        )
    weight = {"weight": answer["weight"]} if "weight" in answer else {}
    return {"prompt": alpaca_prompt(prompt[0]["content"]), "completion": answer["content"], **weight}


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


def _turns(
    raw: RawRow,
    field: str,
    value: Any,
    counts: Counter[str] | None,
    keys: tuple[str, str] = ("role", "content"),
    roles: dict[str, str] = ROLES,
) -> list[_Turn]:
    """The turns of a field; `counts` their keys that nobody reads."""
    if not isinstance(value, list):
        raise InputError(f"{raw.place}: {field}: must be a list of turns (given: {_shown(value)})")
    turns = []
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
        role = turn[keys[0]]
        if not isinstance(role, str) or role not in roles:
            raise InputError(
                f"{raw.place}: {where}.{keys[0]}: unknown role {_shown(role)}; known are {', '.join(roles)}"
            )
        content = turn.get(keys[1])
        content = text_of({"content": content}) if is_text(content) else content
        try:
            more = more_of(turn, roles[role])
        except InputError as error:
            raise InputError(f"{raw.place}: {where}.{error}") from None
        for key, value in more.items():
            check_storable(raw, f"{where}.{key}", value)
        message = {"role": roles[role], "content": content, **more}
        turns.append(_Turn(message, f"{where}.{keys[1]}"))
        if counts is not None:
            counts.update(f"unused key {one_line(key, 40)}" for key in unused_keys(turn, roles[role], keys))
    return turns


def _response(value: Any, raw: RawRow, field: str) -> str | None:
    """The response, or None if it is missing or blank."""
    if value is None:
        return None
    text = _text(value, raw, field)
    return text if text.strip() else None


def check_storable(raw: RawRow, field: str, value: Any) -> None:
    """Refuse a JSON value that cannot be stored as it is.

    Raises:
        InputError: half a surrogate pair in one of its texts, or more than 100 levels.
    """
    level = [value]
    for _ in range(100):
        if not all(_is_whole(part) for part in level if isinstance(part, str)):
            raise InputError(f"{raw.place}: {field}: has half a surrogate pair; write complete characters")
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


def _is_whole(text: str) -> bool:
    """Whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Any, raw: RawRow, field: str) -> str:
    kinds = [part.get("type") for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    if media := [kind for kind in kinds if isinstance(kind, str) and kind != "text"]:
        raise InputError(f"{raw.place}: {field}: has a part of type {_shown(media[0])}; {_TEXT_ALONE}")
    if not isinstance(value, str):
        raise InputError(f"{raw.place}: {field}: must be text (given: {_shown(value)}); write a string")
    if not _is_whole(value):
        raise InputError(f"{raw.place}: {field}: has half a surrogate pair; write complete characters")
    return value


def _shown(value: Any) -> str:
    return one_line(repr(value), 60)
