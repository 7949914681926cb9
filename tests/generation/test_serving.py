"""What engines share: which ids end an answer, what the answer in generated ids is, and a prompt's seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from instruct.data.evaluation import eval_prompt
from instruct.data.tokens import encode_row
from instruct.engines.stop_tokens import stop_token_ids
from instruct.errors import InputError
from instruct.generation.engines import TransformersEngine, start_engine
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Completion, Serving, completion_of, prompt_seed


def serving_of(model: Path) -> Serving:
    tokenizer = AutoTokenizer.from_pretrained(model)
    return Serving(str(model), None, tokenizer, (), 512, stop_token_ids(tokenizer, str(model)))


def test_an_answer_ends_before_its_first_stop_token(tiny_model: Path) -> None:
    serving = serving_of(tiny_model)
    ids = serving.tokenizer(" two words ")["input_ids"]
    for end in ("<|eos|>", "<|end|>"):
        stop = serving.tokenizer.convert_tokens_to_ids(end)
        assert completion_of(serving, [*ids, stop, *ids]) == Completion("two words", len(ids), "stop")
    assert completion_of(serving, ids) == Completion("two words", len(ids), "length")
    assert completion_of(serving, [stop]) == Completion("", 0, "stop")


@pytest.mark.parametrize("template", ["alpaca", "chat"])
@pytest.mark.parametrize("model", ["tiny_model", "smollm2"])
def test_the_token_that_training_ends_an_answer_with_stops_generation(
    request: pytest.FixtureRequest, model: str, template: Any
) -> None:
    serving = serving_of(Path(request.getfixturevalue(model)))
    completion: Any = "Yes." if template == "alpaca" else [{"role": "assistant", "content": "Yes."}]
    row = encode_row(serving.tokenizer, {"prompt": eval_prompt("Is it?", template), "completion": completion}, None)
    assert row.input_ids[-1] in serving.stop_ids
    assert not set(row.input_ids[row.prompt_length : -1]) & set(serving.stop_ids)


def test_seeds_differ_by_prompt_and_by_run() -> None:
    seeds = [prompt_seed(seed, index) for seed in (0, 1) for index in range(500)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_without_vllm_auto_is_transformers_and_vllm_is_refused(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find(name, *rest))
    with pytest.raises(InputError, match="vLLM is not installed"):
        start_engine(serving_of(tiny_model), GenerationConfig(engine="vllm"))
    engine = start_engine(serving_of(tiny_model), GenerationConfig())
    assert isinstance(engine, TransformersEngine)
    engine.close()
