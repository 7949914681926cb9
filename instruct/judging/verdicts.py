"""What a judge's replies say: a verdict, in the order in which the answers were shown."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from instruct.analysis.outcomes import PREFERENCES, Margins
from instruct.base.replies import Completion, Failure, Reply
from instruct.judging.annotators import EQUAL_RANKS, annotator_preference, is_weighted, ranks_are_equal
from instruct.judging.cards import JudgeCard, Labels, RatingScale, VerdictRule, Words
from instruct.judging.store import Judgment, Verdict

T = TypeVar("T")

NO_VERDICT = "the reply holds no verdict"
CUT_OFF = "cut off at max_tokens before its verdict"
IN_THINKING = "cut off inside its thinking"
SEVERAL = "several verdicts"
UNKNOWN = "a verdict that the card does not know"
NO_SCORE = "a score that is not a number"
OFF_SCALE = "no number on the card's scale"
# The first line of PandaLM's replies (WeOpenML/PandaLM), and the beginnings of Auto-J's decisions (GAIR-NLP/auto-j).
_PANDALM: dict[str, Verdict] = {"1": "first", "2": "second", "tie": "tie"}
_AUTOJ: dict[str, Verdict] = {"response 1": "first", "response 2": "second", "tie": "tie"}


class Unreadable(Exception):
    """The reason why a reply holds no verdict or rating; never in the reply's own words."""


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


def read_replies(card: JudgeCard, replies: Sequence[Reply]) -> Reading:
    """The verdict of a presentation's replies: one about the pair, or two that each rate one answer."""
    for reply in replies:
        if isinstance(reply, Failure):
            return Reading("failed", reason=reply.reason)
    completions = [reply for reply in replies if isinstance(reply, Completion)]
    if card.protocol == "pairwise":
        return read_verdict(card, completions[0])
    if card.protocol == "reward":
        return read_scores(card.verdict.tie_margin, *(completion.text for completion in completions))
    try:
        first, second = (read_rating(card, completion) for completion in completions)
    except Unreadable as error:
        return Reading("unparsed", reason=str(error))
    return Reading(_preferred(first - second), ratings=(first, second))


def read_scores(tie_margin: float, first: str, second: str) -> Reading:
    """The verdict of a reward model's two scores: the higher one wins, a difference below the margin is a tie.

    The preference is the probability that the first answer is better in the Bradley-Terry model that reward models are
    trained with: the sigmoid of the difference.
    """
    ours, theirs = _number(first), _number(second)
    if ours is None or theirs is None or not math.isfinite(ours) or not math.isfinite(theirs):
        return Reading("unparsed", reason=NO_SCORE)
    verdict = _preferred(ours - theirs, tie_margin)
    preference = 1.5 if verdict == "tie" else 2 - (0.5 + 0.5 * math.tanh((ours - theirs) / 2))
    return Reading(verdict, preference, (ours, theirs))


def read_verdict(card: JudgeCard, completion: Completion) -> Reading:
    """The verdict of a pairwise judge's reply, by its card's rule; an unreadable reply is `unparsed`, never a tie."""
    rule = card.verdict
    try:
        if rule.parser == "alpaca_eval_annotator":
            return _by_annotator(str(card.annotator), completion)
        if rule.labels is not None:
            return Reading(_by_labels(rule, rule.labels, completion))
        with _of_a_whole_reply(completion):
            text = _whole_text(completion)
            if rule.scores is not None:
                return _by_scores(rule, rule.scores, text, completion.finish_reason == "length")
            if rule.parser == "pandalm":
                first_line = text.strip().split("\n")[0].strip().lower()
                return Reading(_known(_PANDALM.get(first_line)))
            if rule.parser == "autoj":
                return Reading(_by_autoj(text))
            return _by_grades(rule, text) if rule.grades else Reading(_by_words(rule, text))
    except Unreadable as error:
        return Reading("unparsed", reason=str(error))


def read_rating(card: JudgeCard, completion: Completion) -> float:
    """The rating in a single-answer judge's reply.

    Raises:
        Unreadable: there is none.
    """
    rule, scale = card.verdict, card.verdict.rating
    assert scale is not None, "the card's own check"
    with _of_a_whole_reply(completion):
        text = _whole_text(completion)
        stated = _autoj_rating(text) if rule.parser == "autoj_rating" else _statements(rule, text)
        rating = _only({_number(statement.value) for statement in stated})
        if rating is None or not scale.low <= rating <= scale.high:
            raise Unreadable(OFF_SCALE)
        if completion.finish_reason == "length":
            _refuse_cut_off(text, stated[-1].end, rating, scale)
        return rating


@contextlib.contextmanager
def _of_a_whole_reply(completion: Completion) -> Iterator[None]:
    """A reply that was cut off may lack what cannot be found in it."""
    try:
        yield
    except Unreadable as error:
        cut_off = completion.finish_reason == "length" and str(error) not in (SEVERAL, IN_THINKING)
        raise Unreadable(CUT_OFF) if cut_off else error from None


def _preferred(difference: float, tie_margin: float = 0.0) -> Verdict:
    """The verdict of a difference between the answers shown first and second."""
    if difference == 0 or abs(difference) < tie_margin:
        return "tie"
    return "first" if difference > 0 else "second"


def _by_annotator(name: str, completion: Completion) -> Reading:
    """The verdict by the package's own parser; with a `preference` only if the annotator is weighted."""
    if completion.reasoning and completion.cut_in_thinking:
        raise Unreadable(IN_THINKING)
    preference = annotator_preference(name, completion)
    if preference is None:
        raise Unreadable("the annotator's parser finds no preference")
    kept = preference if is_weighted(name) else None
    if preference == 1.5:
        return Reading("tie", kept, reason=EQUAL_RANKS if ranks_are_equal(name, completion) else None)
    return Reading("first" if preference < 1.5 else "second", kept)


def _log_odds(labels: Labels, completion: Completion) -> float:
    """How far a reply prefers the label of the answer shown first, in nats; not a number if it has none for a label."""
    logprobs = completion.label_logprobs or {}
    first, second = (logprobs.get(label, math.nan) for label in (labels.first, labels.second))
    return math.nan if max(first, second) == math.inf else first - second


def margins(card: JudgeCard, judgments: Sequence[Judgment], completions: Mapping[str, Completion]) -> Margins:
    """How far a judge's verdicts go: the log-odds of one that reads labels, for the policy `averaged`; or its grades.

    Args:
        completions: by key, those that the verdicts were read from.
    """
    labels = card.verdict.labels
    if labels is None:
        return Margins(largest_grade=card.verdict.largest_grade)
    read = [j for j in judgments if j.verdict in PREFERENCES and j.key in completions]
    odds = {(j.instruction, j.position): _log_odds(labels, completions[j.key]) for j in read}
    return Margins({shown: value for shown, value in odds.items() if not math.isnan(value)}, card.verdict.tie_margin)


def _by_labels(rule: VerdictRule, labels: Labels, completion: Completion) -> Verdict:
    logprobs = completion.label_logprobs or {}
    if logprobs.get(labels.first) is None or logprobs.get(labels.second) is None:
        raise Unreadable("no log-probability of a label")
    difference = _log_odds(labels, completion)
    if math.isnan(difference):
        raise Unreadable("a label's log-probability is not a number")
    return _preferred(difference, rule.tie_margin)


def _by_autoj(text: str) -> Verdict:
    """Auto-J pairwise: what follows the last "final decision is "."""
    _, found, rest = text.strip().rpartition("final decision is ")
    decision = rest.strip().lower() if found else ""
    return _known(next((verdict for start, verdict in _AUTOJ.items() if decision.startswith(start)), None))


def _autoj_rating(text: str) -> list[Statement]:
    """Auto-J of a single answer: what is in the brackets of the last "Rating: [[…]]"."""
    _, _, rest = text.rpartition("Rating: [[")
    value, closed, after = rest.partition("]]")
    if not closed or len(rest) == len(text):
        raise Unreadable(NO_VERDICT)
    return [Statement(value.strip(), len(text) - len(after))]


def _by_words(rule: VerdictRule, text: str) -> Verdict:
    words = rule.words
    assert words is not None
    return _known(_only({_verdict_of(statement.value, words) for statement in _statements(rule, text)}), UNKNOWN)


def _by_grades(rule: VerdictRule, text: str) -> Reading:
    """The grade of a label, kept as the preference."""
    grade = rule.grades.get(_only({statement.value.strip().upper() for statement in _statements(rule, text)}))
    if grade is None:
        raise Unreadable(UNKNOWN)
    return Reading(_preferred(grade), 1.5 - grade / (2 * (rule.largest_grade or 1)))


class Statement(NamedTuple):
    """What a reply states as a verdict or a rating, and where that ends."""

    value: str
    end: int


def _statements(rule: VerdictRule, text: str) -> list[Statement]:
    """What a reply states by a card's JSON field, regular expression or words: all of it, or the last.

    Raises:
        Unreadable: nothing.
    """
    if rule.json_field is not None:
        stated = _json_statements(text, rule.json_field)
    else:
        pattern = rule.regex
        if pattern is None:
            assert rule.words is not None
            words = sorted(filter(None, (rule.words.first, rule.words.second, rule.words.tie)), key=len, reverse=True)
            pattern = rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)"
        stated = [Statement(match[1], match.end()) for match in re.finditer(pattern, text) if match[1] is not None]
    if not stated:
        raise Unreadable(NO_VERDICT)
    return stated[-1:] if rule.occurrence == "last" else stated


# Braces in a reply that are looked at.
_MOST_BRACES = 200


def _json_statements(text: str, field: str) -> list[Statement]:
    """The JSON objects in a reply that have the field, anywhere in it: in prose or in a fenced block."""
    decoder = json.JSONDecoder()
    statements = []
    start = text.find("{")
    for _ in range(_MOST_BRACES):
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
                statements.append(Statement(stated if isinstance(stated, str) else as_text, end))
        start = text.find("{", end)
    return statements


def _known(verdict: Verdict | None, reason: str = NO_VERDICT) -> Verdict:
    if verdict is None:
        raise Unreadable(reason)
    return verdict


def _only(values: set[T]) -> T:
    if len(values) > 1:
        raise Unreadable(SEVERAL)
    return values.pop()


# FastChat's parse_score (lm-sys/FastChat, eval_gpt_review.py), also Cherry LLM's: two numbers alone on the first line.
_TWO_SCORES = re.compile(r"\s*([^\s,]+)[ ,]+([^\s,]+)[^\S\n]*(?:\n|\Z)")


def _by_scores(rule: VerdictRule, scale: RatingScale, text: str, cut_off: bool) -> Reading:
    """Two scores, of the answers shown first and second; the higher one wins."""
    if rule.regex is None:
        line = _TWO_SCORES.match(text)
        found = [line] if line else []
    else:
        found = [*re.finditer(rule.regex, text)]
    if not found:
        raise Unreadable(NO_VERDICT)
    if rule.occurrence == "last":
        found = found[-1:]
    first, second = _only({(_number(scores[1] or ""), _number(scores[2] or "")) for scores in found})
    if first is None or second is None:
        raise Unreadable(NO_VERDICT)
    if not all(scale.low <= score <= scale.high for score in (first, second)):
        raise Unreadable(OFF_SCALE)
    if cut_off:
        _refuse_cut_off(text, found[-1].end(2), second, scale)
    return Reading(_preferred(first - second), ratings=(first, second))


def _verdict_of(value: str, words: Words) -> Verdict | None:
    verdicts: dict[str, Verdict] = {words.first: "first", words.second: "second"}
    if words.tie is not None:
        verdicts[words.tie] = "tie"
    value = value.strip()
    folded = {word.casefold(): verdict for word, verdict in verdicts.items()}
    if value not in verdicts and len(folded) == len(verdicts):  # unless "m" and "M" are two verdicts
        return folded.get(value.casefold())
    return verdicts.get(value)


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _refuse_cut_off(text: str, end: int, number: float, scale: RatingScale) -> None:
    """Refuse the last number of a reply that was cut off, if it may lack a digit: the 1 of a 10."""
    if end == len(text.rstrip()) and 10 * number <= scale.high:
        raise Unreadable(CUT_OFF)


def _whole_text(completion: Completion) -> str:
    """The text of a reply that was not cut off while thinking."""
    if completion.reasoning and completion.cut_in_thinking:
        raise Unreadable(IN_THINKING)
    return completion.text
