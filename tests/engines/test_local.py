"""What vLLM and transformers share: which ids end a reply, and the reply in generated ids."""

from __future__ import annotations

from typing import Any

import pytest
from encoded_rows import encode_row
from transformers import AutoTokenizer

from instruct.base.replies import Completion
from instruct.data.prompts import EvalPrompt
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.local import LocalEngine, stop_token_ids
from instruct.engines.transformers import TransformersEngine


def test_a_reply_ends_before_its_first_stop_token(tiny_model):
    engine: LocalEngine = TransformersEngine(EngineOptions("model tiny", str(tiny_model), Decoding(), 512, chat=True))
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
def test_generation_stops_at_the_end_token_of_training(smollm2, template):
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    stops = stop_token_ids(tokenizer, smollm2)
    completion: Any = "Yes." if template == "alpaca" else [{"role": "assistant", "content": "Yes."}]
    row = encode_row(tokenizer, {"prompt": EvalPrompt("Is it?", "").render(template), "completion": completion}, None)
    assert row.input_ids[-1] in stops
    assert not set(row.input_ids[row.length - row.completion_length : -1]) & set(stops)
