"""Telling what a judge says from what it quotes: an answer that holds a verdict must not become the verdict.

A verdict phrase in a reply is read as a quotation of a shown answer where the same words stand in that answer (to the
letter, but for white space) and either

- the reply agrees with the answer beyond the phrase, over `CONTEXT` letters and digits or over the whole answer, or
- they stand in quotation marks or backticks that opened on the same line, or on a line that starts with ">".

One word alone (a label such as "A") is a quotation only with `CONTEXT` around it: it stands in too many answers, and
in quotation marks too often, to be told otherwise. What is no quotation by these rules is the judge's own: an answer
that holds the phrase thus cannot make the judge's verdict unreadable either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

# Letters and digits around a phrase: more than a judge's own sentence shares with an answer by chance.
CONTEXT = 16

_WORD = re.compile(r"\w+")


class Quotations:
    """The answers that a judge was shown, to tell what a reply quotes from them."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._answers = [_spaced(answer) for answer in shown]

    def holds(self, phrase: str) -> bool:
        """Whether a shown answer holds the phrase."""
        return any(_spaced(phrase) in answer for answer in self._answers)

    def quotes(self, reply: str, start: int, end: int) -> bool:
        """Whether `reply[start:end]`, a phrase that tells a verdict, is quoted from a shown answer."""
        phrase = _spaced(reply[start:end])
        holding = [answer for answer in self._answers if phrase in answer]
        if not holding:
            return False
        windows = _windows(reply, start, end)
        if any(window in answer for answer in holding for window in windows):
            return True
        if len(_WORD.findall(phrase)) < 2:
            return False
        return _in_marks(reply, start) or any(_is_quoted_whole(reply, start, end, phrase, each) for each in holding)


def _windows(reply: str, start: int, end: int) -> list[str]:
    """The phrase with `CONTEXT` letters and digits more, before it, after it, and every way between."""
    before = list(islice((place for place in range(start - 1, -1, -1) if reply[place].isalnum()), CONTEXT))
    after = list(islice((place for place in range(end, len(reply)) if reply[place].isalnum()), CONTEXT))
    windows = []
    for left in range(CONTEXT + 1):
        right = CONTEXT - left
        if left <= len(before) and right <= len(after):
            first, last = before[left - 1] if left else start, after[right - 1] + 1 if right else end
            windows.append(_spaced(reply[first:last]))
    return windows


def _is_quoted_whole(reply: str, start: int, end: int, phrase: str, answer: str) -> bool:
    if not any(character.isalnum() for character in answer.replace(phrase, "", 1)):
        return False  # the answer is the phrase and nothing else: word for word a verdict of the judge's own
    around = 2 * len(answer)  # the reply's white space may be wider
    return answer in _spaced(reply[max(0, start - around) : end + around])


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _in_marks(reply: str, start: int) -> bool:
    line = reply[reply.rfind("\n", 0, start) + 1 : start]
    if line.lstrip().startswith(">") or line.count("“") > line.count("”") or line.count("«") > line.count("»"):
        return True
    return line.count('"') % 2 == 1 or line.count("`") % 2 == 1
