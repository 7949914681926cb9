"""The record of a prompt, from a file's row to what a model is asked and a judge is shown: one for every reader."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from instruct.base.errors import InputError, counted, one_line
from instruct.base.output import say
from instruct.data.cards import Template
from instruct.data.formats import (
    Message,
    Prompt,
    alpaca_prompt,
    check_storable,
    text_field,
    turns_before,
    unread_columns,
    unread_note,
    word_field,
)
from instruct.data.sources import RawRow

# What a judge may be shown of a row, as a placeholder of this name: texts, or lists of texts.
GUIDES = ("rubric", "criteria", "checklist")
# What a row of an evaluation set calls what is asked: a text, a text for each turn, or a chat.
PROMPT_COLUMNS = ("instruction", "turns", "prompt", "question", "text", "messages")
# What identifies a row, and what benchmarks call that which identifies a question.
_IDS = ("id", "uid", "question_id", "prompt_id", "key")
# The columns of a prompt's or an answer's row that are read, or that this project writes.
_READ = {"instruction", "input", "system", "earlier", "history", "later", "turns", "reference", *GUIDES, *_IDS}
_READ |= {"dataset", "category", "cluster", "output", "generator", "failed", "reasoning", "tool_calls"}


@dataclass(frozen=True)
class EvalPrompt:
    """A prompt and the subset of the evaluation set that it belongs to.

    Attributes:
        later: the questions of further turns, which follow the answer to the one before.
        reference: the right answer to each turn, for judges.
        id: identifies the question in a benchmark's files.
        earlier: the messages before the instruction, of the user and the assistant in turn.
        guides: what else a judge may be shown of the row, see `GUIDES`.
        temperature: what the set samples its answers at, if it says so.
        input: the instruction's context, which follows it after a blank line wherever it has no place of its own.
        system: the system prompt.
        cluster: rows of one cluster depend on each other, such as several questions about one text.
    """

    instruction: str
    dataset: str
    later: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    id: str | None = None
    earlier: tuple[Message, ...] = ()
    guides: tuple[tuple[str, str], ...] = ()
    temperature: float | None = None
    input: str = ""
    system: str = ""
    cluster: str = ""

    @property
    def request(self) -> str:
        """The instruction and, after a blank line, its input."""
        return request_of({"instruction": self.instruction, "input": self.input})

    @property
    def whole(self) -> str:
        """Everything that a model is asked, but for its own answers."""
        asked = [turn["content"] for turn in self.earlier if turn["role"] == "user"]
        return "\n\n".join(filter(None, [self.system, *asked, self.request]))

    @property
    def identity(self) -> list[Any]:
        """Everything that a reply or a verdict depends on, for JSON."""
        beside = [self.later, self.reference, self.earlier, self.guides, self.input, self.system and [self.system]]
        return [self.dataset, self.instruction, *filter(None, beside)]

    def row(self, output: str, generator: str, **more: Any) -> dict[str, Any]:
        """A row of answers in model_outputs format, with what the record has beside the instruction."""
        beside = {"input": self.input, "system": self.system, "earlier": [*self.earlier]}
        beside |= {"reference": [*self.reference], **dict(self.guides), "cluster": self.cluster}
        row = {"dataset": self.dataset, "instruction": self.instruction, "output": output, "generator": generator}
        return row | more | {name: value for name, value in beside.items() if value}

    def answered(self, answers: Sequence[str], generator: str) -> list[dict[str, Any]]:
        """Rows of answers in model_outputs format: one for each turn that is answered, with the turns before it."""
        rows: list[dict[str, Any]] = []
        turn = self
        for number, answer in enumerate(answers[: 1 + len(self.later)], start=1):
            id = f"{self.id or self.request}, turn {number}" if self.later else self.id
            now = replace(
                turn, reference=self.reference[: 1 + len(turn.earlier) // 2] if self.later else self.reference
            )
            rows.append(now.row(answer, generator, **({"id": id} if id else {})))
            if number <= len(self.later):
                turn = turn.next_turn(answer, self.later[number - 1])
        return rows

    def next_turn(self, answer: str, asked: str) -> EvalPrompt:
        """What is asked after an answer."""
        told = ({"role": "user", "content": self.request}, {"role": "assistant", "content": answer})
        return replace(self, instruction=asked, input="", earlier=(*self.earlier, *told), later=())

    def render(self, template: Template) -> Prompt:
        """The prompt as a model is asked it, rendered as in training: Alpaca's text, or messages.

        In Alpaca's text, which has no turns, each question is an instruction of its own.

        Raises:
            InputError: a system prompt for Alpaca's text, which has no place for it.
        """
        if template == "chat":
            first = [{"role": "system", "content": self.system}] if self.system else []
            return [*first, *self.earlier, {"role": "user", "content": self.request}]
        if self.system:
            raise InputError(
                f"{one_line(self.request, 60)!r}: its system prompt does not fit the alpaca template, which takes a "
                "single request; set template: chat"
            )
        asked = [alpaca_prompt(turn["content"]) for turn in self.earlier[::2]]
        told = [turn["content"] + "\n\n" for turn in self.earlier[1::2]]
        return "".join(itertools.chain(*zip(asked, told, strict=True))) + alpaca_prompt(self.instruction, self.input)


def read_prompt(row: RawRow, dataset: str) -> EvalPrompt:
    """A row's prompt; `dataset` is that of rows without `dataset` or `category`.

    The `reference` and the guides are texts or lists of texts; the system prompt may be the first of the `earlier`
    messages, which may also be a `history` of pairs.

    Raises:
        InputError: no or an empty instruction, or a field that is of another type.
    """
    instruction, context = text_field(row, "instruction"), text_field(row, "input", optional=True)
    if not (instruction + context).strip():
        raise InputError(f"{row.place}: instruction: is empty; write a prompt or remove the row")
    before = turns_before(row)
    system = before.pop(0)["content"] if before and before[0]["role"] == "system" else ""
    if [turn["role"] for turn in before] != ["user", "assistant"] * (len(before) // 2):
        raise InputError(f"{row.place}: earlier: must be messages of the user and the assistant in turn; correct them")
    guides = []
    for name in GUIDES:
        if texts := _texts(row, name):
            listed = "\n".join(f"- {text}" for text in texts)
            guides.append((name, texts[0] if isinstance(row.fields[name], str) else listed))
    return EvalPrompt(
        instruction,
        text_field(row, "dataset", optional=True) or word_field(row, "category") or dataset,
        later=_texts(row, "later"),
        reference=_texts(row, "reference"),
        id=id_of(row),
        earlier=tuple(before),
        guides=tuple(guides),
        input=context,
        system=system,
        cluster=word_field(row, "cluster"),
    )


def say_unread(rows: Sequence[RawRow], *read: str | None) -> None:
    """Say which columns have text that no model and no judge is shown; `read` are further ones that are read."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(unread_columns(row.fields, {*_READ, *filter(None, read)}))
    if counts:
        say(f"{rows[0].origin}: {unread_note(counts, len(rows), 'no model or judge is shown')}")


def _texts(row: RawRow, name: str) -> tuple[str, ...]:
    """A field that is a text or a list of texts; none if it is missing or blank."""
    value = row.fields.get(name)
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        shown = one_line(repr(value), 60)
        raise InputError(f"{row.place}: {name}: must be text or a list of texts (given: {shown}); write a string")
    check_storable(row, name, [*texts])
    return tuple(texts) if any(text.strip() for text in texts) else ()


def id_of(row: RawRow) -> str | None:
    """What identifies a row, or a benchmark's question in the files of questions, answers and references alike."""
    value = next((row.fields[name] for name in _IDS if row.fields.get(name) is not None), None)
    return None if value is None else str(value)


def request_of(row: Mapping[str, Any]) -> str:
    """What a row of answers asks: the instruction and, after a blank line, its input."""
    return f"{row['instruction']}\n\n{row['input']}" if row.get("input") else str(row["instruction"])


def identity(row: Mapping[str, Any]) -> str:
    """What identifies a row's pair: its `id`, or what it asks."""
    return str(row["id"]) if "id" in row else request_of(row)


def pair_ids(raw: Sequence[RawRow], prompts: Sequence[EvalPrompt]) -> list[str | None]:
    """The `id` of each row whose request repeats; None for the others, which their request identifies.

    That of rows without ids is all that they ask, with the system prompt and the turns before.

    Raises:
        InputError: a prompt that repeats in rows without ids, or an id that repeats.
    """
    times = Counter(prompt.request for prompt in prompts)
    wholes = Counter(prompt.whole for prompt in prompts)
    ids: list[str | None] = []
    for row, prompt in zip(raw, prompts, strict=True):
        if times[prompt.request] == 1:
            ids.append(None)
        elif row.fields.get("id") is None:
            ids.append(prompt.whole if wholes[prompt.whole] == 1 else None)
        else:
            text = word_field(row, "id")
            ids.append(text)
            if not text.strip():
                raise InputError(f"{row.place}: id: is empty; write one, or remove the key")
    with_it: dict[str, int] = {}
    taken: dict[str, int] = {}
    for number, (row, prompt, id) in enumerate(zip(raw, prompts, ids, strict=True)):
        first = with_it.setdefault(prompt.whole, number)
        lacking = number if id is None else first
        if first != number and ids[lacking] is None:
            other = raw[first if lacking == number else number]
            raise InputError(
                f"{raw[lacking].place}: instruction: {one_line(prompt.request, 60)!r} is already in row {other.row}; "
                "give each of these rows an `id` of its own (they then count as one cluster), or remove one of them"
            )
        earlier = raw[taken.setdefault(id or prompt.request, number)]
        if earlier is not row:
            raise InputError(
                f"{row.place}: id: {one_line(id or prompt.request, 60)!r} already identifies row {earlier.row}; "
                "give each row an id of its own"
            )
    return ids


def missing_prompts(missing: Sequence[str], others: Iterable[str]) -> str:
    """For an error, how many prompts a file lacks that the other one has; `others` are those that it has."""
    stripped = {text.strip() for text in others}
    alike = all(text.strip() in stripped for text in missing)
    problem = "missing (they are there with other white space at the ends)" if alike else "missing"
    return f"{counted(len(missing), 'prompt')} of the other side {problem}, first {one_line(missing[0], 60)!r}"


_TURN = re.compile(r"(.+), turn (\d+)", re.DOTALL)  # as EvalPrompt.answered names it


def turn_of(pair: str) -> tuple[str, int] | None:
    """The conversation and the number of a turn, by what identifies its pair; None: it is no such turn."""
    turn = _TURN.fullmatch(pair)
    return (turn[1], int(turn[2])) if turn else None


def conversations(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The conversations of rows of answers that are turns of one, or their clusters, by what identifies each's pair.

    Rows with the same request are a cluster: their verdicts are not independent. One row that names a pair's cluster
    is enough.
    """
    firsts: dict[str, str] = {}
    by_pair: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: bool(row.get("cluster"))):
        pair = identity(row)
        if row.get("cluster"):
            by_pair[pair] = f"cluster {row['cluster']}"
        elif turn := turn_of(pair):
            by_pair.setdefault(pair, turn[0])
        elif row.get("earlier"):
            begun = str(row["earlier"][0].get("content"))
            by_pair[pair] = firsts.get(begun, begun)
            by_pair.setdefault(by_pair[pair], by_pair[pair])
        elif (first := firsts.setdefault(request_of(row), pair)) != pair:  # the same prompt in a row of its own
            by_pair[pair] = by_pair[first] = first
    return by_pair


def prompt_column(row: RawRow) -> str | None:
    """The column of an evaluation set's row that holds what is asked; None: it has none."""
    return next((name for name in PROMPT_COLUMNS if row.fields.get(name)), None)


def as_prompt(row: RawRow) -> RawRow:
    """A row of an evaluation set with `instruction`, `earlier` messages and `later` turns, whatever it calls them.

    Of a chat, the last message of the user is the instruction, and an answer to it the row's `output`.

    Raises:
        InputError: a turn is no text, a chat has no message of the user, or there is nothing that is asked.
    """
    fields, column = row.fields, prompt_column(row)
    if column == "instruction" or "instruction" in fields:
        return row
    if column is None:
        read = ", ".join(PROMPT_COLUMNS)
        raise InputError(f"{row.place}: has no prompt (columns: {row.columns}); rename its column to one of {read}")
    asked = fields[column] if isinstance(fields[column], list) else [fields[column]]
    if any(isinstance(turn, Mapping) and "role" in turn for turn in asked):
        return replace(row, fields=fields | _of_chat(replace(row, fields={"earlier": asked}), column))
    turns = [turn_text(row, turn) for turn in asked]
    topic = {"cluster": None} if fields.keys() & {"uid", "question_id"} else {}  # Arena-Hard's `cluster`
    return replace(row, fields=fields | {"instruction": turns[0], "later": turns[1:]} | topic)


def _of_chat(row: RawRow, column: str) -> dict[str, Any]:
    """The fields of a prompt that is a chat, whose messages are the row's `earlier`."""
    messages = turns_before(row)
    answer = messages.pop()["content"] if messages[-1]["role"] == "assistant" else None
    if not messages or messages[-1]["role"] != "user":
        raise InputError(f"{row.place}: {column}: does not end with a message of the user, or an answer to it")
    asked = messages.pop()["content"]
    return {"instruction": asked, "earlier": messages} | ({} if answer is None else {"output": answer})


def unwrapped(value: Any) -> Any:
    """The text that a message or an answer of Arena-Hard holds, which may be wrapped in both."""
    for name in ("content", "answer"):
        value = value[name] if isinstance(value, Mapping) and name in value else value
    return value


def turn_text(row: RawRow, value: Any) -> str:
    """The text of a question's or an answer's turn."""
    return text_field(replace(row, fields={"turn": unwrapped(value)}), "turn")
