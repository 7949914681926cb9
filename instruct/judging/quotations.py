"""Telling what a judge says from what it quotes: a verdict inside an answer must not become the judge's verdict.

A verdict phrase in a reply is a quotation if a shown answer contains the same words (exactly, except for white space)
and either

- the reply and the answer agree beyond the phrase, over `CONTEXT` letters and digits or over the whole answer, or
- the phrase is in quotation marks or backticks that opened on the same line, or on a line that starts with ">".

A single word (a label such as "A") is a quotation only with `CONTEXT` around it: too many answers contain it, and
judges quote labels too often. Everything else is the judge's own statement, so an answer that contains the phrase
cannot make the judge's verdict unreadable either.

Nor can an answer that ends in the sentence with which a judge ends its reply: a phrase at the very end is the judge's
own, unless it is in quotation marks, the judge says that an answer's words follow ("Response 2 says:"), or the reply
and the answer agree on `CONTEXT` letters and digits before the last sentence, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

# Letters and digits around a phrase; more than a judge's own sentence shares with an answer by chance.
CONTEXT = 16
# A sentence that a judge and an answer have in common, and what leads to it, is shorter.
_MOST_WORDS = 100

_WORD = re.compile(r"\w+")
_SENTENCE_START = re.compile(r"[.!?]\s+|\n\s*")
# What a judge writes before words that it quotes.
_ATTRIBUTION = re.compile(
    r"\b(?:says?|said|states?|stated|writes?|wrote|claims?|claimed|ends?|ended|reads?)\b"
    r"|\b(?:response|answer|assistant|output|model|candidate)\W*(?:\d|[a-d]\b|one\b|two\b)",
    re.IGNORECASE,
)


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
        if not holding or self.concludes(reply, start, end):
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

    def concludes(self, reply: str, start: int, end: int) -> bool:
        """Whether `reply[start:end]` is the judge's own conclusion, at the very end of its reply."""
        rest = reply[end:]
        if _letters(rest) or any(mark in rest for mark in _MARKS) or _in_marks(reply, start):
            return False
        agreeing = self._agreeing_from(reply, start, end)
        sentences = [0, *(match.end() for match in _SENTENCE_START.finditer(reply, 0, start))]
        if _letters(reply[agreeing : sentences[-1]]) >= CONTEXT:
            return False
        before = reply[max(place for place in sentences if place <= agreeing) : agreeing]
        return not _ATTRIBUTION.search(before)

    def _agreeing_from(self, reply: str, start: int, end: int) -> int:
        """Where the words begin that lead to the phrase in an answer, too; at most `_MOST_WORDS` before it."""
        for word in islice(_words_before(reply, start), _MOST_WORDS):
            words = _spaced(reply[word:end])
            if not any(words in answer for answer in self._answers):
                break
            start = word
        return start


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


def _words_before(reply: str, end: int) -> Iterator[int]:
    """The places where words begin, from the last one before `end`."""
    return (at for at in range(end - 1, -1, -1) if not reply[at].isspace() and (at == 0 or reply[at - 1].isspace()))


def _letters(text: str) -> int:
    return sum(character.isalnum() for character in text)


def _spaced(text: str) -> str:
    return " ".join(text.split())


_MARKS = ('"', "”", "»", "`")


def _in_marks(reply: str, start: int) -> bool:
    line = reply[reply.rfind("\n", 0, start) + 1 : start]
    if line.lstrip().startswith(">") or line.count("“") > line.count("”") or line.count("«") > line.count("»"):
        return True
    return line.count('"') % 2 == 1 or line.count("`") % 2 == 1
