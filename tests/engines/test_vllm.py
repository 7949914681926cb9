"""A judge in real vLLM with the real SmolLM2-135M: label log-probabilities in batches, written verdicts in a stream."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.engines import vllm
from instruct.engines.base import Request
from instruct.engines.vllm import VLLMEngine
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import PromptTemplate

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use
SCHEMA = {
    "type": "object",
    "properties": {"better": {"enum": ["first", "second", "tie"]}},
    "required": ["better"],
    "additionalProperties": False,
}
CLEAR = [
    ("Name the capital of Italy.", "The capital of Italy is Rome.", "I like trains."),
    ("What is 3 + 4?", "3 + 4 is 7.", "It is 75."),
    ("Write a sentence about snow.", "Snow fell softly on the roofs all night.", "Snow snow snow snow snow."),
    ("Say nothing but yes.", "yes", "word " * 9000),  # does not fit
]


@pytest.fixture
def writing_card():
    """A judge that writes replies that follow a JSON schema."""
    card = load_judge_card(LABELS)
    verdict = {"labels": None, "json_field": "better", "tie_margin": 0.0}
    update = {"decoding": card.decoding.model_copy(update={"max_tokens": 24}), "response_schema": SCHEMA}
    return card.model_copy(update={**update, "verdict": card.verdict.model_copy(update=verdict), "context_length": 512})


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_label_logprobs_equal_those_of_the_model_and_the_engines_agree(smollm2, shared_vllm):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    card = load_judge_card(LABELS)
    template = PromptTemplate(card)
    pairs = [(text, *answers) for text, *both in CLEAR for answers in (both, both[::-1])]
    requests = [
        Request(f"key {index}", template.render_all({"instruction": text}, first, second)[0])
        for index, (text, first, second) in enumerate(pairs)
    ]
    with Judge(JudgeOptions(card=card.name, engine="vllm"), card).open() as engine:
        assert engine.batch == 64
        (portion,) = engine.complete(iter(requests[-2:]))
        assert engine._client is None  # vLLM is started only for prompts that fit
        assert [reply.reason.partition(":")[0] for _, reply in portion] == ["too long"] * 2
        (portion,) = engine.complete(iter(requests))
        assert engine._client.dtype == f"torch.{engine.dtype}"
    assert [request for request, _ in portion] == requests
    replies = [reply for _, reply in portion]
    assert all(isinstance(reply, Failure) and reply.reason.startswith("too long: ") for reply in replies[-2:])

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    labels = [tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in ("1", "2")]
    with Judge(JudgeOptions(card=card.name, engine="transformers"), card).open() as engine:
        others = [reply for portion in engine.complete(requests) for _, reply in portion]
    for request, reply, other in list(zip(requests, replies, others, strict=True))[:-2]:
        with torch.no_grad():
            ids = tokenizer(request.prompt, return_tensors="pt")["input_ids"]
            wanted = network(ids).logits[0, -1].log_softmax(-1)[labels]
        found, again = (torch.tensor([each.label_logprobs["1"], each.label_logprobs["2"]]) for each in (reply, other))
        # Both engines may compute in bfloat16, which moves an unlikely token by up to .3; a wrong label is nats away.
        assert torch.allclose(found, wanted, atol=0.5)
        assert torch.allclose(again, wanted, atol=0.5)
        if abs(wanted[0] - wanted[1]) > 0.5:
            assert found.argmax() == again.argmax() == wanted.argmax()
    assert others[-2:] == replies[-2:]


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_written_verdicts_arrive_when_finished_and_follow_the_schema(smollm2, writing_card, monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    slots, waiting = 3, 2
    monkeypatch.setattr(vllm, "SLOTS", slots)
    monkeypatch.setattr(vllm, "WAITING", waiting)
    card = writing_card
    template = PromptTemplate(card)
    prompts = [
        template.render_all({"instruction": f"Count to {count}."}, "one " * count, "two " * (12 - count))[0]
        for count in range(12)
    ]
    prompts.insert(7, "word " * 600)
    asked = [Request(f"key {index}", prompt) for index, prompt in enumerate(prompts)]
    taken: list[Request] = []

    def requests() -> Iterator[Request]:
        for request in asked:
            taken.append(request)
            yield request

    engine = VLLMEngine(engine_options(card))
    try:
        assert engine.batch is None
        assert engine.tokens(prompts[7]) > 512
        # Closed early: its remaining replies must not mix with the next ones.
        first = next(engine.complete(iter(asked[:4])))
        assert 1 <= len(first) <= slots
        replies: dict[Request, object] = {}
        portions = 0
        for portion in engine.complete(requests()):
            portions += 1
            replies.update(portion)
            assert len(taken) - len(replies) <= slots + waiting  # taken only when there is room
        assert portions >= 13 / slots
        # Last, since vLLM ends with it: a schema that cannot be followed.
        unusable = {"type": "object", "properties": {"a": {"$ref": "#/x"}}}
        engine.options = dataclasses.replace(engine.options, response_schema=unusable)
        with pytest.raises(InputError, match=r"cannot hold its replies to this JSON schema \(.*change response_schema"):
            list(engine.complete([Request("key", "Which one?")]))
    finally:
        engine.close()
    assert set(replies) == set(asked)
    assert isinstance(replies.pop(asked[7]), Failure)
    for reply in replies.values():
        assert isinstance(reply, Completion)
        assert json.loads(reply.text)["better"] in SCHEMA["properties"]["better"]["enum"]
        assert reply.finish_reason == "stop"
    assert all(replies[request] == reply for request, reply in first)
