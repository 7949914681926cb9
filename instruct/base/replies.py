"""What a model replies, as engines return it and stores keep it, and its text apart from the thinking before it.

Servers return both apart (`reasoning_content`, `reasoning`). Where the thinking of a model whose prompts are rendered
here begins and ends is known from its chat template.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# Among the changes of a request, if a server counts fewer tokens in a prompt than it can have.
PROMPT_CUT = "with a prompt that the server seems to cut"


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    `label_logprobs` maps each label's text to its natural log-probability as the first token. `choice` is the server's
    whole choice in OpenAI's form, if it was to be kept; `model` is the model that the server says answered.
    `reasoning` is what the model thought before its text, None if it did not or the text has it; `tool_calls` are those
    of a reply, in OpenAI's form. `reasoning_tokens` are those of `completion_tokens` before the text; None if unknown.
    `changes` says how the request differed from what was meant to be sent, because the server refuses that.
    """

    text: str
    label_logprobs: dict[str, float] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    choice: dict[str, Any] | None = None
    model: str | None = None
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    reasoning_tokens: int | None = None
    changes: str | None = None

    @property
    def cut_in_thinking(self) -> bool:
        """Whether the limit was reached before the text began."""
        return self.reasoning is not None and not self.text.strip() and self.finish_reason == "length"

    def record(self) -> dict[str, Any]:
        """The reply as JSON data; thinking and calls, which earlier versions did not have, only if there are any."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "token_logprobs"
            and (value is not None or name not in ("reasoning", "tool_calls", "reasoning_tokens", "changes"))
        }


@dataclass(frozen=True)
class ScoredCompletion(Completion):
    """The reply to a prompt that was scored: the natural log-probability of each token asked for, which is not kept."""

    token_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why there is no reply, and what the attempts cost in US dollars.

    `permanent`: the request was refused, so that it would fail again. `tried`: it was given all the attempts that a
    request has; otherwise it failed because the whole work ended, or no model was asked.
    """

    reason: str
    usd: float = 0.0
    permanent: bool = False
    tried: bool = True


Reply = Completion | Failure


class Marks(NamedTuple):
    """What a family of models writes around its thinking, and around the text after it."""

    begin: str
    end: str
    text: str = ""


THINK = Marks("<think>", "</think>")
# By what a chat template contains.
_FAMILIES = (
    Marks("<|channel|>analysis<|message|>", "<|end|>", "<|channel|>final<|message|>"),  # harmony: gpt-oss
    Marks("<|channel>thought", "<channel|>"),  # Gemma 4
    Marks("[THINK]", "[/THINK]"),  # Magistral
    Marks("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A Reasoning
    THINK,  # Qwen, DeepSeek-R1, GLM, Nemotron, LFM
)


# Tokens at the end of a prompt in which a mark is looked for.
_LAST = 32


class Parted(NamedTuple):
    """A reply's text, and the thinking before it; None if it did not think."""

    text: str
    reasoning: str | None


def reasoning_tokens(prompt: Sequence[int], answer: Sequence[int], tokenizer: Any) -> int | None:
    """How many tokens of a reply come before its text, with the marks of its thinking; None if it did not think."""
    marks = marks_of(tokenizer.chat_template)
    if marks is None or parted_after(prompt, tokenizer.decode(answer), "", tokenizer).reasoning is None:
        return None
    mark = marks.text or marks.end
    return bisect_left(range(len(answer)), True, key=lambda count: mark in tokenizer.decode(answer[:count]))


def marks_of(chat_template: Any) -> Marks | None:
    """The marks of the models that have this chat template; None if they do not think."""
    text = str(chat_template or "")
    if "<|channel|>" in text and "analysis" in text:
        return _FAMILIES[0]
    return next((marks for marks in _FAMILIES[1:] if marks.end in text), None)


def parted(reply: str, marks: Marks, prompt: str = "") -> Parted:
    """A reply without its thinking, which begins in the reply, or at the end of the prompt.

    A reply that ends before its thinking does has no text. White space around either is removed if the reply thought.
    """
    begun = reply.lstrip()
    if begun.startswith(marks.begin):
        begun = begun[len(marks.begin) :]
    elif marks.text and begun.startswith(marks.text):
        return Parted(begun[len(marks.text) :].strip(), None)
    elif not prompt.rstrip().endswith(marks.begin):
        return Parted(reply, None)
    reasoning, ended, text = begun.partition(marks.end)
    if marks.text:  # what comes before it is the header of the next message
        text = text.partition(marks.text)[2]
    return Parted(text.strip() if ended else "", reasoning.strip())


def parted_after(prompt: Sequence[int], whole: str, text: str, tokenizer: Any) -> Parted:
    """A reply to a prompt of token ids, by the marks of the tokenizer's chat template.

    Args:
        whole: the reply with its special tokens, which marks may be.
        text: the reply as it is if it did not think.
    """
    marks = marks_of(tokenizer.chat_template)
    reply = parted(whole, marks, tokenizer.decode(prompt[-_LAST:])) if marks else Parted(whole, None)
    if reply == (whole, None):
        return Parted(text, None)
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    tokens = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or "(?!)")
    reasoning = None if reply.reasoning is None else tokens.sub("", reply.reasoning).strip()
    return Parted(tokens.sub("", reply.text).strip(), reasoning)
