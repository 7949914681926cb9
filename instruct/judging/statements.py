"""Where a judge's reply states a verdict or a rating: in words, by a regular expression, in JSON, or as Auto-J does."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from instruct.judging.cards import VerdictRule
from instruct.judging.quotations import Quotations

T = TypeVar("T")

# More statements than a judge that decides makes; a reply that goes in circles is not read further.
MOST_STATEMENTS = 200

NO_VERDICT = "the reply holds no verdict"
QUOTED = "the only verdict is quoted from an answer"


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
    return [Statement(found.start(), found.end(), found[1]) for found in pattern.finditer(text) if found[1] is not None]


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
                found = value[field]
                as_text = "" if isinstance(found, dict | list) else json.dumps(found)
                statements.append(Statement(start, end, found if isinstance(found, str) else as_text))
        start = text.find("{", end)
    return statements


# The statement that the prompt asks for, and the verdict after it. The verdict is a lookahead, since it may contain the
# phrase again.
_AUTOJ = re.compile(r"(?:So, )?(?:the )?final decision is (?=(\s*(?i:response [12]|tie|\S*)))")
_RATING = re.compile(r"Rating: \[\[(?=([^\]]*)\]\])")


def autoj_statements(text: str) -> list[Statement[str]]:
    """What follows each "final decision is "."""
    # The authors strip the reply first, so a phrase at its very end, with nothing after it, does not count.
    return [Statement(found.start(), found.end(1), found[1].strip()) for found in _AUTOJ.finditer(text.rstrip())]


def rating_statements(text: str) -> list[Statement[str]]:
    """What is in the brackets of each "Rating: [[…]]"."""
    return [Statement(found.start(), found.end(1) + 2, found[1].strip()) for found in _RATING.finditer(text)]


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
