"""Reading verdicts from replies, and the published verdicts."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruct.base.replies import Completion
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.verdicts import (
    CUT_OFF,
    IN_THINKING,
    NO_VERDICT,
    OFF_SCALE,
    SEVERAL,
    UNKNOWN,
    Reading,
    Unreadable,
    read_rating,
    read_verdict,
)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1. …\nSo, the final decision is Response 1.", "first"),
        ("So, the final decision is Tie.", "tie"),
        ("the final decision is Response 1. No: the final decision is Response 2", "second"),
        ("So, the final decision is both", "unparsed"),
    ],
)
def test_autoj_verdicts_are_read(text, verdict):
    assert read(AUTOJ, text).verdict == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1\n\n### Reason: …", "first"), ("\n2\n", "second"), ("Tie\n### Reason", "tie"),
        ("Response 1", "unparsed"), ("12", "unparsed"),
    ],
)  # fmt: skip
def test_pandalm_verdicts_are_read(text, verdict):
    assert read({"parser": "pandalm"}, text).verdict == verdict


def card(**changes: object) -> JudgeCard:
    content: dict[str, object] = {
        "name": "mine", "description": "of the tests", "model": "m", "protocol": "pairwise", "prompt": "prompt.txt",
        "prompt_form": "text", "decoding": {}, "verdict": {"parser": "autoj"}, "order_policy": "both",
        "leading_policy": "strict", "context_length": 100, "licence": "none",
    }  # fmt: skip
    return JudgeCard.model_validate(content | changes)


def single(**verdict: object) -> JudgeCard:
    rule = {"rating": {"low": 1, "high": 10}} | verdict
    return card(protocol="single", verdict=rule, order_policy="one", leading_policy="single")


def rating_of(
    rule: dict[str, object], text: str, finish_reason: str | None = "stop"
) -> tuple[float | None, str | None]:
    """The rating, or the reason why there is none."""
    try:
        return read_rating(single(**rule), Completion(text, finish_reason=finish_reason)), None
    except Unreadable as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Feedback: A is right, B is not. So the better one is [RESULT] A", "first"),
        ("Both cite the rule. [RESULT: B]", "second"),
        ("The answer says [RESULT] A, which is odd.", "unparsed"),
    ],
)
def test_prometheus_reads_its_authors_ends(text, verdict):
    assert read_verdict(load_judge_card("prometheus"), Completion(text, finish_reason="stop")).verdict == verdict


@pytest.mark.parametrize(
    ("name", "text", "verdict", "reason"),
    [
        ("arena_hard", "[[B>A]] or [[A>B]]", "unparsed", SEVERAL),
        ("arena_hard_v2", "[[B>A]] or [[a=b]]", "tie", None),
        ("arena_hard", "[[A>>>B]]", "unparsed", UNKNOWN),
    ],
)
def test_labels_of_arena_hard_are_read_as_in_the_official_scripts(name, text, verdict, reason):
    reading = read_verdict(load_judge_card(name), Completion(text))
    assert (reading.verdict, reading.reason) == (verdict, reason)


def read(verdict: dict[str, object], text: str, finish_reason: str = "stop") -> Reading:
    return read_verdict(card(verdict=verdict), Completion(text, finish_reason=finish_reason))


AUTOJ = {"parser": "autoj"}
AB = {"first": "A", "second": "B", "tie": "C"}
WORDS = {"words": {"first": "Response 1", "second": "Response 2", "tie": "Tie"}}
REGEX = {"regex": r"\[\[(\w+)\]\]", "words": AB}
JSON = {"json_field": "winner", "words": AB}


@pytest.mark.parametrize(
    ("logprobs", "verdict"),
    [
        ({"1": -3.0, "2": -0.1}, "second"), ({"1": -1.0, "2": -1.05}, "tie"), ({"1": -0.1, "2": -math.inf}, "first"),
        ({"1": -0.1}, "unparsed"), (None, "unparsed"), ({"1": math.nan, "2": -0.1}, "unparsed"),
    ],
)  # fmt: skip
def test_labels_are_read(logprobs, verdict):
    rule = {"labels": {"first": "1", "second": "2"}, "tie_margin": 0.1}
    reading = read_verdict(card(verdict=rule), Completion("whatever was said", logprobs))
    assert reading.verdict == verdict
    assert (reading.reason is not None) == (verdict == "unparsed")


SCORES = {"scores": {"low": 1, "high": 10}}
LINES = {**SCORES, "regex": r"Assistant 1: ([\d.]+)\s+Score of the Assistant 2: ([\d.]+)"}


@pytest.mark.parametrize(
    ("rule", "text", "ratings", "reason"),
    [
        (SCORES, "9 8.5\nThe first answer is better.", (9, 8.5), None),
        (SCORES, "8, 8", (8, 8), None),
        (SCORES, "9 8 7\nthree", None, NO_VERDICT),
        (SCORES, "9 nan\n", None, OFF_SCALE),
        (LINES, "Evaluation evidence: …\nScore of the Assistant 1: 7\nScore of the Assistant 2: 8.5", (7, 8.5), None),
    ],
)  # fmt: skip
def test_two_scores_are_read(rule, text, ratings, reason):
    reading = read(rule, text)
    assert (reading.ratings, reading.reason) == (ratings, reason)
    first, second = ratings or (0, 0)
    decided = "first" if first > second else "second" if first < second else "tie"
    assert reading.verdict == (decided if ratings else "unparsed")


def test_two_scores_that_were_cut_off_are_not_read():
    assert read(SCORES, "9 1", finish_reason="length").reason == CUT_OFF  # or a 10
    assert read(SCORES, "9 8", finish_reason="length").ratings == (9, 8)
    assert read(SCORES, "9 1\nBecause", finish_reason="length").ratings == (9, 1)
    stated = "Score of the Assistant 1: 10\nScore of the Assistant 2: 1"
    twice = f"{stated}\nNo:\nScore of the Assistant 1: 2\nScore of the Assistant 2: 9"
    assert read(LINES, twice).reason == SEVERAL
    assert read(LINES | {"occurrence": "last"}, twice).ratings == (2, 9)


@pytest.mark.parametrize(
    ("rule", "text", "verdict", "reason"),
    [
        (WORDS, "**Tie**", "tie", None),
        (WORDS, "Response 12", "unparsed", NO_VERDICT),
        (WORDS, "Response 1 is fluent, Response 2 is right.", "unparsed", SEVERAL),
        (WORDS | {"occurrence": "last"}, "Response 1 is fluent, but I take Response 2.", "second", None),
        (REGEX, "My verdict: [[b]].", "second", None),
        (REGEX, "[[D]]", "unparsed", UNKNOWN),
        (JSON, 'Here:\n```json\n{"why": "{x}", "winner": "B"}\n```', "second", None),
        (JSON, '{"why": "short"} {"winner": " c "}', "tie", None),
        (JSON, '{"winner": "A"', "unparsed", NO_VERDICT),
        ({"json_field": "first", "words": {"first": "true", "second": "false"}}, '{"first": false}', "second", None),
    ],
)
def test_verdicts_are_read_by_words_regular_expression_or_json_field(rule, text, verdict, reason):
    assert read(rule, text) == Reading(verdict, reason=reason)


@pytest.mark.parametrize("rule", [AUTOJ, WORDS, JSON])
def test_a_reply_cut_off_before_its_verdict_is_unparsed(rule):
    assert read(rule, "Both answers", finish_reason="length") == Reading("unparsed", reason=CUT_OFF)
    assert read(rule, "Both answers", finish_reason="stop") == Reading("unparsed", reason=NO_VERDICT)


def test_a_verdict_is_looked_for_after_thinking_that_the_engine_keeps_apart():
    judge = card(verdict=REGEX)
    assert read_verdict(judge, Completion("[[B]]", reasoning="[[A]]? No.")).verdict == "second"
    cut = Completion("", finish_reason="length", reasoning="[[A]] seems")
    assert read_verdict(judge, cut) == Reading("unparsed", reason=IN_THINKING)
    with pytest.raises(Unreadable, match=IN_THINKING):
        read_rating(single(regex=r"Score: (\d+)"), cut)


@pytest.mark.parametrize(
    ("rule", "text", "finish", "rating", "reason"),
    [
        ({"regex": r"Score: (\S+)"}, "Score: 7.5", "stop", 7.5, None),
        ({"regex": r"Score: (\S+)"}, "Score: 11", "stop", None, OFF_SCALE),
        ({"regex": r"Score: (\S+)"}, "Score: 3 Score: 4", "stop", None, SEVERAL),
        ({"regex": r"Score: (\S+)"}, "Score: 1", "length", None, CUT_OFF),  # of a 10
        ({"regex": r"Score: (\S+)"}, "Score: 9", "length", 9.0, None),
        ({"json_field": "score"}, '{"score": "6"}', "stop", 6.0, None),
        ({"parser": "autoj_rating"}, "Rating: [[3]] … Rating: [[ 7 ]]", "stop", 7.0, None),
    ],
)
def test_ratings_are_read(rule, text, finish, rating, reason):
    assert rating_of(rule, text, finish_reason=finish) == (rating, reason)


@given(st.text(), st.sampled_from(["stop", "length", None]))
def test_no_reply_raises(text, finish):
    done = Completion(text, finish_reason=finish)
    for rule in (AUTOJ, {"parser": "pandalm"}, WORDS, REGEX, JSON):
        assert read_verdict(card(verdict=rule), done).verdict in ("first", "second", "tie", "unparsed")
    for rule in ({"parser": "autoj_rating"}, {"regex": "(.)"}, {"json_field": "a"}):
        rating, reason = rating_of(rule, text, finish_reason=finish)
        assert (rating is None) == (reason is not None)


@pytest.mark.parametrize("text", ["{" * 100_000, '{"a":' * 20_000, "[[A]]" * 50_000])
def test_a_very_long_reply_is_read_quickly(text):
    started = time.monotonic()
    for rule in (JSON, {"words": AB}, REGEX):
        assert read(rule, text).verdict in ("first", "unparsed")
    assert time.monotonic() - started < 30
