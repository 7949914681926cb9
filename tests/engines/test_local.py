"""What vLLM and transformers share: which ids end a reply, and the reply in generated ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from encoded_rows import encode_row
from transformers import AutoTokenizer

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.data.prompts import EvalPrompt
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.local import LocalEngine, stop_token_ids
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine


def options_of(model: Path, **more: Any) -> EngineOptions:
    decoding = Decoding(max_tokens=8)
    return EngineOptions("model tiny", str(model), decoding, context_length=512, chat=True, **more)


def test_a_reply_ends_before_its_first_stop_token(tiny_model):
    engine: LocalEngine = TransformersEngine(options_of(tiny_model))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    ids = list(tokenizer(" two words ")["input_ids"])
    assert engine.tokens(tuple(ids)) == engine.tokens(" two words ") == len(ids)
    for end in ("<|eos|>", "<|end|>"):
        stop = tokenizer.convert_tokens_to_ids(end)
        found = engine._completion([7, 8], [*ids, stop, *ids])
        assert found == Completion(" two words ", None, "stop", 2, len(ids) + 1)
    assert engine._completion([7], ids) == Completion(" two words ", None, "length", 1, len(ids))
    assert engine._completion([7], [stop]) == Completion("", None, "stop", 1, 1)


@pytest.mark.parametrize("template", ["alpaca", "chat"])
@pytest.mark.parametrize("model", ["tiny_model", "smollm2"])
def test_generation_stops_at_the_end_token_of_training(request, model, template):
    folder = request.getfixturevalue(model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stops = stop_token_ids(tokenizer, str(folder))
    completion: Any = "Yes." if template == "alpaca" else [{"role": "assistant", "content": "Yes."}]
    row = encode_row(tokenizer, {"prompt": EvalPrompt("Is it?", "").render(template), "completion": completion}, None)
    assert row.input_ids[-1] in stops
    assert not set(row.input_ids[row.length - row.completion_length : -1]) & set(stops)


def test_settings_that_affect_replies_are_part_of_the_identity(tiny_model):
    plain = VLLMEngine(options_of(tiny_model)).identity
    assert set(plain) == {"engine", "model", "revision"}
    assert VLLMEngine(options_of(tiny_model, tensor_parallel_size=2)).identity == {**plain, "tensor_parallel_size": 2}
    assert VLLMEngine(options_of(tiny_model, dtype="float32")).identity == {**plain, "dtype": "float32"}


def test_vllm_refuses_to_quantize(tiny_model):
    with pytest.raises(InputError, match=r"^model tiny: vLLM cannot quantize a model to 4bit .* to transformers"):
        VLLMEngine(options_of(tiny_model, quantization="4bit"))
