"""A judge on a server with every fault: the outcome of each request, and how often it is sent."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from scoring import LABELS

from instruct.base.errors import InputError, StoppedError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.server import ATTEMPTS, CONCURRENCY, FAILURES_IN_A_ROW, PAID_ATTEMPTS, ServerEngine
from instruct.engines.server_replies import (
    NoScore,
    read_reply,
    read_score,
    request_body,
)
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card

KEY = "sk-secret-key"

# Permanent faults: the recorded reason, and how often the request is sent.
FAILS = {
    "400": ("HTTP 400", 1),
    "429 inside": ("HTTP 429", ATTEMPTS),
    "500": ("HTTP 500", ATTEMPTS),
    "too_long": ("too long: the prompt and 512 tokens to answer exceed what the server takes", 1),
    "filter": ("content filter", 1),
    "reset": ("no connection", PAID_ATTEMPTS),
    "half": ("the connection broke off", PAID_ATTEMPTS),
    "hang": ("timed out", PAID_ATTEMPTS),
    "gzip": ("malformed reply: no end", PAID_ATTEMPTS),
    "nested": ("malformed reply: no JSON", PAID_ATTEMPTS),
    "null": ("malformed reply: no text", PAID_ATTEMPTS),
    "finish error": ("broken off: error", PAID_ATTEMPTS),
}


@pytest.fixture(autouse=True)
def _a_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("instruct.engines.transport.LARGEST_REPLY", 4 * 2**20)


@pytest.fixture(scope="module")
def server(shared_fake_server):
    """A server with every fault, each at its own prompt."""
    faults: dict[str, str | list[str]] = {f"<{fault}>": fault for fault in (*FAILS, "refusal", "blank", "truncated")}
    faults |= {f"<{fault}>": fault for fault in ("unicode", "nan", "no_logprobs", "long_thought")}
    faults |= {"<null twice>": ["null", "null"], "<many>": ["500", "reset", "429", "malformed", "503"]}
    faults |= {"<a while>": ["429 retry-after 0.6"], "<an hour>": ["429 retry-after 3600"]}
    return shared_fake_server(faults)


def judge_at(url: str, card: str = "pandalm", **arguments) -> ServerEngine:
    return ServerEngine(engine_options(load_judge_card(card)), url, **arguments)


def ask(engine: ServerEngine, prompts: list, usd: float = 0.0) -> dict:
    """The replies by position; every request has exactly one."""
    requests = [Request(str(index), prompt, usd) for index, prompt in enumerate(prompts)]
    found = [pair for portion in engine.complete(iter(requests)) for pair in portion]
    assert Counter(request.key for request, _ in found) == Counter(request.key for request in requests)
    replies = {request.key: reply for request, reply in found}
    return {place: replies[str(place)] for place in range(len(prompts))}


def sent(requests, text: str) -> list[dict]:
    return [each for each in requests() if text in str(each["body"])]


@pytest.mark.parametrize("fault", FAILS)
def test_a_permanent_fault_is_a_failure_with_its_reason(server, fault):
    url, requests = server
    reason, times = FAILS[fault]
    engine = judge_at(url, timeout=0.5 if fault == "hang" else 60)
    prompts = ["well", f"<{fault}> for ever", "also well"]
    replies = ask(engine, prompts)
    assert isinstance(replies[1], Failure)
    assert replies[1].reason == reason
    assert len(sent(requests, prompts[1])) == times
    assert replies[0].text.endswith("### Reference: none")
    assert replies[2].text.endswith("### Reference: none")


def test_a_temporary_fault_is_retried_and_nothing_is_lost(server):
    url, requests = server
    prompts = ["all is well", "<many>"]
    replies = ask(judge_at(url), prompts)
    assert all(isinstance(reply, Completion) for reply in replies.values())
    assert [len(sent(requests, prompt)) for prompt in prompts] == [1, 6]


def test_as_long_as_a_server_asks_for_is_waited_but_for_more_than_two_minutes(server):
    url, requests = server
    waited, failed = ask(judge_at(url), ["<a while>", "<an hour>"]).values()
    assert isinstance(waited, Completion)
    first, second = (each["time"] for each in sent(requests, "<a while>"))
    assert second - first >= 0.6
    assert failed == Failure("HTTP 429")
    assert len(sent(requests, "<an hour>")) == 1


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_denied_access_stops_at_once_and_names_endpoint_model_and_remedy(fake_server, status):
    """A model that is gone is denied, too."""
    url, requests = fake_server({"": status})
    engine = judge_at(url)
    with pytest.raises(InputError) as caught:
        ask(engine, ["Q"] * 200)
    line = str(caught.value)
    assert f"judge pandalm: {url} refuses model WeOpenML/PandaLM-7B-v1 (HTTP {status})" in line
    assert ("`model`" if status == "404" else "OPENAI_API_KEY") in line
    assert KEY not in line
    assert len(requests()) <= CONCURRENCY


def test_a_flagged_prompt_is_that_prompts_failure_once_others_have_been_answered(fake_server):
    url, requests = fake_server({"flagged": "403"})
    replies = ask(judge_at(url, concurrency=1), ["good", "flagged", "also good"])
    assert isinstance(replies[2], Completion)
    assert (replies[1].permanent, replies[1].reason[:15]) == (True, 'HTTP 403: "no: ')
    assert len(requests()) == 3


def test_a_prompt_that_a_server_cuts_is_warned_about_and_said_with_its_reply(fake_server, caplog):
    url, _ = fake_server({"cut": 'usage {"prompt_tokens": 2051, "completion_tokens": 5}'})
    cut, whole = ask(judge_at(url), ["cut " + "word " * 20_000, "whole"]).values()
    assert (cut.changes, whole.changes) == ("with a prompt that the server seems to cut", None)
    assert "counts 2051 tokens in a prompt of more" in caplog.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('[{"error": {"code": 400, "message": "Bad thing."}}]', "Bad thing."),
        ("<b>Bad thing.</b>", "Bad thing."),
        (f'{{"error": {{"message": "m", "code": "{KEY}", "param": "{KEY}"}}}}', "HTTP 400 ((the key), (the key))"),
    ],
)
def test_an_error_of_any_shape_is_shown_without_the_key(fake_server, caplog, body, said):
    url, _ = fake_server({"Q": f"400 says {body}"})
    (reply,) = ask(judge_at(url), ["Q"]).values()
    assert said in caplog.text
    assert KEY not in caplog.text + reply.reason


def test_a_key_in_parts_of_a_reply_is_not_shown():
    parts = [{"type": "text", "text": text} for text in (KEY[:5], KEY[5:])]
    data = json.dumps({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}).encode()
    assert read_reply(engine_options(load_judge_card("pandalm")), data).text == "(the key)"
    for keys in ([KEY[:5], KEY[5:]], ["m", "M"]):
        tokens = [{"token": text, "logprob": -0.5, "bytes": [*text.encode()], "top_logprobs": []} for text in keys]
        choice = {"message": {"content": "m"}, "logprobs": {"content": tokens}, "finish_reason": "stop"}
        kept = read_reply(
            engine_options(load_judge_card("alpaca_eval_gpt4")), json.dumps({"choices": [choice]}).encode()
        )
        assert (kept.choice["logprobs"] is None) == (keys[0] != "m")


@pytest.mark.parametrize(
    ("extra", "most"),
    [
        ({}, 512),
        ({"max_completion_tokens": 9000, "n": 2}, 18000),
        ({"max_tokens": None, "max_completion_tokens": 100}, 100),
        ({"max_tokens": -1}, 4096),
    ],
)
def test_the_most_that_a_reply_can_have_follows_what_is_sent(extra, most):
    assert Decoding(extra=extra).most_tokens(4096) == most


@pytest.mark.parametrize("fault", ["quota", "402"])
def test_an_exhausted_quota_stops_the_work(fake_server, fault):
    url, requests = fake_server({"": fault})
    engine = judge_at(url)
    with pytest.raises(StoppedError, match="quota is used up") as caught:
        ask(engine, ["Q"] * 200)
    assert caught.value.exit_code == 3
    assert len(requests()) <= CONCURRENCY


def test_failures_between_replies_or_at_the_end_do_not_stop_the_work(fake_server):
    url, _ = fake_server({"bad": "400", "late": "null"})
    engine = judge_at(url, concurrency=1)
    replies = ask(engine, (["bad"] * (FAILURES_IN_A_ROW - 1) + ["good"]) * 2)
    assert sum(isinstance(reply, Failure) for reply in replies.values()) == 2 * (FAILURES_IN_A_ROW - 1)
    replies = ask(judge_at(url), ["good", *["late"] * FAILURES_IN_A_ROW])
    assert sum(isinstance(reply, Failure) for reply in replies.values()) == FAILURES_IN_A_ROW


def test_a_dead_server_is_told_of_at_once(caplog):
    engine = judge_at("http://127.0.0.1:9/v1")
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/v1 does not answer \(no connection\); start the server"):
        ask(engine, ["Q"] * 100)
    assert "judge pandalm: http://127.0.0.1:9/v1: no connection; the request is sent again" in caplog.text


def test_a_redirect_is_refused_and_sent_nothing(fake_server):
    other, there = fake_server()
    url, requests = fake_server({"Q": f"307 {other}"})
    line = rf"{url} redirects to 127.0.0.1/v1/\S+; nothing was sent there: give the address that is meant as `base_url`"
    with pytest.raises(InputError, match=line):
        ask(judge_at(url), ["Q"])
    assert (len(requests()), len(there())) == (1, 0)


USAGES = [
    *[{"prompt_tokens": count, "completion_tokens": 5} for count in (0, -1, 2**63, 2.5, "9", None)],
    *[{"prompt_tokens": 60, "completion_tokens": count} for count in (513, 0, None)],
    {},
]


def test_a_usage_that_a_request_cannot_have_is_not_believed_where_it_costs_money(fake_server):
    faults = {f"case {number} ": f"usage {json.dumps(usage)}" for number, usage in enumerate(USAGES)}
    url, _ = fake_server(faults)
    prompts = [f"{case}{'one two three four five six ' * 10}" for case in (*faults, "as it is ")]
    *odd, plain = ask(judge_at(url), prompts, usd=0.1).values()
    assert all(None in (reply.prompt_tokens, reply.completion_tokens) for reply in odd)
    assert plain.prompt_tokens == len(prompts[-1]) // 4 + 1


@pytest.mark.parametrize("address", ["http://me:secret@127.0.0.1/v1", "https://h/v1?key=secret"])
def test_a_url_with_a_secret_is_refused_without_showing_it(address):
    with pytest.raises(InputError, match=r"`base_url`: .*leave user, password and query out") as caught:
        judge_at(address)
    assert "secret" not in str(caught.value)


def test_a_text_judge_reads_unusual_replies(server):
    url, _ = server
    engine = judge_at(url)
    blank, cut, odd, thought = ask(engine, ["<blank>", "<truncated>", "<unicode>", "<long_thought>"]).values()
    assert (blank.text, blank.finish_reason) == ("", "stop")
    assert cut.finish_reason == "length"
    assert odd.text.endswith(" \ufffd \x00 \u202eright to left \U0001f600")
    assert (thought.text, thought.finish_reason) == ("", "length")  # asked once: it would think just as long again
    assert blank.model == load_judge_card("pandalm").model
    assert blank.prompt_tokens == 2


def test_a_refusal_is_not_retried(server):
    url, requests = server
    engine = judge_at(url, "alpaca_eval_gpt4")
    (reply,) = ask(engine, [[{"role": "user", "content": "<refusal>"}]]).values()
    assert reply == Failure("the judge refuses to answer", permanent=True)
    assert len(sent(requests, "<refusal>")) == 1


ANSWER = "a \ud83d lone, a \ud83d\ude00 pair \u202e\u05d0\u05d1 \x00 " + '"}]\n{"' + "a" * 1_000_000


def test_any_text_is_sent_unchanged(fake_server):
    """Except for a lone surrogate, which UTF-8 cannot encode: it is sent as U+FFFD."""
    url, requests = fake_server()
    (reply,) = ask(judge_at(url, "alpaca_eval_gpt4"), [[{"role": "user", "content": ANSWER}]]).values()
    assert isinstance(reply, Completion)
    shown = requests()[0]["body"]["messages"][0]["content"]
    assert shown == ANSWER.replace("\ud83d lone", "\ufffd lone").replace("\ud83d\ude00", "\U0001f600")


def test_missing_log_probabilities_are_refused_or_unparsed(server, fake_server):
    """NaN counts as missing; a server that never sent log-probabilities is refused at once."""
    url, _ = server
    engine = judge_at(url, LABELS)
    (number,) = ask(engine, ["well"]).values()
    assert set(number.label_logprobs) == {"1", "2"}
    assert all(math.isfinite(value) for value in number.label_logprobs.values())
    nan, none = ask(engine, ["<nan>", "<no_logprobs>"]).values()
    assert nan.label_logprobs == none.label_logprobs == {}

    without, requests = fake_server({"": "no_logprobs"})
    with pytest.raises(InputError, match=rf"judge smollm2_labels: {without} gives no log-probabilities"):
        ask(judge_at(without, LABELS), ["Q"] * 100)
    assert len(requests()) <= CONCURRENCY


def test_the_cost_of_unusable_replies_is_recorded(server):
    url, _ = server
    engine = judge_at(url)
    prompts = ["<null twice>", "<null> in vain", "<400>", "<reset> in vain"]
    once, failed, unsent, broken = ask(engine, prompts, usd=0.25).values()
    assert once.prompt_tokens == 3 * 4  # of three replies: the store records what was charged
    assert failed.usd == broken.usd == pytest.approx(PAID_ATTEMPTS * 0.25)
    assert unsent.usd == 0.0


def test_a_key_that_is_invalid_in_a_header_is_refused(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX: y")
    with pytest.raises(InputError, match="OPENAI_API_KEY: contains a line break") as caught:
        judge_at("http://127.0.0.1:9/v1").check()
    assert KEY not in str(caught.value)


def test_a_server_is_asked_to_echo_the_text_that_it_scores():
    options = EngineOptions("model m", "m", Decoding(), context_length=0)
    request = Request("0", (5, 6, 7, 8), max_tokens=1, scored=2)
    path, body = request_body(options, request)
    assert (path, body["prompt"], body["echo"], body["logprobs"], body["max_tokens"]) == (
        "/completions", [5, 6, 7, 8], True, 1, 1,
    )  # fmt: skip
    reply = {"choices": [{"text": "abcde", "logprobs": {"token_logprobs": [None, -1.0, -0.5, -0.25, -9.0]}}]}
    assert read_score(json.dumps(reply).encode(), request).token_logprobs == (-0.5, -0.25)
    reply["choices"][0]["logprobs"] = None
    with pytest.raises(NoScore):
        read_score(json.dumps(reply).encode(), request)
