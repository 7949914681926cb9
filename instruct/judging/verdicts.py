"""What a judge's replies say: a verdict, in the order in which the answers were shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from instruct.analysis.outcomes import PREFERENCES, Margins
from instruct.base.replies import Completion, Failure, Reply
from instruct.judging.annotators import EQUAL_RANKS, annotator_preference, is_weighted, ranks_are_equal
from instruct.judging.cards import JudgeCard, RatingScale, VerdictRule, Words
from instruct.judging.quotations import Quotations
from instruct.judging.store import Judgment

Verdict = Literal["first", "second", "tie", "unparsed", "failed"]

# More statements than a judge that decides makes; a reply that goes in circles is not read further.
_MOST_STATEMENTS = 200

NO_VERDICT = "the reply holds no verdict"
CUT_OFF = "cut off at max_tokens before its verdict"
IN_THINKING = "cut off inside its thinking"
QUOTED = "the only verdict is quoted from an answer"
SEVERAL = "several verdicts"
UNKNOWN = "a verdict that the card does not know"
NO_SCORE = "a score that is not a number"
OFF_SCALE = "no number on the card's scale"


@dataclass(frozen=True)
class Reading:
    """A verdict, and how it was reached.

    Attributes:
        preference: a weighted AlpacaEval annotator's or a reward model's: 1 for the answer shown first, 2 for the
            second.
        ratings: of the answers shown first and second, if the judge rates or scores them.
        reason: why the verdict is `unparsed` or `failed`; never in the reply's own words.
    """

    verdict: Verdict
    preference: float | None = None
    ratings: tuple[float, float] | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Rating:
    """The rating of a single answer, or the reason why there is none."""

    rating: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class _Statement:
    """A place in the reply that states a verdict or a rating, and the value it states."""

    start: int
    end: int
    value: str


def read_replies(card: JudgeCard, replies: Sequence[Reply], shown: tuple[str, str]) -> Reading:
    """The verdict of a presentation's replies: one about the pair, or two that each rate one answer.

    Args:
        shown: the answers in the order shown.
    """
    for reply in replies:
        if isinstance(reply, Failure):
            return Reading("failed", reason=reply.reason)
    completions = [reply for reply in replies if isinstance(reply, Completion)]
    if card.protocol == "pairwise":
        return read_verdict(card, completions[0], shown)
    if card.protocol == "reward":
        return read_scores(card.verdict.tie_margin, *(completion.text for completion in completions))
    first, second = (read_rating(card, done, (answer,)) for done, answer in zip(completions, shown, strict=True))
    if first.rating is None or second.rating is None:
        return Reading("unparsed", reason=first.reason if first.rating is None else second.reason)
    verdict: Verdict = "tie" if first.rating == second.rating else "first" if first.rating > second.rating else "second"
    return Reading(verdict, ratings=(first.rating, second.rating))


def read_scores(tie_margin: float, first: str, second: str) -> Reading:
    """The verdict of a reward model's two scores: the higher one wins, a difference below the margin is a tie.

    The preference is the probability that the first answer is better in the Bradley-Terry model that reward models are
    trained with: the sigmoid of the difference.
    """
    scores = _number(first), _number(second)
    if scores[0] is None or scores[1] is None or not all(map(math.isfinite, (scores[0], scores[1]))):
        return Reading("unparsed", reason=NO_SCORE)
    difference = scores[0] - scores[1]
    ratings = (scores[0], scores[1])
    if difference == 0 or abs(difference) < tie_margin:
        return Reading("tie", 1.5, ratings)
    better = 0.5 + 0.5 * math.tanh(difference / 2)
    return Reading("first" if difference > 0 else "second", 2 - better, ratings)


def read_verdict(card: JudgeCard, completion: Completion, shown: Sequence[str] = ()) -> Reading:
    """The verdict of a pairwise judge's reply, by its card's rule; an unreadable reply is `unparsed`, never a tie.

    Args:
        shown: the answers in the order shown. A verdict that the reply quotes from them is not read
            (`instruct.judging.quotations`). Without them, the rule of a judge's authors is applied as published.
    """
    rule = card.verdict
    if rule.parser == "alpaca_eval_annotator":
        return _by_annotator(str(card.annotator), completion)
    if rule.labels is not None:
        return _by_labels(rule, completion)
    text = _without_thinking(card, completion.text)
    if text is None:
        return Reading("unparsed", reason=IN_THINKING)
    if rule.parser == "pandalm":
        reading = _reading(pandalm(text))
    elif rule.parser == "autoj":
        reading = _by_autoj(text, shown)
    elif rule.scores is not None:
        reading = _by_scores(rule, rule.scores, text, shown, completion.finish_reason == "length")
    else:
        reading = _by_words(rule, text, shown)
    return _with_cut(reading, completion)


def read_rating(card: JudgeCard, completion: Completion, shown: Sequence[str] = ()) -> Rating:
    """The rating in a single-answer judge's reply; `shown` holds the answer, as in `read_verdict`."""
    rule, scale = card.verdict, card.verdict.rating
    assert scale is not None, "the card's own check"
    text = _without_thinking(card, completion.text)
    if text is None:
        return Rating(reason=IN_THINKING)
    cut_off = completion.finish_reason == "length"
    statements = _rating_statements(text) if rule.parser == "autoj_rating" else _statements(rule, text)
    own, found = _own(text, statements, shown)
    if not own:
        return Rating(reason=CUT_OFF if cut_off else QUOTED if found else NO_VERDICT)
    if rule.parser == "autoj_rating" or rule.occurrence == "last":
        own = own[-1:]
    ratings = {_number(each.value) for each in own}
    if len(ratings) > 1:
        return Rating(reason=SEVERAL)
    rating = ratings.pop()
    if rating is None or not scale.low <= rating <= scale.high:
        return Rating(reason=CUT_OFF if cut_off else OFF_SCALE)
    if cut_off and _could_continue(text, own[-1], scale):
        return Rating(reason=CUT_OFF)
    return Rating(rating)


def autoj(text: str) -> Verdict:
    """Auto-J pairwise (GAIR-NLP/auto-j): what follows the last "final decision is "."""
    statements = _autoj_statements(text)
    return _autoj_verdict(statements[-1].value) if statements else "unparsed"


def autoj_rating(text: str) -> float | None:
    """Auto-J single (GAIR-NLP/auto-j): the number in the last "Rating: [[x]]"; None if there is none."""
    statements = _rating_statements(text)
    return _number(statements[-1].value) if statements else None


def pandalm(text: str) -> Verdict:
    """PandaLM (WeOpenML/PandaLM): the first line."""
    verdicts: dict[str, Verdict] = {"1": "first", "2": "second", "tie": "tie"}
    return verdicts.get(text.strip().split("\n")[0].strip().lower(), "unparsed")


def _by_annotator(name: str, completion: Completion) -> Reading:
    """The verdict by the package's own parser; with a `preference` only if the annotator is weighted."""
    preference = annotator_preference(name, completion)
    if preference is None:
        return Reading("unparsed", reason="the annotator's parser finds no preference")
    kept = preference if is_weighted(name) else None
    if preference == 1.5:
        return Reading("tie", kept, reason=EQUAL_RANKS if ranks_are_equal(name, completion) else None)
    return Reading("first" if preference < 1.5 else "second", kept)


def log_odds(rule: VerdictRule, completion: Completion) -> float | None:
    """How far a reply prefers the label of the answer shown first, in nats.

    None if the rule does not read labels; not a number if the reply has none for a label.
    """
    if rule.labels is None:
        return None
    found = completion.label_logprobs or {}
    first, second = (found.get(label, math.nan) for label in (rule.labels.first, rule.labels.second))
    return math.nan if max(first, second) == math.inf else first - second


def margins(card: JudgeCard, judgments: Sequence[Judgment], completions: Mapping[str, Completion]) -> Margins:
    """The log-odds of every readable verdict of a judge that reads labels, for the policy `averaged`.

    Args:
        completions: by key, those that the verdicts were read from.
    """
    if card.verdict.labels is None:
        return Margins()
    read = [j for j in judgments if j.verdict in PREFERENCES and j.key in completions]
    odds = {(j.instruction, j.position): log_odds(card.verdict, completions[j.key]) for j in read}
    known = {key: value for key, value in odds.items() if value is not None and not math.isnan(value)}
    return Margins(known, card.verdict.tie_margin)


def _by_labels(rule: VerdictRule, completion: Completion) -> Reading:
    assert rule.labels is not None
    found = completion.label_logprobs or {}
    if found.get(rule.labels.first) is None or found.get(rule.labels.second) is None:
        return Reading("unparsed", reason="no log-probability of a label")
    difference = log_odds(rule, completion)
    if difference is None or math.isnan(difference):
        return Reading("unparsed", reason="a label's log-probability is not a number")
    if difference == 0 or abs(difference) < rule.tie_margin:
        return Reading("tie")
    return Reading("first" if difference > 0 else "second")


def _by_autoj(text: str, shown: Sequence[str]) -> Reading:
    own, found = _own(text, _autoj_statements(text), shown)
    answers = Quotations(shown)
    # A phrase that an answer contains too is the judge's own only in the place where its prompt asks for it.
    own = [
        each for each in own if _starts_a_sentence(text, each.start) or not answers.holds(text[each.start : each.end])
    ]
    return _reading(_autoj_verdict(own[-1].value)) if own else _nothing(bool(found))


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
    return _reading(verdicts.pop(), UNKNOWN)


# FastChat's parse_score (lm-sys/FastChat, eval_gpt_review.py), also Cherry LLM's: two numbers alone on the first line.
_TWO_SCORES = re.compile(r"\s*([^\s,]+)[ ,]+([^\s,]+)[^\S\n]*(?:\n|\Z)")


def _by_scores(rule: VerdictRule, scale: RatingScale, text: str, shown: Sequence[str], cut_off: bool) -> Reading:
    """Two scores, of the answers shown first and second; the higher one wins."""
    if rule.regex is None:
        line = _TWO_SCORES.match(text)
        found = own = [line] if line else []
    else:
        found = list(re.finditer(rule.regex, text))
        answers = Quotations(shown)
        own = [each for each in found[-_MOST_STATEMENTS:] if not answers.quotes(text, each.start(), each.end())]
    if not own:
        return _nothing(bool(found))
    if rule.occurrence == "last":
        own = own[-1:]
    pairs = {(_number(each[1] or ""), _number(each[2] or "")) for each in own}
    if len(pairs) > 1:
        return Reading("unparsed", reason=SEVERAL)
    first, second = pairs.pop()
    if first is None or second is None:
        return _nothing(False)
    if not all(scale.low <= score <= scale.high for score in (first, second)):
        return Reading("unparsed", reason=OFF_SCALE)
    if cut_off and own[-1].end(2) == len(text.rstrip()) and 10 * second <= scale.high:
        return Reading("unparsed", reason=CUT_OFF)  # the 1 may be that of a 10
    verdict: Verdict = "tie" if first == second else "first" if first > second else "second"
    return Reading(verdict, ratings=(first, second))


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
    """The JSON objects in a reply that have the field, anywhere in it: in prose or in a fenced block."""
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
                found = value[field]
                as_text = "" if isinstance(found, dict | list) else json.dumps(found)
                statements.append(_Statement(start, end, found if isinstance(found, str) else as_text))
        start = text.find("{", end)
    return statements


# The statement that the prompt asks for, and the verdict after it. The verdict is a lookahead, since it may contain the
# phrase again.
_AUTOJ = re.compile(r"(?:So, )?(?:the )?final decision is (?=(\s*(?i:response [12]|tie|\S*)))")
_RATING = re.compile(r"Rating: \[\[(?=([^\]]*)\]\])")


def _autoj_statements(text: str) -> list[_Statement]:
    # The authors strip the reply first, so a phrase at its very end, with nothing after it, does not count.
    return [_Statement(found.start(), found.end(1), found[1].strip()) for found in _AUTOJ.finditer(text.rstrip())]


def _rating_statements(text: str) -> list[_Statement]:
    return [_Statement(found.start(), found.end(1) + 2, found[1].strip()) for found in _RATING.finditer(text)]


def _autoj_verdict(decision: str) -> Verdict:
    verdicts: dict[str, Verdict] = {"response 1": "first", "response 2": "second", "tie": "tie"}
    return next((verdict for start, verdict in verdicts.items() if decision.lower().startswith(start)), "unparsed")


def _starts_a_sentence(text: str, start: int) -> bool:
    """Whether a statement starts a line or a sentence, as Auto-J's prompt asks, and does not follow a colon."""
    before = text[:start].rstrip(" \t*_#")
    last = before.rstrip()[-1:]
    return last == "" or (last not in ":," and (before.endswith("\n") or last in ".!?)"))


def _own(text: str, found: list[_Statement], shown: Sequence[str]) -> tuple[list[_Statement], list[_Statement]]:
    """The statements that are the judge's own, of at most the last `_MOST_STATEMENTS`; and all statements."""
    answers = Quotations(shown)
    return [each for each in found[-_MOST_STATEMENTS:] if not answers.quotes(text, each.start, each.end)], found


def _verdict_of(value: str, words: Words) -> Verdict:
    verdicts: dict[str, Verdict] = {words.first: "first", words.second: "second"}
    if words.tie is not None:
        verdicts[words.tie] = "tie"
    value = value.strip()
    folded = {word.casefold(): verdict for word, verdict in verdicts.items()}
    if value not in verdicts and len(folded) == len(verdicts):  # unless "m" and "M" are two verdicts
        return folded.get(value.casefold(), "unparsed")
    return verdicts.get(value, "unparsed")


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _could_continue(text: str, statement: _Statement, scale: RatingScale) -> bool:
    """Whether the number at the end of a reply that was cut off may lack a digit: the 1 of a 10."""
    number = _number(statement.value)
    return statement.end == len(text.rstrip()) and number is not None and 10 * number <= scale.high


def _without_thinking(card: JudgeCard, text: str) -> str | None:
    """The reply after its thinking; None if the thinking did not end."""
    if card.thinking_end is None:
        return text
    # The last end, since an answer that is quoted in the thinking may contain the mark too.
    _, mark, after = text.rpartition(card.thinking_end)
    return after if mark else None


def _reading(verdict: Verdict, reason: str = NO_VERDICT) -> Reading:
    return Reading(verdict, reason=reason if verdict == "unparsed" else None)


def _nothing(quoted: bool) -> Reading:
    return Reading("unparsed", reason=QUOTED if quoted else NO_VERDICT)


def _with_cut(reading: Reading, completion: Completion) -> Reading:
    if reading.verdict == "unparsed" and reading.reason != SEVERAL and completion.finish_reason == "length":
        return Reading("unparsed", reason=CUT_OFF)
    return reading
