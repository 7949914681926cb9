"""The loss mask of a chat, in text: which parts of what the chat template renders are trained on.

The template is asked, never parsed: rendered up to each answer, it gives the prompt that generation would use, and what
follows that prompt in the whole chat is the answer with its end. So templates need no `{% generation %}` markers. A
template that renders a chat differently once it goes on, so that a prompt is not a prefix, is refused.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from instruct.base.errors import InputError
from instruct.data.templates import DEFAULT, Rendering

TrainOn = Literal["assistant_turns", "last_turn", "all_tokens"]
TRAIN_ON: tuple[TrainOn, ...] = get_args(TrainOn)
_PROBE = "probe"


def chat_row(
    messages: Sequence[Mapping[str, Any]], tools: Any, train_on: TrainOn, turns: Counter[str]
) -> dict[str, Any] | None:
    """A chat as a row to encode; turns after the last answer are left out.

    An answer is an assistant turn with text or tool calls that follows another turn. Empty assistant turns, and one
    that opens the chat, are context.

    Args:
        messages: `{"role", "content"}`, and `tool_calls` of an assistant turn that calls tools.
        tools: the tools that the chat template describes to the model, or None.
        turns: counts what the chat has: `answers`, `opening` and `empty` assistant turns, turns `after` the last
            answer.

    Returns:
        `{"prompt", "completion"}` if one answer is trained on, `{"messages"}` if several are; with `tools` if there are
        any. None if the chat has no answer.
    """
    assistant = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    filled = [index for index in assistant if _is_filled(messages[index])]
    answers = [index for index in filled if index > 0]
    if not answers:
        return None
    last = answers[-1]
    turns.update(
        answers=len(answers),
        opening=len(filled) - len(answers),
        empty=sum(index < last for index in assistant) - sum(index < last for index in filled),
        after=len(messages) - 1 - last,
    )
    described = {"tools": tools} if tools else {}
    if len(answers) > 1 and train_on == "assistant_turns":
        return {"messages": list(messages[: last + 1]), **described}
    return {"prompt": list(messages[:last]), "completion": [messages[last]], **described}


def has_answer(row: Mapping[str, Any]) -> bool:
    """Whether a row that `chat_row` returned, or a conversational prompt and completion, has something to train on."""
    return "messages" in row or any(_is_answer(row["completion"], i) for i in range(len(row["completion"])))


def _is_filled(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return bool(message.get("tool_calls") or (content.strip() if isinstance(content, str) else content))


def _is_answer(messages: Sequence[Mapping[str, Any]], index: int) -> bool:
    return messages[index]["role"] == "assistant" and _is_filled(messages[index])


@dataclass(frozen=True)
class _AnswerEnd:
    """What a chat template puts around an answer.

    Attributes:
        before: text between the prompt and the answer.
        learns_before: white space before an answer belongs to it ("[/INST] answer"), and so do special tokens. Other
            text, such as an empty thinking block, does not: the prompt for generation does not have it either.
        after: text after the answer.
        learned: the part of `after` up to and including the end token.
    """

    before: str
    learns_before: bool
    after: str
    learned: str

    @property
    def befores(self) -> tuple[str, ...]:
        """A template may leave `before` out of earlier answers, or put it into the prompt when it is asked to."""
        return (self.before, "") if self.before else ("",)


@dataclass
class ChatTemplate:
    """A tokenizer's (or processor's) chat template, and how it ends an answer.

    Attributes:
        rendering: how chats become text.
    """

    tokenizer: Any
    rendering: Rendering = DEFAULT

    def render(self, messages: Sequence[Any], *, prompt: bool = False, **more: Any) -> str:
        """The chat as text, see `Rendering.render`."""
        return self.rendering.render(self.tokenizer, messages, prompt=prompt, **more)

    def pieces(self, row: Mapping[str, Any], **more: Any) -> list[str]:
        """The text of a row, alternately context and an answer with its end token; the last piece is an answer.

        Args:
            row: as `chat_row` returns it.
            more: further arguments of `apply_chat_template`.

        Raises:
            InputError: the template does not reproduce a prompt or an answer, or renders it differently in the whole
                chat than when the answer is generated.
        """
        if row.get("tools"):
            more["tools"] = row["tools"]
        if "messages" in row:
            messages = list(row["messages"])
            answers = [i for i in range(1, len(messages)) if _is_answer(messages, i)]
        else:
            messages = [*row["prompt"], *row["completion"]]
            answers = [i for i in range(len(row["prompt"]), len(messages)) if _is_answer(messages, i)]
        messages = messages[: answers[-1] + 1]
        whole = self.render(messages[:-1], prompt=True, **more)
        final = self._final_answer(messages, whole, more)
        pieces: list[str] = []
        done = 0
        for number, index in enumerate(answers[:-1], start=1):
            prompt = self.render(messages[:index], prompt=True, **more)
            if not whole.startswith(prompt) or len(prompt) < done:
                raise InputError(
                    f"the tokenizer's chat template renders the turns before answer {number} differently once the chat "
                    "continues, so one row cannot train every answer; set train_on: last_turn, or fix its chat_template"
                )
            begin, end = self._earlier_answer(messages[: index + 1], prompt, whole, number, more)
            pieces += [whole[done:begin], whole[begin:end]]
            done = end
        return [*pieces, whole[done:], final]

    def _final_answer(self, messages: list[Any], prompt: str, more: dict[str, Any]) -> str:
        end = self._end  # what is wrong with the template in general is reported first
        whole = self.render(messages, **more)
        if not whole.startswith(prompt):
            raise self._unusable("changes the prompt of this row", row=True)
        rest = whole[len(prompt) :]
        for text, before in itertools.product(_forms(messages[-1]), end.befores):
            if rest == before + text + end.after:
                return (before if end.learns_before else "") + text + end.learned
        if _is_plain(messages[-1]):
            raise self._unusable("changes the answer of this row", row=True)
        return self._ended(rest)

    def _earlier_answer(
        self, messages: list[Any], prompt: str, whole: str, number: int, more: dict[str, Any]
    ) -> tuple[int, int]:
        """Where the last of `messages`, with its end token, begins and ends in `whole`."""
        start, end = len(prompt), self._end
        if _is_plain(messages[-1]):
            for text, before in itertools.product(_forms(messages[-1]), end.befores):
                if whole.startswith(before + text + end.learned, start):
                    begin = start if end.learns_before else start + len(before)
                    return begin, start + len(before + text + end.learned)
        else:
            alone = self.render(messages, **more)
            text = self._ended(alone[start:]) if alone.startswith(prompt) else ""
            if text and whole.startswith(text, start):
                return start, start + len(text)
        raise InputError(
            f"the tokenizer's chat template changes answer {number} once the chat continues (it drops its thinking, "
            "for example), so one row cannot train every answer; set train_on: last_turn, or fix its chat_template"
        )

    def _ended(self, text: str) -> str:
        """An answer's text up to its end token."""
        if self._end.after and text.endswith(self._end.after):
            return text.removesuffix(self._end.after) + self._end.learned
        text = text.rstrip()
        if not text.endswith(tuple(self._special)):  # a tool call may have another end token than an answer
            raise self._unusable("ends a tool call without a special token", row=True)
        return text

    def _unusable(self, what: str, row: bool = False) -> InputError:
        fix = "fix its chat_template or the row, or" if row else "fix its chat_template or"
        return InputError(f"the tokenizer's chat template {what}; {fix} {self.rendering.remedy}")

    @cached_property
    def _special(self) -> list[str]:
        tokenizer = getattr(self.tokenizer, "tokenizer", self.tokenizer)
        added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
        return [token for token in dict.fromkeys([*map(str, tokenizer.all_special_tokens), *added]) if token]

    @cached_property
    def _end(self) -> _AnswerEnd:
        """The text around an answer, found with a chat of one turn."""
        asked = [{"role": "user", "content": "Hello"}]
        prompt = self.render(asked, prompt=True)
        whole = self.render([*asked, {"role": "assistant", "content": _PROBE}])
        if not whole.startswith(prompt):
            raise self._unusable("changes the prompt when an answer follows")
        before, probe, after = whole[len(prompt) :].partition(_PROBE)
        if not probe:
            raise self._unusable("does not render the answer")
        ends = [(after.index(token), -len(token), token) for token in self._special if token in after]
        if not ends:
            raise self._unusable("ends an answer without a special token, so the model could not learn to stop")
        begin, _, token = min(ends)
        learned = after[:begin] + token
        # Some templates end an answer with two tokens, of which the second one stops generation. Others close the chat
        # with another token, which no earlier answer has.
        twice = self.render([*asked, {"role": "assistant", "content": _PROBE}, *asked], prompt=True)
        while following := next((t for t in self._special if after.startswith(learned + t)), None):
            if _PROBE + learned + following not in twice:
                break
            learned += following
        learns_before = before.isspace() or any(token in before for token in self._special)
        return _AnswerEnd(before, learns_before, after, learned)


def _is_plain(message: Mapping[str, Any]) -> bool:
    """Whether a message is its role and its text, which the template has to render as it is."""
    return isinstance(message["content"], str) and not any(
        value for key, value in message.items() if key not in ("role", "content")
    )


def _forms(message: Mapping[str, Any]) -> list[str]:
    """The message's text as a template may render it: as it is, or without white space at its ends."""
    text = message.get("content")
    if not isinstance(text, str):
        return []
    return list(dict.fromkeys((text, text.lstrip("\n"), text.rstrip(), text.lstrip(), text.strip())))
