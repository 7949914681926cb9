"""From answers to what the judge is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from instruct.engines.base import Message, Prompt
from instruct.errors import InputError
from instruct.judging.cards import JudgeCard

# The placeholders of the judges' authors, so that their prompts stand here to the byte, and this project's.
_NAMES = {
    "prompt": "instruction",  # Auto-J
    "response": "first",
    "response_another": "second",
    "resp1": "first",  # PandaLM
    "resp2": "second",
    "output_1": "first",  # AlpacaEval
    "output_2": "second",
}
_SINGLE_NAMES = {"answer": "first", "prompt": "instruction", "response": "first"}
_NEEDED = {"pairwise": ("instruction", "first", "second"), "single": ("instruction", "answer")}
_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)\n?<\|im_end\|>", re.DOTALL)


class PromptTemplate:
    """A card's prompt, read once, rendered for many pairs.

    Raises:
        InputError: a prompt lacks a placeholder, or holds one of the other protocol.
    """

    def __init__(self, card: JudgeCard) -> None:
        self._card = card
        self._names = _NAMES if card.protocol == "pairwise" else _SINGLE_NAMES
        known = ["instruction", "input", *(["first", "second"] if card.protocol == "pairwise" else []), *self._names]
        self._placeholder = re.compile(r"\{(" + "|".join(known) + r")\}")
        self._texts = {False: self._read(with_input=False)}
        if card.prompt_with_input:
            self._texts[True] = self._read(with_input=True)

    def render(self, row: dict[str, Any], first: str, second: str) -> Prompt:
        """The prompt for one pair, in the order shown.

        A row's `input` goes where the prompt says {input}; where it says that nowhere, after the instruction and a
        blank line, as AlpacaEval does. Substitution is a single pass: an answer that holds "{second}" or a closing
        bracket stays the text that it is.
        """
        return self._rendered(row, {"first": self._cleaned(first), "second": self._cleaned(second)})

    def render_single(self, row: dict[str, Any], answer: str) -> Prompt:
        """The prompt for one answer that is rated alone."""
        return self._rendered(row, {"first": self._cleaned(answer)})

    def render_all(self, row: dict[str, Any], first: str, second: str) -> tuple[Prompt, ...]:
        """All that is asked about two answers: the pair's prompt, or one for each where answers are rated alone."""
        if self._card.protocol == "single":
            return self.render_single(row, first), self.render_single(row, second)
        return (self.render(row, first, second),)

    def _rendered(self, row: dict[str, Any], answers: dict[str, str]) -> Prompt:
        context = str(row.get("input") or "")
        text = self._texts.get(bool(context), self._texts[False])
        values = {"instruction": row["instruction"], "input": context, **answers}
        if context and "{input}" not in text:
            values["instruction"] += "\n\n" + context

        def substituted(part: str) -> str:
            return self._placeholder.sub(lambda match: values[self._names.get(match[1], match[1])], part)

        if self._card.prompt_form == "text":
            return substituted(text)
        # The template is split into messages before anything is put in: an answer cannot open a turn of its own.
        return [turn | {"content": substituted(turn["content"])} for turn in self._turns(text)]

    def _turns(self, text: str) -> list[Message]:
        if self._card.annotator:
            from instruct.judging.annotators import chat_turns

            return chat_turns(text)
        turns = [{"role": role, "content": content} for role, content in _CHATML.findall(text)]
        return turns or [{"role": "user", "content": text.strip()}]

    def _read(self, with_input: bool) -> str:
        text = self._card.prompt_text(with_input)
        found = {self._names.get(name, name) for name in self._placeholder.findall(text)}
        needed = _NEEDED[self._card.protocol]
        lacking = [name for name in needed if self._names.get(name, name) not in found]
        if lacking:
            path = self._card.prompt_file(with_input)
            wanted = " and ".join("{" + name + "}" for name in needed)
            raise InputError(f"{path}: lacks {', '.join(lacking)}; write {wanted} where they belong")
        return text

    def _cleaned(self, answer: str) -> str:
        if not self._card.remove_from_answers:
            return answer
        answer = answer.strip()
        for token in self._card.remove_from_answers:
            answer = answer.replace(token, "")
        return answer.strip()


def trimmed(
    template: PromptTemplate, row: dict[str, Any], first: str, second: str, fits: Callable[[Prompt], bool]
) -> tuple[tuple[Prompt, ...], bool]:
    """The prompts for two answers, and whether these were cut to fit.

    Both are cut to the same largest length, in characters, with which every prompt fits: a shorter answer is cut only
    where the longer one would otherwise have to be shorter than it. Where not even one character of each fits, nothing
    is cut: the instruction alone is too long for this judge.
    """
    whole = template.render_all(row, first, second)
    if all(map(fits, whole)):
        return whole, False
    low, high = 0, max(len(first), len(second))  # `low` fits, or is 0; `high` does not fit
    best = whole
    while high - low > 1:
        middle = (low + high) // 2
        prompts = template.render_all(row, first[:middle], second[:middle])
        if all(map(fits, prompts)):
            low, best = middle, prompts
        else:
            high = middle
    return best, low > 0
