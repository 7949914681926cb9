"""vLLM's own server with the real SmolLM2-135M: adapters at once, label log-probabilities, verdicts by a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure, ScoredCompletion
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.vllm import VLLMEngine
from instruct.engines.vllm_server import VLLMServer
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import PromptTemplate

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("vllm"), pytest.mark.timeout(1200)]
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
    ("Say nothing but yes.", "yes", "word " * 9000),  # does not fit
]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # vLLM has three processes to start


def test_base_and_adapters_that_are_asked_at_once_answer_and_score_as_peft_does(smollm2, make_adapter, tmp_path):
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "rank-stabilized": {"use_rslora": True},
        "patterns": {"rank_pattern": {"q_proj": 2, "layers.1.mlp.down_proj": 8}, "alpha_pattern": {"v_proj": 3}},
    }
    adapters = {kind: make_adapter(smollm2, tmp_path / kind, 1, 0.02, **more) for kind, more in kinds.items()}
    folders: dict[str, Path | None] = {"base": None, **adapters}
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    texts = ["The capital of France is Paris, and that of Italy is Rome.", "Once upon a time a king had three sons."]
    ids = [tuple(tokenizer(text)["input_ids"]) for text in texts]
    options = EngineOptions(
        "model", smollm2, Decoding(max_tokens=1), 64, adapters=tuple(adapters.values()), dtype="float32"
    )
    engine = VLLMEngine(options)
    try:
        requests = [
            Request(f"{kind} {place} {scored}", text, adapter=folder and str(folder), scored=scored)
            for place, text in enumerate(ids)
            for kind, folder in folders.items()
            for scored in (1, len(text) - 1, None)  # the last token alone is asked as a reply
        ]
        replies: dict[str, Any] = {
            request.key: reply for portion in engine.complete(requests) for request, reply in portion
        }
    finally:
        engine.close()
    found = set()
    for kind, folder in folders.items():
        network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
        network = network if folder is None else PeftModel.from_pretrained(network, folder)
        for place, text in enumerate(ids):
            with torch.no_grad():
                logprobs = network.eval()(torch.tensor([text])).logits[0].double().log_softmax(-1)
            wanted = logprobs[torch.arange(len(text) - 1), list(text[1:])].tolist()
            scores, last, answer = (replies[f"{kind} {place} {scored}"] for scored in (1, len(text) - 1, None))
            assert isinstance(scores, ScoredCompletion)
            assert scores.token_logprobs == pytest.approx(wanted, abs=2e-3)
            assert last.token_logprobs == pytest.approx(wanted[-1:], abs=2e-3)
            assert answer.text == tokenizer.decode(logprobs[-1].argmax())
            assert (answer.prompt_tokens, answer.completion_tokens) == (len(text), 1)
            found.add(scores.token_logprobs)
    assert len(found) == len(folders) * len(texts)  # every adapter has its own


def test_label_logprobs_are_those_of_the_model_and_engines_agree(smollm2):
    card = load_judge_card(LABELS)
    template = PromptTemplate(card)
    pairs = [(text, *answers) for text, *both in CLEAR for answers in (both, both[::-1])]
    requests = [
        Request(f"key {index}", template.render_all({"instruction": text}, first, second)[0])
        for index, (text, first, second) in enumerate(pairs)
    ]
    found: dict[str, dict[str, Any]] = {}
    for kind in ("vllm", "transformers"):
        with Judge(JudgeOptions(card=card.name, engine=kind), card).open() as engine:
            (portion,) = engine.complete(iter(requests[-2:]))
            assert getattr(engine, "_served", None) is None  # vLLM is started only for prompts that fit
            assert [reply.reason.partition(":")[0] for _, reply in portion] == ["too long"] * 2
            replies = [pair for portion in engine.complete(iter(requests)) for pair in portion]
            found[kind] = {request.key: reply for request, reply in replies}
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    labels = [tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in ("1", "2")]
    for request in requests[:-2]:
        with torch.no_grad():
            ids = tokenizer(request.prompt, return_tensors="pt")["input_ids"]
            wanted = network(ids).logits[0, -1].log_softmax(-1)[labels]
        for replies in found.values():
            logprobs = torch.tensor([replies[request.key].label_logprobs[label] for label in ("1", "2")])
            # Both engines may compute in bfloat16, which moves an unlikely token by up to .3.
            assert torch.allclose(logprobs, wanted, atol=0.5)
    for request in requests[-2:]:
        assert isinstance(found["vllm"][request.key], Failure)
        assert found["vllm"][request.key] == found["transformers"][request.key]


def test_written_verdicts_follow_the_schema_and_a_stream_that_is_left_early_ends(smollm2):
    card = load_judge_card(LABELS)
    verdict = {"labels": None, "json_field": "better", "tie_margin": 0.0}
    update = {"decoding": card.decoding.model_copy(update={"max_tokens": 24}), "response_schema": SCHEMA}
    update |= {"verdict": card.verdict.model_copy(update=verdict), "context_length": 512}
    card = card.model_copy(update=update)
    template = PromptTemplate(card)
    asked = [
        Request(
            f"key {count}",
            template.render_all({"instruction": f"Count to {count}."}, "one " * count, "two " * (12 - count))[0],
        )
        for count in range(12)
    ]
    engine = VLLMEngine(engine_options(card))

    def requests() -> Iterator[Request]:
        yield from asked

    try:
        next(engine.complete(iter(asked[:4])))  # its other replies must not mix with the next ones
        replies = [pair for portion in engine.complete(requests()) for pair in portion]
    finally:
        engine.close()
    assert sorted(request.key for request, _ in replies) == sorted(request.key for request in asked)
    for _, reply in replies:
        assert isinstance(reply, Completion)
        assert json.loads(reply.text)["better"] in SCHEMA["properties"]["better"]["enum"]
        assert reply.finish_reason == "stop"


def test_what_vllm_cannot_load_is_said_in_one_line(tiny_model):
    with pytest.raises(InputError, match=r"^model m: vLLM cannot load it \(\w*Error: .*\); check the name") as caught:
        VLLMServer("model m", [f"--model={tiny_model}", "--max-model-len=999999"])
    assert "\n" not in str(caught.value)
