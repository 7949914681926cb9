"""Thinking is kept apart from what a reply shows, by the marks of a chat template or by the server."""

from __future__ import annotations

import json

import pytest
from small_tokenizers import small_tokenizer

from instruct.base.replies import Parted, marks_of, parted, parted_after
from instruct.data.templates import DEFAULT, template_text
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.server_replies import read_reply
from instruct.engines.transformers import TransformersEngine

ASKED = [{"role": "user", "content": "2 + 2?"}]
ANSWERED = Parted("It is 4.", "2 + 2")
HARMONY = "<|channel|>analysis<|message|>2 + 2<|end|><|start|>assistant<|channel|>final<|message|>It is 4.<|return|>"


@pytest.mark.parametrize(
    ("template", "reply", "expected"),
    [
        ("qwen3", "<think>\n2 + 2\n</think>\n\nIt is 4.", ANSWERED),
        ("qwen3", "It is 4. Not </think>.", Parted("It is 4. Not </think>.", None)),
        ("qwen3", "<think>\n2 + 2", Parted("", "2 + 2")),
        ("qwen3_5_think", "2 + 2 is", Parted("", "2 + 2 is")),
        ("qwen3_5_nothink", "It is 4.", Parted("It is 4.", None)),
        ("deepseek_r1_distill", "2 + 2\n</think>\n\nIt is 4.", ANSWERED),
        ("gemma4", "<|channel>thought\n2 + 2<channel|>It is 4.", ANSWERED),
        ("gptoss", HARMONY, ANSWERED),
        ("gptoss", "<|channel|>final<|message|>It is 4.<|return|>", Parted("It is 4.", None)),
        ("gptoss", "<|channel|>analysis<|message|>2 + 2", Parted("", "2 + 2")),
    ],
)
def test_thinking_is_parted_by_the_marks_of_the_chat_template(template, reply, expected):
    tokenizer = small_tokenizer(template_text(template))
    tokenizer.add_tokens(["<|channel|>", "<|message|>", "<|return|>"], special_tokens=True)
    assert marks_of(tokenizer.chat_template)
    prompt = tokenizer(DEFAULT.render(tokenizer, ASKED, prompt=True), add_special_tokens=False)["input_ids"]
    assert parted_after(prompt, reply, reply, tokenizer) == expected


def test_a_model_that_does_not_think_keeps_its_text():
    assert marks_of(template_text("llama3")) is None
    plain = small_tokenizer()
    assert parted_after([1], " <think>a</think> b ", " b ", plain) == Parted(" b ", None)
    assert parted("  it is ", marks_of("</think>")) == Parted("  it is ", None)


@pytest.mark.parametrize("kept", [True, False])
def test_a_local_reply_is_parted_unless_its_reader_does_that(tiny_model, kept):
    options = EngineOptions("model", str(tiny_model), Decoding(), 512, chat=True, parts_thinking=kept)
    engine = TransformersEngine(options)
    engine.tokenizer.chat_template = template_text("qwen3")
    ids = engine.tokenizer("<think>\n2 + 2\n</think>\n\nIt is 4.")["input_ids"]
    reply = engine._completion([7], ids)
    assert (reply.text, reply.reasoning) == (ANSWERED if kept else ("<think>\n2 + 2\n</think>\n\nIt is 4.", None))
    assert reply.completion_tokens == len(ids)
    thought = len(engine.tokenizer("<think>\n2 + 2\n</think>")["input_ids"])
    assert reply.reasoning_tokens == (thought if kept else None)
    cut = engine._completion([7], ids[:8])
    assert cut.cut_in_thinking == kept


def test_a_servers_reply_to_a_prompt_that_was_rendered_here_is_parted_by_its_template():
    tokenizer = small_tokenizer(template_text("qwen3_5_think"))
    prompt = tokenizer(DEFAULT.render(tokenizer, ASKED, prompt=True), add_special_tokens=False)["input_ids"]
    options = EngineOptions("m", "m", Decoding(), 0, parts_thinking=True, tokenizer=tokenizer)
    choice = {"text": "2 + 2\n</think>\n\nIt is 4.", "finish_reason": "stop"}
    completion = read_reply(options, json.dumps({"choices": [choice]}).encode(), tuple(prompt))
    assert (completion.text, completion.reasoning) == ANSWERED
