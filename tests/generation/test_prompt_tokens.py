"""Generation prompts equal training prompts token for token."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from encoded_rows import encode_row
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from instruct.base.models import ModelOptions
from instruct.data.formats import to_row
from instruct.data.prompts import EvalPrompt
from instruct.data.sources import RawRow
from instruct.engines.base import Request
from instruct.engines.transformers import TransformersEngine
from instruct.generation.answers import GenerationConfig, generate_answers

INSTRUCTIONS = [
    "Name three rivers.",
    " space around \n",
    "Zwölf Boxkämpfer jagen 😀 дальше 中文\r\n\tx",
    "Explain {instruction} and ### Response:",
    "What does <|im_end|> mean?",
]


def trained_prompt(tokenizer: Any, instruction: str, template: Any) -> list[int]:
    """The tokens that a row with this instruction has before its response."""
    row = to_row(
        RawRow("rows", 1, {"instruction": instruction, "input": "", "output": "An answer."}), "alpaca", template
    )
    assert row is not None
    encoded = encode_row(tokenizer, row, None)
    return [token for token, label in zip(encoded.input_ids, encoded.labels, strict=True) if label == -100]


@pytest.fixture(scope="session")
def tokenizer(smollm2):
    return AutoTokenizer.from_pretrained(smollm2)


@pytest.fixture(scope="session")
def smollm2_words(smollm2, tokenizer, tmp_path_factory):
    """SmolLM2's tokenizer on a model of one narrow layer."""
    folder = tmp_path_factory.mktemp("words")
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            tie_word_embeddings=True,
        )
    ).save_pretrained(folder)
    for path in [*Path(smollm2).glob("tokenizer*"), Path(smollm2) / "chat_template.jinja"]:
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("template", ["alpaca", "chat"])
def test_engines_receive_the_prompts_of_training(smollm2_words, tokenizer, template, tmp_path, monkeypatch):
    sent: list[list[int]] = []
    complete = TransformersEngine.complete

    def recorded(self: TransformersEngine, requests: Iterable[Request]) -> Any:
        requests = [*requests]
        sent.extend(list(request.prompt) for request in requests)
        return complete(self, requests)

    monkeypatch.setattr(TransformersEngine, "complete", recorded)
    prompts = [EvalPrompt(instruction, "set") for instruction in INSTRUCTIONS]
    config = GenerationConfig(engine="transformers", max_new_tokens=1, batch_size=2)
    generate_answers(ModelOptions(name=str(smollm2_words)), {"base": None}, prompts, template, config, tmp_path)
    assert sent == [trained_prompt(tokenizer, instruction, template) for instruction in INSTRUCTIONS]
