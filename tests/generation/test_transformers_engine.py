"""The transformers engine on a tiny model: held to a plain loop over the model's most likely tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.engines.stop_tokens import stop_token_ids
from instruct.generation.engines import TransformersEngine
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Completion, Serving

TEXTS = ["One", "Two and three", "Four, five and six of them"]
LIMIT = 12


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[TransformersEngine]:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    stops = stop_token_ids(tokenizer, str(tiny_model))
    engine = TransformersEngine(Serving(str(tiny_model), None, tokenizer, (), 512, stops))
    yield engine
    engine.close()


def most_likely(model: Path, adapter: Path | None, ids: list[int], stops: tuple[int, ...]) -> list[int]:
    """Greedy decoding without batch, padding or cache."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    network = network if adapter is None else PeftModel.from_pretrained(network, adapter, autocast_adapter_dtype=False)
    answer: list[int] = []
    with torch.no_grad():
        while len(answer) < LIMIT:
            token = int(network(torch.tensor([ids + answer])).logits[0, -1].argmax())
            if token in stops:
                break
            answer.append(token)
    return answer


def test_adapters_take_turns_on_one_base_and_leave_it_as_it_was(
    engine: TransformersEngine, tiny_model: Path, tiny_adapters: dict[str, Path]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    prompts = [tokenizer(text)["input_ids"] for text in TEXTS]
    config = GenerationConfig(max_new_tokens=LIMIT)
    stops = stop_token_ids(tokenizer, str(tiny_model))
    answers: dict[Path | None, list[Completion]] = {}
    for adapter in (None, tiny_adapters["mle"], None, tiny_adapters["emo"], tiny_adapters["mle"], None):
        done = engine.complete(prompts, adapter, config)
        assert answers.setdefault(adapter, done) == done
        expected = [most_likely(tiny_model, adapter, ids, stops) for ids in prompts]
        assert [completion.tokens for completion in done] == [len(ids) for ids in expected]
        assert [completion.text for completion in done] == [
            tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in expected
        ]
    assert len({tuple(done) for done in answers.values()}) == 3


def test_the_same_seeds_give_the_same_samples_whatever_was_sampled_before(
    engine: TransformersEngine, tiny_model: Path
) -> None:
    prompts = [AutoTokenizer.from_pretrained(tiny_model)(text)["input_ids"] for text in TEXTS]
    config = GenerationConfig(max_new_tokens=LIMIT, temperature=1.0, seed=3)
    first, second = (engine.complete(prompts, None, config, first_index=index) for index in (0, 3))
    assert first != second
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert engine.complete(prompts, None, config, first_index=3) == second
    assert torch.equal(torch.get_rng_state(), state)  # nor is the caller's own randomness touched
