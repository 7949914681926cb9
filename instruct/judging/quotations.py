"""Telling what a judge says from what it quotes: a verdict inside an answer must not become the judge's verdict.

A verdict phrase in a reply is a quotation if a shown answer contains the same words (exactly, except for white space)
and either

- the reply and the answer agree beyond the phrase, over `CONTEXT` letters and digits or over the whole answer, or
- the phrase is in quotation marks or backticks that opened on the same line, or on a line that starts with ">".

A single word (a label such as "A") is a quotation only with `CONTEXT` around it: too many answers contain it, and
judges quote labels too often. Everything else is the judge's own statement, so an answer that contains the phrase
cannot make the judge's verdict unreadable either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

# Letters and digits around a phrase; more than a judge's own sentence shares with an answer by chance.
CONTEXT = 16

_WORD = re.compile(r"\w+")


class Quotations:
    """The answers that a judge was shown, and what a reply quotes from them."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._answers = [_spaced(answer) for answer in shown]

    def holds(self, phrase: str) -> bool:
        """Whether a shown answer contains the phrase."""
        return any(_spaced(phrase) in answer for answer in self._answers)

    def quotes(self, reply: str, start: int, end: int) -> bool:
        """Whether `reply[start:end]`, a phrase that states a verdict, is quoted from a shown answer."""
        phrase = _spaced(reply[start:end])
        holding = [answer for answer in self._answers if phrase in answer]
        if not holding:
            return False
        around = _Around(reply, start, end)
        spans = [(left, CONTEXT - left) for left in range(CONTEXT + 1)]
        if any(window in answer for window in map(around.window, spans) if window for answer in holding):
            return True
        if len(_WORD.findall(phrase)) < 2:
            return False
        return _in_marks(reply, start) or any(
            window in answer
            for answer in holding
            for window in map(around.window, _whole_spans(answer, phrase))
            if window
        )


class _Around:
    """Windows around a phrase in a reply, measured in letters and digits to its left and right."""

    def __init__(self, reply: str, start: int, end: int) -> None:
        self._reply, self._start, self._end = reply, start, end
        self._before = list(islice((at for at in range(start - 1, -1, -1) if reply[at].isalnum()), CONTEXT))
        self._after = list(islice((at for at in range(end, len(reply)) if reply[at].isalnum()), CONTEXT))

    def window(self, span: tuple[int, int]) -> str | None:
        left, right = span
        if left > len(self._before) or right > len(self._after):
            return None
        start = self._before[left - 1] if left else self._start
        return _spaced(self._reply[start : self._after[right - 1] + 1 if right else self._end])


def _whole_spans(answer: str, phrase: str) -> list[tuple[int, int]]:
    """The spans of windows that cover a whole short answer, one for each occurrence of the phrase in it.

    [] if the answer is nothing but the phrase, which cannot be told from a verdict of the judge's own.
    """
    beyond = _letters(answer) - _letters(phrase)
    if not 0 < beyond < CONTEXT:
        return []
    places = [at for at in range(len(answer)) if answer.startswith(phrase, at)]
    return [(_letters(answer[:at]), _letters(answer[at + len(phrase) :])) for at in places]


def _letters(text: str) -> int:
    return sum(character.isalnum() for character in text)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _in_marks(reply: str, start: int) -> bool:
    line = reply[reply.rfind("\n", 0, start) + 1 : start]
    if line.lstrip().startswith(">") or line.count("“") > line.count("”") or line.count("«") > line.count("»"):
        return True
    return line.count('"') % 2 == 1 or line.count("`") % 2 == 1
