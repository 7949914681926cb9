"""The transformers engine with adapters and batches, compared with a plain loop over the most likely tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.replies import Completion
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.local import stop_token_ids
from instruct.engines.transformers import TransformersEngine
from instruct.generation.answers import prompt_seed

TEXTS = ["One", "Two and three", "Four, five and six of them"]
LIMIT = 12


def options(model: Path, adapters: Sequence[Path] = (), temperature: float = 0.0, **more: object) -> EngineOptions:
    return EngineOptions(
        subject=f"model {model}",
        model=str(model),
        decoding=Decoding(temperature=temperature, max_tokens=LIMIT),
        context_length=512,
        chat=True,
        batch=len(TEXTS),
        adapters=tuple(adapters),
        **more,
    )


@pytest.fixture
def engine(tiny_model, tiny_adapters):
    engine = TransformersEngine(options(tiny_model, list(tiny_adapters.values()), dtype="float32"))
    yield engine
    engine.close()


def complete(engine: TransformersEngine, model: Path, adapter: Path | None, first: int = 0) -> list[Completion]:
    tokenizer = AutoTokenizer.from_pretrained(model)
    requests = [
        Request(
            str(place),
            tuple(tokenizer(text)["input_ids"]),
            adapter=None if adapter is None else str(adapter),
            seed=prompt_seed(3, first + place),
        )
        for place, text in enumerate(TEXTS)
    ]
    replies = {request.key: reply for portion in engine.complete(requests) for request, reply in portion}
    return [replies[request.key] for request in requests]


def most_likely(model: Path, adapter: Path | None, prompts: list[list[int]], stops: tuple[int, ...]) -> list[list[int]]:
    """Greedy decoding of each prompt without batch, padding or cache."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    network = network if adapter is None else PeftModel.from_pretrained(network, adapter, autocast_adapter_dtype=False)
    answers: list[list[int]] = []
    for ids in prompts:
        answer: list[int] = []
        with torch.no_grad():
            while len(answer) < LIMIT:
                token = int(network(torch.tensor([ids + answer])).logits[0, -1].argmax())
                if token in stops:
                    break
                answer.append(token)
        answers.append(answer)
    return answers


def test_adapters_share_one_base_and_leave_it_unchanged(engine, tiny_model, tiny_adapters):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    prompts = [tokenizer(text)["input_ids"] for text in TEXTS]
    stops = stop_token_ids(tokenizer, str(tiny_model))
    answers: dict[Path | None, list[Completion]] = {}
    for adapter in (None, tiny_adapters["mle"], None, tiny_adapters["emo"], tiny_adapters["mle"], None):
        done = complete(engine, tiny_model, adapter)
        assert answers.setdefault(adapter, done) == done
    assert len({tuple(each.text for each in done) for done in answers.values()}) == 3
    for adapter, done in answers.items():
        expected = most_likely(tiny_model, adapter, prompts, stops)
        ended = [each.finish_reason == "stop" for each in done]
        assert [each.completion_tokens for each in done] == [
            len(ids) + end for ids, end in zip(expected, ended, strict=True)
        ]
        assert [each.text for each in done] == [tokenizer.decode(ids, skip_special_tokens=True) for ids in expected]


def test_samples_depend_only_on_their_seeds(tiny_model):
    engine = TransformersEngine(options(tiny_model, temperature=1.0))
    first, second = (complete(engine, tiny_model, None, first=index) for index in (0, 3))
    assert first != second
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert complete(engine, tiny_model, None, first=3) == second
    assert torch.equal(torch.get_rng_state(), state)  # the caller's random state is unchanged
    engine.close()
