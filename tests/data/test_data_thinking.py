"""Answers with and without thinking: how each is asked, and what the plan says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trl
from small_tokenizers import small_tokenizer, text_of
from transformers import AutoTokenizer, GenerationConfig

from instruct.base.errors import InputError
from instruct.data.rows import load_rows
from instruct.data.templates import Rendering
from instruct.data.tokens import EncodedRows, encode_rows

USER = {"role": "user", "content": "One?"}
PLAIN = {"messages": [USER, {"role": "assistant", "content": "It is 1."}]}
THINKS = {"messages": [USER, {"role": "assistant", "content": "It is 1.", "reasoning": "Hm."}]}


def encoded(name: str, file: str, rendering: Rendering) -> tuple[EncodedRows, list[str]]:
    tokenizer = small_tokenizer((Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text())
    found = encode_rows(tokenizer, load_rows(None, files=[file]), None, rendering=rendering)
    return found, [text_of(tokenizer, row["input_ids"]) for row in found.encoded]


def test_an_answer_never_stands_inside_an_open_thought(write):
    file = write("rows.jsonl", [PLAIN, PLAIN, THINKS])
    found, texts = encoded("qwen3_5_think", file, Rendering())
    assert [text.partition("assistant\n")[2] for text in texts] == [
        *["<think>\n\n</think>\n\nIt is 1.<|im_end|>"] * 2,
        "<think>\nHm.\n</think>\n\nIt is 1.<|im_end|>",
    ]
    assert found.notes == [
        "1 answer with thinking, 2 without, asked with thinking turned off",
        '2 answers after a prompt that a server sends only with chat_template_kwargs {"enable_thinking": false}',
    ]
    assert (found.facts["thinking"], found.facts["without"]) == (1, 2)


def test_empty_thoughts_are_named_in_the_plan(write):
    found, texts = encoded("qwen3_5_think", write("rows.jsonl", [PLAIN]), Rendering(empty_thinking=True))
    assert texts[0].endswith("assistant\n<think>\n\n</think>\n\nIt is 1.<|im_end|>")
    assert found.encoded[0]["loss_tokens"] == len("\n</think>\n\nIt is 1.") + 1
    assert found.notes == [
        "0 answers with thinking, 1 without, with an empty thought",
        "1 empty thought trained on, which teaches the model not to think (empty_thinking: train)",
    ]


def test_a_template_without_an_end_token_needs_one_at_which_generation_stops(tmp_path, write):
    file = write("rows.jsonl", [PLAIN])
    template = (Path(trl.__file__).parent / "chat_templates" / "glm4moe.jinja").read_text()
    small_tokenizer(template).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)

    def answer() -> str:
        row = encode_rows(tokenizer, load_rows(None, files=[file]), None).encoded[0]
        return text_of(tokenizer, row["input_ids"])

    assert answer().endswith("It is 1.</s>")  # without a generation config
    own, other = tokenizer.convert_tokens_to_ids(["</s>", "<|im_end|>"])
    GenerationConfig(eos_token_id=[other, own]).save_pretrained(tmp_path)
    assert answer().endswith("It is 1.</s>")
    GenerationConfig(eos_token_id=other).save_pretrained(tmp_path)
    problem = "generation does not stop at the tokenizer's </s>; set eos_token to where it stops (<|im_end|>)"
    with pytest.raises(InputError, match=re.escape(problem)):
        answer()
