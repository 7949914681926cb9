"""LoRA adapters of every kind, merged into a model's tensors and into the weights of a running vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.errors import InputError
from instruct.base.replies import Completion, ScoredCompletion
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.vllm import VLLMEngine
from instruct.engines.vllm_process import MergedAdapters, _merged

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rank-stabilized": {"use_rslora": True},
    "patterns": {"rank_pattern": {"q_proj": 2, "layers.1.mlp.down_proj": 8}, "alpha_pattern": {"v_proj": 3}},
    "dora": {"use_dora": True},
}
TEXTS = ["The capital of France is Paris, and that of Italy is Rome.", "Once upon a time a king had three sons."]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merged_tensors_are_those_of_peft_and_the_others_are_left(kind, dtype, tiny_model, make_adapter, tmp_path):
    adapter = make_adapter(tiny_model, tmp_path / kind, 1, 0.5, **KINDS[kind])
    tensors = load_file(tiny_model / "model.safetensors")
    layers = MergedAdapters(str(tiny_model), None, [str(adapter)])._layers[str(adapter)]
    assert len(layers) == 6  # three matrices of two layers
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    wanted = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    for _ in range(2):  # what was merged leaves nothing behind
        found = dict(_merged(iter(tensors.items()), layers))
        assert found.keys() == tensors.keys()
        for name, tensor in found.items():
            assert torch.equal(tensor.to(dtype), wanted[name].to(dtype))
            assert torch.equal(tensor, tensors[name]) == (name not in layers)
    assert dict(_merged(iter(tensors.items()), {})) == tensors


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"modules_to_save": ["lm_head"]}, "lm_head"),
        ({"bias": "lora_only"}, "no part of a matrix"),
        ({"init_lora_weights": "pissa"}, "may change the base's weights"),
    ],
)
def test_an_adapter_of_more_than_matrices_is_not_merged(settings, reason, make_adapter, tmp_path, request):
    model = request.getfixturevalue("tiny_model")
    if "bias" in settings:
        model = with_biases(model, tmp_path / "model")
    adapter = make_adapter(model, tmp_path / "adapter", 1, 0.5, **settings)
    with pytest.raises(ValueError, match=reason):
        MergedAdapters(str(model), None, [str(adapter)])


def with_biases(model: Path, folder: Path) -> Path:
    """The tiny model with biases in its attention."""
    from transformers import AutoConfig, LlamaForCausalLM

    LlamaForCausalLM(AutoConfig.from_pretrained(model, attention_bias=True)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_scores_as_peft_does_and_the_base_is_restored_bit_for_bit(smollm2, make_adapter, tmp_path, monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    adapters = {kind: make_adapter(smollm2, tmp_path / kind, 1, 0.02, **more) for kind, more in KINDS.items()}
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    texts = [tuple(tokenizer(text)["input_ids"]) for text in TEXTS]
    folders: dict[str | None, str | None] = {None: None, **{kind: str(folder) for kind, folder in adapters.items()}}
    options = EngineOptions(
        subject="model", model=smollm2, decoding=Decoding(max_tokens=1), context_length=64, batch=20,
        adapters=tuple(adapters.values()), dtype="float32",
    )  # fmt: skip

    def requests(kinds: list[str | None]) -> list[Request]:
        return [
            Request(f"{kind} {place} {scored}", text, adapter=folders[kind], scored=1 if scored else None)
            for place, text in enumerate(texts)
            for kind in kinds  # each row has another adapter than the one before
            for scored in (True, False)
        ]

    engine = VLLMEngine(options)
    try:
        (before,) = engine.complete(requests([None]))
        assert engine._client.dtype == "torch.float32"
        (mixed,) = engine.complete(requests([*folders]))
        (after,) = engine.complete(requests([None]))
    finally:
        engine.close()
    assert engine.notes == []
    assert [reply for _, reply in after] == [reply for _, reply in before]
    assert [request for request, _ in mixed] == requests([*folders])  # in the order of the batch
    replies = {request.key: reply for request, reply in mixed}
    for kind, folder in folders.items():
        network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
        network = network if folder is None else PeftModel.from_pretrained(network, folder)
        for place, text in enumerate(texts):
            with torch.no_grad():
                logprobs = network.eval()(torch.tensor([text])).logits[0].double().log_softmax(-1)
            wanted = logprobs[torch.arange(len(text) - 1), list(text[1:])].sum().item()
            found, answered = (replies[f"{kind} {place} {scored}"] for scored in (True, False))
            assert isinstance(found, ScoredCompletion)
            assert isinstance(answered, Completion)
            assert sum(found.token_logprobs) == pytest.approx(wanted, abs=1e-4 * len(text))
            assert answered.text == tokenizer.decode(logprobs[-1].argmax())
    scores = {reply.token_logprobs for reply in replies.values() if isinstance(reply, ScoredCompletion)}
    assert len(scores) == len(folders) * len(texts)  # every adapter has its own


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_an_adapter_that_cannot_be_merged_answers_but_does_not_score(smollm2, make_adapter, tmp_path, monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    adapter = make_adapter(smollm2, tmp_path / "adapter", 1, 0.02)
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "init_lora_weights": "eva"}))
    text = tuple(AutoTokenizer.from_pretrained(smollm2)(TEXTS[0])["input_ids"])
    engine = VLLMEngine(
        EngineOptions(
            subject="model", model=smollm2, decoding=Decoding(max_tokens=1), context_length=64, batch=2,
            adapters=(adapter,), dtype="float32",
        )
    )  # fmt: skip
    try:
        with pytest.raises(InputError, match="vLLM with adapters answers, but does not score given text"):
            next(engine.complete([Request("scored", text, adapter=str(adapter), scored=1)]))
        (replies,) = engine.complete([Request(str(folder), text, adapter=folder) for folder in (None, str(adapter))])
    finally:
        engine.close()
    assert all(isinstance(reply, Completion) and reply.completion_tokens == 1 for _, reply in replies)
    (note,) = engine.notes
    assert "they cannot be merged (ValueError: eva may change the base's weights)" in note
