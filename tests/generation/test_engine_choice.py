"""Which engine answers, and what its settings change in a journal's fingerprint."""

from __future__ import annotations

import importlib.util

import pytest

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines.cluster import ClusterOptions
from instruct.generation.answers import answer_work, generate_answers
from instruct.generation.options import GenerationConfig
from instruct.generation.replies import fingerprint, local_kind

PROMPTS = [EvalPrompt("Say hello.", "tiny")]


def test_without_vllm_auto_selects_transformers_and_vllm_is_refused(tiny_model, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find(name, *rest))
    model = ModelOptions(name=str(tiny_model))
    with pytest.raises(InputError, match="vLLM is not installed"):
        generate_answers(model, {"base": None}, PROMPTS, "chat", GenerationConfig(engine="vllm"), tmp_path)
    config = GenerationConfig(max_new_tokens=2)
    stats = generate_answers(model, {"base": None}, PROMPTS, "chat", config, tmp_path)
    assert stats["base"].engine.startswith("transformers ")


def test_auto_selects_transformers_for_a_4bit_model(monkeypatch):
    """vLLM cannot quantize with bitsandbytes."""
    monkeypatch.setattr("instruct.engines.start.vllm_is_installed", lambda: True)
    plain, quantized = ModelOptions(), ModelOptions(quantization="4bit")
    for has_gpu, kind in ((True, "vllm"), (False, "transformers")):
        monkeypatch.setattr("instruct.engines.start.has_gpu_device", lambda has_gpu=has_gpu: has_gpu)
        assert local_kind(plain, GenerationConfig()) == kind
    assert local_kind(plain, GenerationConfig(), ClusterOptions()) == "vllm"
    assert local_kind(quantized, GenerationConfig()) == "transformers"
    assert local_kind(quantized, GenerationConfig(engine="vllm")) == "vllm"  # which refuses it


def test_what_changes_no_reply_is_no_part_of_the_fingerprint():

    def of(model: ModelOptions | None = None, **settings: object) -> str:
        config = GenerationConfig(**settings)
        work = answer_work(PROMPTS, "chat", config)
        return fingerprint(["model", ""], model or ModelOptions(dtype="bfloat16"), work, config, config.temperature)

    plain = of()
    assert plain == of(engine="vllm", gpu_memory_utilization=0.5, tensor_parallel_size=1, batch_size=7)
    changed = [
        of(tensor_parallel_size=2),
        of(engine="server", base_url="http://127.0.0.1:8000/v1"),
        of(ModelOptions(dtype="float32")),
        of(ModelOptions(dtype="bfloat16", quantization="4bit")),
    ]
    assert len({plain, *changed}) == 5
