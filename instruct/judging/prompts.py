"""From a pair of answers to what the judge is asked."""

from __future__ import annotations

import re
from typing import Any

from instruct.errors import InputError
from instruct.judging.cards import JudgeCard

Message = dict[str, str]
JudgePrompt = str | list[Message]

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
_PLACEHOLDER = re.compile(r"\{(" + "|".join(["instruction", "input", "first", "second", *_NAMES]) + r")\}")
_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)\n?<\|im_end\|>", re.DOTALL)


class PromptTemplate:
    """A card's prompt, read once, rendered for many pairs."""

    def __init__(self, card: JudgeCard) -> None:
        self._card = card
        self._texts = {False: card.prompt_file().read_text(encoding="utf-8")}
        if card.prompt_with_input:
            self._texts[True] = card.prompt_file(with_input=True).read_text(encoding="utf-8")
        for text in self._texts.values():
            found = {_NAMES.get(name, name) for name in _PLACEHOLDER.findall(text)}
            if not {"instruction", "first", "second"} <= found:
                raise InputError(
                    f"{card.prompt_file()}: lacks {', '.join(sorted({'instruction', 'first', 'second'} - found))}; "
                    "write {instruction}, {first} and {second} where they belong"
                )

    def render(self, row: dict[str, Any], first: str, second: str) -> JudgePrompt:
        """The prompt for one pair, in the order shown.

        Substitution is a single pass: an answer that holds "{second}" or a closing bracket stays the text that it is.
        """
        context = str(row.get("input") or "")
        text = self._texts.get(bool(context), self._texts[False])
        values = {
            "instruction": row["instruction"],
            "input": context,
            "first": self._cleaned(first),
            "second": self._cleaned(second),
        }

        def substituted(part: str) -> str:
            return _PLACEHOLDER.sub(lambda match: values[_NAMES.get(match[1], match[1])], part)

        if self._card.prompt_form == "text":
            return substituted(text)
        # The template is split into messages before anything is put in: an answer cannot open a turn of its own.
        turns = [(role, content) for role, content in _CHATML.findall(text)] or [("user", text.strip())]
        return [{"role": role, "content": substituted(content)} for role, content in turns]

    def _cleaned(self, answer: str) -> str:
        if not self._card.remove_from_answers:
            return answer
        answer = answer.strip()
        for token in self._card.remove_from_answers:
            answer = answer.replace(token, "")
        return answer.strip()
