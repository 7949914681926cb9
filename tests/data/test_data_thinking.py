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
    tokenizer.add_tokens(["<turn|>", "<｜end▁of▁sentence｜>"], special_tokens=True)
    rendering.prepare(tokenizer)
    found = encode_rows(tokenizer, load_rows(None, files=[file]), None, rendering=rendering)
    return found, [text_of(tokenizer, row["input_ids"]) for row in found.encoded]


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


def test_an_answer_is_never_trained_after_a_prompt_that_asks_for_thinking_in_silence(write):
    asked = Rendering(arguments={"enable_thinking": True})
    for name in ("gemma4", "qwen3_5_think"):
        with pytest.raises(InputError, match="without thinking would be trained after a prompt that asks for thinking"):
            encoded(name, write("rows.jsonl", [PLAIN]), asked)
    found, texts = encoded("gemma4", write("rows.jsonl", [THINKS]), asked)
    assert (found.facts["thinking"], "<|think|>" in texts[0]) == (1, True)


@pytest.mark.parametrize("name", ["qwen3_5_think", "deepseekv3"])
def test_a_thought_is_the_same_wherever_it_stands(write, name):
    def answer(content: str, **more: str) -> dict:
        return {"messages": [USER, {"role": "assistant", "content": content, **more}]}

    rows = [
        answer("It is 1.", reasoning_content="Hm."),
        answer("<think>\nHm.\n</think>\n\nIt is 1."),
        answer("Hm.\n</think>\n\nIt is 1."),
        answer("<think>Hm.</think>It is 1.", thinking="Hm."),
    ]
    found, texts = encoded(name, write("rows.jsonl", rows), Rendering())
    assert (found.facts["thinking"], {*texts}) == (4, {texts[0]})
    assert texts[0].count("Hm.") == 1
    other = answer("<think>Hm.</think>It is 1.", reasoning_content="So.")
    with pytest.raises(InputError, match=":1: the thinking of an answer in reasoning_content differs from that in"):
        encoded(name, write("rows.jsonl", [other]), Rendering())
