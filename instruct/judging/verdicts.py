"""From a judge's reply to a verdict, in the order in which the answers were shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instruct.engines.base import Completion
from instruct.judging.cards import JudgeCard, RatingScale, VerdictRule, Words
from instruct.judging.quotations import Quotations

Verdict = Literal["first", "second", "tie", "unparsed", "failed"]

# More than a judge that decides states its verdict; a reply that goes round in circles is not followed further.
_MOST_STATEMENTS = 200

NO_VERDICT = "the reply holds no verdict"
CUT_OFF = "cut off at max_tokens before its verdict"
IN_THINKING = "cut off inside its thinking"
QUOTED = "the only verdict is quoted from an answer"
SEVERAL = "several verdicts"
UNKNOWN = "a verdict that the card does not know"
OFF_SCALE = "no number on the card's scale"


@dataclass(frozen=True)
class Reading:
    """What a reply says. `reason`: why it is unparsed, never in the reply's own words.

    A single answer's rating is `verdict="rated"` with the `rating`. `preference` is AlpacaEval's, of weighted
    annotators: 1 the answer shown first, 2 the second.
    """

    verdict: Literal["first", "second", "tie", "unparsed", "rated"]
    preference: float | None = None
    rating: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class _Statement:
    """A place in the reply that tells a verdict or a rating, and what it tells."""

    start: int
    end: int
    value: str


def read_verdict(card: JudgeCard, completion: Completion, shown: Sequence[str] = ()) -> Reading:
    """The verdict of a pairwise judge's reply by its card's rule; what cannot be read is `unparsed`, never a tie.

    Args:
        shown: the answers in the order shown. A verdict that the reply quotes from them is not read
            (`instruct.judging.quotations`). Without them, the rule of a judge's authors is applied as they publish it.
    """
    rule = card.verdict
    if rule.parser == "alpaca_eval_annotator":
        from instruct.judging.annotators import annotator_reading

        return annotator_reading(card, completion)
    if rule.labels is not None:
        return _by_labels(rule, completion.label_logprobs)
    text = _without_thinking(card, completion.text)
    if text is None:
        return Reading("unparsed", reason=IN_THINKING)
    if rule.parser == "pandalm":
        reading = _or_none(pandalm(text))
    elif rule.parser == "autoj":
        reading = _by_autoj(text, shown)
    else:
        reading = _by_words(rule, text, shown)
    return _with_cut(reading, completion)


def read_rating(card: JudgeCard, completion: Completion, shown: Sequence[str] = ()) -> Reading:
    """The rating that a single-answer judge's reply gives; `shown` holds the answer, as in `read_verdict`."""
    rule, scale = card.verdict, card.verdict.rating
    assert scale is not None, "the card's own check"
    text = _without_thinking(card, completion.text)
    if text is None:
        return Reading("unparsed", reason=IN_THINKING)
    statements = _rating_statements(text) if rule.parser == "autoj_rating" else _statements(rule, text)
    own, found = _own(text, statements, shown)
    if not own:
        return _with_cut(_nothing(bool(found)), completion)
    if rule.parser == "autoj_rating" or rule.occurrence == "last":
        own = own[-1:]
    ratings = {_number(each.value) for each in own}
    if len(ratings) > 1:
        return Reading("unparsed", reason=SEVERAL)
    rating = ratings.pop()
    if rating is None or not scale.low <= rating <= scale.high:
        return _with_cut(Reading("unparsed", reason=OFF_SCALE), completion)
    if completion.finish_reason == "length" and _could_go_on(text, own[-1], scale):
        return Reading("unparsed", reason=CUT_OFF)
    return Reading("rated", rating=rating)


def autoj(text: str) -> Verdict:
    """Auto-J pairwise (GAIR-NLP/auto-j): what follows the last "final decision is "."""
    statements = _autoj_statements(text)
    return _autoj_verdict(statements[-1].value) if statements else "unparsed"


def autoj_rating(text: str) -> float | None:
    """Auto-J single (GAIR-NLP/auto-j): the number in the last "Rating: [[x]]"; None where there is none."""
    statements = _rating_statements(text)
    return _number(statements[-1].value) if statements else None


def pandalm(text: str) -> Verdict:
    """PandaLM (WeOpenML/PandaLM): the first line."""
    verdicts: dict[str, Verdict] = {"1": "first", "2": "second", "tie": "tie"}
    return verdicts.get(text.strip().split("\n")[0].strip().lower(), "unparsed")


def _by_labels(rule: VerdictRule, label_logprobs: dict[str, float] | None) -> Reading:
    assert rule.labels is not None
    first, second = ((label_logprobs or {}).get(label) for label in (rule.labels.first, rule.labels.second))
    if first is None or second is None:
        return Reading("unparsed", reason="no log-probability of a label")
    difference = first - second
    if math.isnan(difference) or max(first, second) == math.inf:
        return Reading("unparsed", reason="a label's log-probability is no number")
    if difference == 0 or abs(difference) < rule.tie_margin:
        return Reading("tie")
    return Reading("first" if difference > 0 else "second")


def _by_autoj(text: str, shown: Sequence[str]) -> Reading:
    own, found = _own(text, _autoj_statements(text), shown)
    answers = Quotations(shown)
    # What an answer says, too, is the judge's own statement only where its prompt asks for that.
    own = [
        each for each in own if _starts_a_sentence(text, each.start) or not answers.holds(text[each.start : each.end])
    ]
    return _or_none(_autoj_verdict(own[-1].value)) if own else _nothing(bool(found))


def _by_words(rule: VerdictRule, text: str, shown: Sequence[str]) -> Reading:
    assert rule.words is not None
    own, found = _own(text, _statements(rule, text), shown)
    if not own:
        return _nothing(bool(found))
    if rule.occurrence == "last":
        own = own[-1:]
    verdicts = {_verdict_of(each.value, rule.words) for each in own}
    if len(verdicts) > 1 or len(found) > _MOST_STATEMENTS:
        return Reading("unparsed", reason=SEVERAL)
    return _or_none(verdicts.pop(), UNKNOWN)


def _statements(rule: VerdictRule, text: str) -> list[_Statement]:
    if rule.json_field is not None:
        return _json_statements(text, rule.json_field)
    if rule.regex is not None:
        pattern = re.compile(rule.regex)
    else:
        assert rule.words is not None
        words = sorted(filter(None, (rule.words.first, rule.words.second, rule.words.tie)), key=len, reverse=True)
        pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)")
    return [
        _Statement(found.start(), found.end(), found[1]) for found in pattern.finditer(text) if found[1] is not None
    ]


def _json_statements(text: str, field: str) -> list[_Statement]:
    """The JSON objects of a reply that hold the field, wherever they stand: in prose or in a fenced block too."""
    decoder = json.JSONDecoder()
    statements = []
    start = text.find("{")
    for _ in range(_MOST_STATEMENTS):
        if start < 0:
            break
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if field in value:
                told = value[field]
                text_of_it = "" if isinstance(told, dict | list) else json.dumps(told)
                statements.append(_Statement(start, end, told if isinstance(told, str) else text_of_it))
        start = text.find("{", end)
    return statements


# The statement as its authors ask for it, and the verdict after it. The verdict is only looked at, not passed over: in
# it the phrase may stand again.
_AUTOJ = re.compile(r"(?:So, )?(?:the )?final decision is (?=(\s*(?i:response [12]|tie|\S*)))")
_RATING = re.compile(r"Rating: \[\[(?=([^\]]*)\]\])")


def _autoj_statements(text: str) -> list[_Statement]:
    # Its authors strip the reply first: a phrase at its very end, with nothing after it, is not the last.
    return [_Statement(found.start(), found.end(1), found[1].strip()) for found in _AUTOJ.finditer(text.rstrip())]


def _rating_statements(text: str) -> list[_Statement]:
    return [_Statement(found.start(), found.end(1) + 2, found[1].strip()) for found in _RATING.finditer(text)]


def _autoj_verdict(decision: str) -> Verdict:
    verdicts: dict[str, Verdict] = {"response 1": "first", "response 2": "second", "tie": "tie"}
    return next((verdict for start, verdict in verdicts.items() if decision.lower().startswith(start)), "unparsed")


def _starts_a_sentence(text: str, start: int) -> bool:
    """Whether a statement begins a line or a sentence, as Auto-J's prompt asks, and no colon leads to it."""
    before = text[:start].rstrip(" \t*_#")
    last = before.rstrip()[-1:]
    return last == "" or (last not in ":," and (before.endswith("\n") or last in ".!?)"))


def _own(text: str, found: list[_Statement], shown: Sequence[str]) -> tuple[list[_Statement], list[_Statement]]:
    """The judge's own among the statements that were found, the last of them where they are too many; and all."""
    answers = Quotations(shown)
    return [each for each in found[-_MOST_STATEMENTS:] if not answers.quotes(text, each.start, each.end)], found


def _verdict_of(value: str, words: Words) -> Verdict:
    verdicts: dict[str, Verdict] = {words.first: "first", words.second: "second"}
    if words.tie is not None:
        verdicts[words.tie] = "tie"
    value = value.strip()
    folded = {word.casefold(): verdict for word, verdict in verdicts.items()}
    if value not in verdicts and len(folded) == len(verdicts):  # not where "m" and "M" are two verdicts
        return folded.get(value.casefold(), "unparsed")
    return verdicts.get(value, "unparsed")


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _could_go_on(text: str, statement: _Statement, scale: RatingScale) -> bool:
    """Whether a number at the very end of a reply that was cut may lack a digit: the 1 of a 10."""
    number = _number(statement.value)
    return statement.end == len(text.rstrip()) and number is not None and 10 * number <= scale.high


def _without_thinking(card: JudgeCard, text: str) -> str | None:
    """The reply after its thinking; None where the thinking did not end."""
    if card.thinking_end is None:
        return text
    # The last end: an answer that is quoted in the thinking may hold the mark, too.
    _, mark, after = text.rpartition(card.thinking_end)
    return after if mark else None


def _or_none(verdict: Verdict, reason: str = NO_VERDICT) -> Reading:
    if verdict in ("unparsed", "failed"):
        return Reading("unparsed", reason=reason)
    known: Any = verdict
    return Reading(known)


def _nothing(quoted: bool) -> Reading:
    return Reading("unparsed", reason=QUOTED if quoted else NO_VERDICT)


def _with_cut(reading: Reading, completion: Completion) -> Reading:
    if reading.verdict == "unparsed" and reading.reason != SEVERAL and completion.finish_reason == "length":
        return Reading("unparsed", reason=CUT_OFF)
    return reading
