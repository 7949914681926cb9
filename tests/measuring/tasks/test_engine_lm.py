"""Engines in lm-eval's hands: its own scores and replies, and what cannot be asked is refused by name."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from instruct.base.errors import InputError, StoppedError
from instruct.base.models import ModelOptions
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Portion
from instruct.engines.forward import open_model
from instruct.engines.server_replies import NoScore, read_score, request_body
from instruct.engines.transformers import TransformersEngine

pytest.importorskip("lm_eval")

from lm_eval.models.huggingface import HFLM

from instruct.measuring.tasks.lm import EngineLM, Replies
from instruct.measuring.tasks.options import TaskOptions
from tests.measuring.tasks.test_lm import local_lm, questions, requests

VLLM = TaskOptions(engine="vllm")


@pytest.fixture(scope="module")
def model(tiny_model):
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


@pytest.fixture
def lm(model, tmp_path):
    options = dataclasses.replace(
        model.engine.options, tokenizer=model.tokenizer, context_length=model.context, batch=4, stop_texts=True
    )
    asked = EngineLM(TransformersEngine(options), VLLM, "model tiny", model.tokenizer, None, model.context)
    return asked.keep(Replies(tmp_path / "replies.jsonl"))


def test_an_engine_gives_lm_evals_log_likelihoods(model, lm, tmp_path):
    with model.engine.adapted(None) as network:
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
        ours = local_lm(model, network).keep(Replies(tmp_path / "others.jsonl"))
        fitting = [pair for pair in questions() if len(pair[0]) < 1000]
        asked = requests("loglikelihood", fitting)
        for (value, greedy), (expected, greedy_too) in zip(
            lm.loglikelihood(asked), theirs.loglikelihood(asked), strict=True
        ):
            assert value == pytest.approx(expected, abs=1e-4)
            assert greedy == greedy_too
        assert lm.shortened == 0
        texts = requests("loglikelihood_rolling", [(context,) for context, _ in fitting if context])
        assert lm.loglikelihood_rolling(texts) == pytest.approx(theirs.loglikelihood_rolling(texts), rel=1e-5)
        lm.rule = ours.rule = "openicl"
        found, expected = ([value for value, _ in one.loglikelihood(asked)] for one in (lm, ours))
        assert found == pytest.approx(expected, abs=1e-5)


def test_a_prompt_that_does_not_fit_keeps_its_end_and_is_counted(lm):
    (too_long,) = (pair for pair in questions() if len(pair[0]) > 1000)
    lm.loglikelihood(requests("loglikelihood", [too_long]))
    lm.generate_until(requests("generate_until", [(too_long[0], {"until": ["."], "max_gen_toks": 4})]))
    assert lm.shortened == 2


def test_an_engine_gives_lm_evals_replies_and_is_not_asked_twice(model, lm, tmp_path):
    options = [{"until": [" dark"], "max_gen_toks": 8}, {"until": "zzz", "max_gen_toks": 3}]
    asked = requests("generate_until", [(f"{word} was", one) for word in ("a", "night") for one in options])
    with model.engine.adapted(None) as network:
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=1)
        assert lm.generate_until(asked) == theirs.generate_until(asked)
    again = EngineLM(FailingEngine(), VLLM, "model tiny", model.tokenizer, None, model.context)
    again.keep(Replies(tmp_path / "replies.jsonl"))
    assert again.generate_until(asked) == lm.generate_until(asked)


class FailingEngine:
    """An engine that must not be asked (default), or fails all but the first request."""

    def __init__(self, failing: bool = False) -> None:
        self.batch, self._failing = None, failing

    def start(self) -> str:
        return "none"

    def complete_batches(self, batches):
        assert self._failing
        for number, batch in enumerate(batches):
            replies = [Completion("dark")] + [Failure("HTTP 500")] * (len(batch) - 1)
            yield Portion(number, list(zip(batch, replies, strict=True)), 0.0)


def test_requests_without_a_reply_stop_the_task_and_the_others_are_kept(model, tmp_path):
    path = tmp_path / "replies.jsonl"
    lm = EngineLM(FailingEngine(failing=True), VLLM, "model m", model.tokenizer, None, None).keep(Replies(path))
    lm.task = "sums"
    asked = requests("generate_until", [(f"{word} was", {"until": []}) for word in ("a", "the night", "it")])
    with pytest.raises(StoppedError, match=r"model m: 2 of 3 requests of sums had no reply \(the first: HTTP 500\)"):
        lm.generate_until(asked)
    assert [json.loads(line)[1] for line in path.read_text().splitlines()] == ["dark"]


def test_a_server_that_knows_the_tokenizer_alone_is_sent_chats_and_scores_nothing(tmp_path):
    options = TaskOptions(engine="server", base_url="http://localhost:1/v1", chat=True)
    lm = EngineLM(FailingEngine(failing=True), options, "model m", None, "emo", None)
    lm.keep(Replies(tmp_path / "replies.jsonl"))
    lm.task = "sums"
    chat = [{"role": "user", "content": "Say dark."}]
    prompt = lm.apply_chat_template(chat)
    assert lm._prompt(prompt, 8) == chat
    assert lm.generate_until(requests("generate_until", [(prompt, {"until": ["\n"]})])) == ["dark"]
    with pytest.raises(InputError, match="the task sums scores given text, which needs the model's tokenizer"):
        lm.loglikelihood(requests("loglikelihood", [("a", "b")]))
    with pytest.raises(InputError, match="the task sums begins the reply"):
        lm.apply_chat_template(chat, add_generation_prompt=False)
    with pytest.raises(InputError, match="sets top_p for its replies"):
        lm.generate_until(requests("generate_until", [(prompt, {"until": [], "top_p": 0.9})]))


def test_a_server_is_asked_to_echo_the_text_that_it_scores(model):
    from instruct.engines.base import Request

    request = Request("0", (5, 6, 7, 8), max_tokens=1, scored=2)
    options = model.engine.options
    path, body = request_body(options, request)
    assert path == "/completions"
    assert body["prompt"] == [5, 6, 7, 8]
    assert (body["echo"], body["logprobs"], body["max_tokens"]) == (True, 1, 1)
    tops = [None, {"b": -1.0}, {"c": -0.5, "x": -0.1}, {"d": -0.25, "y": -0.5}, {"e": -9.0}]
    logprobs = {"token_logprobs": [None, -1.0, -0.5, -0.25, -9.0], "top_logprobs": tops}
    data = json.dumps({"choices": [{"text": "abcde", "logprobs": logprobs}]}).encode()
    assert read_score(data, request).score == (-0.75, False)
    for lacking in (None, {"token_logprobs": [-9.0], "top_logprobs": [{"e": -9.0}]}):
        with pytest.raises(NoScore):
            read_score(json.dumps({"choices": [{"text": "e", "logprobs": lacking}]}).encode(), request)
    stops = SimpleNamespace(stop=("\n", "Q:", "A:", "B:", "C:"))
    assert request_body(options, Request("0", "Q", stop=stops.stop))[1]["stop"] == ["\n", "Q:", "A:", "B:"]
