"""A judge on a server with every fault: the outcome of each request, and how often it is sent."""

from __future__ import annotations

import gc
import json
import logging
import math
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from instruct.base.errors import InputError, StoppedError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Decoding, EngineOptions, Request, proxy_of
from instruct.engines.server import ATTEMPTS, CONCURRENCY, FAILURES_IN_A_ROW, PAID_ATTEMPTS, ServerEngine
from instruct.engines.server_replies import (
    NoScore,
    read_reply,
    read_score,
    request_body,
)
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use
KEY = "sk-secret-key"

# Permanent faults: the recorded reason, and how often the request is sent.
FAILS = {
    "400": ("HTTP 400", 1),
    "429": ("HTTP 429", ATTEMPTS),
    "429 inside": ("HTTP 429", ATTEMPTS),
    "498": ("HTTP 498", ATTEMPTS),
    "json_mode": ("HTTP 400", ATTEMPTS),
    "500": ("HTTP 500", ATTEMPTS),
    "too_long": ("too long: the prompt and 512 tokens to answer exceed what the server takes", 1),
    "filter": ("content filter", 1),
    "filtered": ("content filter", 1),
    "reset": ("no connection", PAID_ATTEMPTS),
    "half": ("the connection broke off", PAID_ATTEMPTS),
    "hang": ("timed out", PAID_ATTEMPTS),
    "flood": ("malformed reply: no end", PAID_ATTEMPTS),
    "gzip": ("malformed reply: no end", PAID_ATTEMPTS),
    "500 huge": ("HTTP 500", ATTEMPTS),
    "nested": ("malformed reply: no JSON", PAID_ATTEMPTS),
    "html": ("malformed reply: no JSON", PAID_ATTEMPTS),
    "empty": ("malformed reply: no choice", PAID_ATTEMPTS),
    "null": ("malformed reply: no text", PAID_ATTEMPTS),
}
BROKEN_OFF = ("error", "insufficient_system_resource", "model_context_window_exceeded", "network_error")
FAILS |= {f"finish {reason}": (f"broken off: {reason}"[:52], PAID_ATTEMPTS) for reason in BROKEN_OFF}


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
    faults |= {"<null twice>": ["null", "null"], "<many>": ["500", "reset", "429", "html", "503"]}
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
    engine = judge_at(url, timeout=1.5 if fault == "hang" else 60)
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
        ('{"detail": [{"msg": "Bad thing."}]}', "Bad thing."),
        ("<b>Bad thing.</b>", "Bad thing."),
        ('"Bad thing."', "Bad thing."),
        (f'{{"error": {{"message": "m", "code": "{KEY}", "param": "{KEY}"}}}}', "HTTP 400 ((the key), (the key))"),
    ],
)
def test_an_error_of_any_shape_is_shown_without_the_key(fake_server, caplog, body, said):
    url, _ = fake_server({"Q": f"400 says {body}"})
    (reply,) = ask(judge_at(url), ["Q"]).values()
    assert said in caplog.text
    assert KEY not in caplog.text + reply.reason


def test_a_key_in_a_redirect_or_in_parts_of_a_reply_is_not_shown(fake_server):
    url, _ = fake_server({"Q": f"307 http://{KEY}.example/v1"})
    with pytest.raises(InputError, match="redirects to") as caught:
        ask(judge_at(url), ["Q"])
    assert KEY not in str(caught.value)
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
        ({"n": 4}, 2048),
        ({"max_tokens": 9000}, 9000),
        ({"max_completion_tokens": 9000, "n": 2}, 18000),
        ({"max_tokens": None, "max_completion_tokens": 100}, 100),
        ({"max_tokens": -1}, 4096),
    ],
)
def test_the_most_that_a_reply_can_have_follows_what_is_sent(extra, most):
    assert Decoding(extra=extra).most_tokens(4096) == most


def test_a_retired_model_is_refused_with_an_alternative(fake_server):
    url, _ = fake_server({"": "404"})
    engine = judge_at(url, "alpaca_eval_gpt4")
    with pytest.raises(InputError, match=r"gpt-4.* shut down \(2026-10-23\): another `model` is asked"):
        ask(engine, [[{"role": "user", "content": "Q"}]])


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
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        "judge pandalm: http://127.0.0.1:9/v1: no connection; the request is sent again"
    ]


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
    engine = judge_at(url)
    prompts = [f"{case}{'one two three four five six ' * 10}" for case in (*faults, "as it is ")]
    requests = [Request(str(place), prompt, usd=0.1) for place, prompt in enumerate(prompts)]
    replies = {request.key: reply for portion in engine.complete(requests) for request, reply in portion}
    *odd, plain = (replies[request.key] for request in requests)
    assert all(None in (reply.prompt_tokens, reply.completion_tokens) for reply in odd)
    assert plain.prompt_tokens == len(prompts[-1]) // 4 + 1


def test_a_proxy_is_not_asked_for_a_server_on_this_machine_and_named_for_others(fake_server, monkeypatch, caplog):
    caplog.set_level("INFO")
    url, requests = fake_server()
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    assert isinstance(ask(judge_at(url), ["Q"])[0], Completion)
    assert (len(requests()), "proxy" in caplog.text) == (1, False)
    judge_at("http://judge.example/v1").check()
    assert "http://judge.example/v1 is asked through the proxy 127.0.0.1:9" in caplog.text
    assert "secret" not in caplog.text
    monkeypatch.setenv("no_proxy", "judge.example")
    assert proxy_of("http://judge.example/v1") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("SSL_CERT_FILE", "/nothing.pem"), ("all_proxy", "socks9://x")],
)
def test_an_environment_in_which_no_server_can_be_asked_is_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"http://judge\.invalid/v1"):
        ask(judge_at("http://judge.invalid/v1", timeout=1), ["Q"])


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("127.0.0.1:8000", r"must be an http\(s\) URL"),
        ("http://me:secret@127.0.0.1/v1", "leave user, password"),
        ("https://h/v1?key=secret", "and query out"),
    ],
)
def test_an_invalid_url_is_refused(address, line):
    with pytest.raises(InputError, match=f"`base_url`: .*{line}") as caught:
        judge_at(address)
    assert "secret" not in str(caught.value)


def test_requests_in_flight_are_bounded_and_taken_lazily(fake_server):
    url, requests = fake_server(delay=0.05)
    engine = judge_at(url, concurrency=5)
    taken, kept = [], []

    def lazily():
        for index in range(40):
            taken.append(index)
            yield Request(str(index), f"Q{index}")

    for portion in engine.complete(lazily()):
        assert len(taken) - len(kept) <= 5
        kept += portion
    assert len(kept) == len(taken) == 40
    assert 1 < max(each["at_once"] for each in requests()) <= 5


def test_an_engine_that_is_left_early_leaves_no_connection_and_asks_again(fake_server, caplog):
    """aiohttp logs a client session that is collected unclosed as an error."""
    url, _ = fake_server({"slow": "hang"})
    engine = judge_at(url)
    replies = engine.complete([Request("0", "quick"), Request("1", "slow")])
    next(replies)
    replies.close()
    assert isinstance(ask(engine, ["again"])[0], Completion)
    with pytest.raises(InputError):
        ask(judge_at("http://127.0.0.1:9/v1"), ["Q"])
    del engine, replies
    gc.collect()
    assert not [record for record in caplog.records if "Unclosed" in record.getMessage()]


@pytest.fixture
def _interruptible():
    """SIGINT interrupts, also in a shell's background job, which is started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_ends_the_wait(fake_server):
    url, _ = fake_server({"": "hang"})
    engine = judge_at(url)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(engine, ["Q"] * 10)
    assert time.monotonic() - started < 20


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


@pytest.mark.parametrize("form", ["text", "chat"])
def test_any_text_is_sent_unchanged(fake_server, form):
    """Except for a lone surrogate, which UTF-8 cannot encode: it is sent as U+FFFD."""
    url, requests = fake_server()
    engine = judge_at(url, "pandalm" if form == "text" else "alpaca_eval_gpt4")
    (reply,) = ask(engine, [ANSWER if form == "text" else [{"role": "user", "content": ANSWER}]]).values()
    assert isinstance(reply, Completion)
    body = requests()[0]["body"]
    shown = body["prompt"] if form == "text" else body["messages"][0]["content"]
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


def test_the_stored_choice_has_the_layout_of_alpaca_eval(server):
    url, _ = server
    engine = judge_at(url, "weighted_alpaca_eval_gpt4_turbo")
    prompts = [[{"role": "user", "content": content}] for content in ("well", "<nan>", "<blank>")]
    well, nan, blank = (reply.choice for reply in ask(engine, prompts).values())
    assert {"finish_reason", "index", "logprobs", "message", "text", "total_tokens"} == set(well)
    assert {entry["token"] for entry in well["logprobs"]["content"][0]["top_logprobs"]} >= {"m", "M"}
    assert nan["logprobs"]["content"][0]["top_logprobs"] == []
    assert (blank["message"]["content"], blank["text"]) == ("", " ")


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


def test_the_identity_names_the_endpoint_in_use(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    card = load_judge_card("pandalm")
    assert ServerEngine(engine_options(card), None).identity == {
        "endpoint": "http://127.0.0.1:9/v1",
        "model": card.model,
    }
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert ServerEngine(engine_options(card), None).identity["endpoint"] == "api.openai.com"


def test_a_server_is_asked_to_echo_the_text_that_it_scores():
    options = EngineOptions("model m", "m", Decoding(), context_length=0)
    request = Request("0", (5, 6, 7, 8), max_tokens=1, scored=2)
    path, body = request_body(options, request)
    assert (path, body["prompt"], body["echo"], body["logprobs"], body["max_tokens"]) == (
        "/completions", [5, 6, 7, 8], True, 1, 1,
    )  # fmt: skip
    for values, expected in (([None, -1.0, -0.5, -0.25, -9.0], (-0.5, -0.25)), ([-9.0], None), (None, None)):
        data = json.dumps({"choices": [{"text": "abcde", "logprobs": {"token_logprobs": values}}]}).encode()
        if expected:
            assert read_score(data, request).token_logprobs == expected
        else:
            with pytest.raises(NoScore):
                read_score(data, request)


def test_what_cannot_be_sent_as_json_is_refused_in_one_line(fake_server):
    url, requests = fake_server()
    options = EngineOptions("model m", "m", Decoding(extra={"x": {1}}), context_length=0)
    with pytest.raises(InputError, match=r"model m: cannot be sent as JSON \(TypeError\)"):
        ask(ServerEngine(options, url), ["Q"])
    assert not requests()
