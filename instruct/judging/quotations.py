"""Where a judge's reply states a verdict, and what it quotes: a verdict in an answer must not become the judge's.

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

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from instruct.judging.cards import VerdictRule

T = TypeVar("T")

# More statements than a judge that decides makes; a reply that goes in circles is not read further.
MOST_STATEMENTS = 200

NO_VERDICT = "the reply holds no verdict"
QUOTED = "the only verdict is quoted from an answer"

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
        before = list(islice((at for at in range(start - 1, -1, -1) if reply[at].isalnum()), CONTEXT))
        after = list(islice((at for at in range(end, len(reply)) if reply[at].isalnum()), CONTEXT))

        def agrees(answer: str, spans: Iterable[tuple[int, int]]) -> bool:
            """Whether an answer has a window of the reply, of so many letters and digits left and right of it."""
            return any(
                _spaced(reply[before[left - 1] if left else start : after[right - 1] + 1 if right else end]) in answer
                for left, right in spans
                if left <= len(before) and right <= len(after)
            )

        if any(agrees(answer, ((left, CONTEXT - left) for left in range(CONTEXT + 1))) for answer in holding):
            return True
        if len(_WORD.findall(phrase)) < 2:
            return False
        return _in_marks(reply, start) or any(agrees(answer, _whole_spans(answer, phrase)) for answer in holding)

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


class Unreadable(Exception):
    """The reason why a reply holds no verdict or rating; never in the reply's own words."""


@dataclass(frozen=True)
class Statement(Generic[T]):
    """A place in the reply that states a verdict or a rating, and what it states."""

    start: int
    end: int
    value: T


def find_statements(rule: VerdictRule, text: str) -> list[Statement[str]]:
    """What a reply states by a card's JSON field, regular expression or words."""
    if rule.json_field is not None:
        return _json_statements(text, rule.json_field)
    if rule.regex is not None:
        pattern = re.compile(rule.regex)
    else:
        assert rule.words is not None
        words = sorted(filter(None, (rule.words.first, rule.words.second, rule.words.tie)), key=len, reverse=True)
        pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)")
    return [Statement(match.start(), match.end(), match[1]) for match in pattern.finditer(text) if match[1] is not None]


def _json_statements(text: str, field: str) -> list[Statement[str]]:
    """The JSON objects in a reply that have the field, anywhere in it: in prose or in a fenced block."""
    decoder = json.JSONDecoder()
    statements = []
    start = text.find("{")
    for _ in range(MOST_STATEMENTS):
        if start < 0:
            break
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if field in value:
                stated = value[field]
                as_text = "" if isinstance(stated, dict | list) else json.dumps(stated)
                statements.append(Statement(start, end, stated if isinstance(stated, str) else as_text))
        start = text.find("{", end)
    return statements


# The statement that the prompt asks for, and the verdict after it. The verdict is a lookahead, since it may contain the
# phrase again.
_AUTOJ = re.compile(r"(?:So, )?(?:the )?final decision is (?=(\s*(?i:response [12]|tie|\S*)))")
_RATING = re.compile(r"Rating: \[\[(?=([^\]]*)\]\])")


def autoj_statements(text: str) -> list[Statement[str]]:
    """What follows each "final decision is "."""
    # The authors strip the reply first, so a phrase at its very end, with nothing after it, does not count.
    return [Statement(match.start(), match.end(1), match[1].strip()) for match in _AUTOJ.finditer(text.rstrip())]


def rating_statements(text: str) -> list[Statement[str]]:
    """What is in the brackets of each "Rating: [[…]]"."""
    return [Statement(match.start(), match.end(1) + 2, match[1].strip()) for match in _RATING.finditer(text)]


def starts_a_sentence(text: str, start: int) -> bool:
    """Whether a statement starts a line or a sentence, as Auto-J's prompt asks, and does not follow a colon."""
    before = text[:start].rstrip(" \t*_#")
    last = before.rstrip()[-1:]
    return last == "" or (last not in ":," and (before.endswith("\n") or last in ".!?)"))


def own_statements(text: str, statements: list[Statement[T]], shown: Sequence[str]) -> list[Statement[T]]:
    """The statements that are the judge's own and not quoted, of at most the last `MOST_STATEMENTS`.

    Raises:
        Unreadable: there are none.
    """
    answers = Quotations(shown)
    own = [one for one in statements[-MOST_STATEMENTS:] if not answers.quotes(text, one.start, one.end)]
    if not own:
        raise Unreadable(QUOTED if statements else NO_VERDICT)
    return own
