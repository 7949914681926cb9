"""Tool calls leave the text of a local reply by vLLM's own parsers, or stay in it."""

from __future__ import annotations

import json

import pytest

from instruct.data.templates import template_text
from instruct.engines import vllm_parsers
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.local import LEFT_CALLS
from instruct.engines.transformers import TransformersEngine

XML_CALL = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
JSON_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
TOKENS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|channel>", "<channel|>", "<|tool_call>"]
TOKENS += ["<tool_call|>", '<|"|>']


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "reply", "content"),
    [
        ("qwen3", f"<think>\nx\n</think>\n\nok\n{JSON_CALL}", "ok"),
        ("qwen3", JSON_CALL, ""),
        ("qwen3_5_think", f"<think>\nx\n</think>\n\nok{XML_CALL}", "ok"),
    ],
)
def test_a_call_of_a_local_reply_leaves_its_text(tiny_model, template, reply, content):
    pytest.importorskip("vllm")
    engine = local_engine(tiny_model, template)
    completion = engine._completion([7], engine.tokenizer(reply)["input_ids"])
    assert completion.text == content
    assert completion.reasoning == ("x" if "<think>" in reply else None)
    (call,) = completion.tool_calls or ()
    assert (call["type"], call["function"]["name"]) == ("function", "add")
    # XML without the tools' schemas has no types.
    assert json.loads(call["function"]["arguments"]) == {"a": "1" if XML_CALL in reply else 1}
    assert not engine.notes


@pytest.mark.parametrize("installed", [True, False])
def test_a_call_that_cannot_be_parsed_stays_in_the_text_and_is_said_once(tiny_model, monkeypatch, caplog, installed):
    monkeypatch.setattr(vllm_parsers, "vllm_is_installed", lambda: installed)
    engine = local_engine(tiny_model, "llama3" if installed else "qwen3")
    for _ in range(2):
        completion = engine._completion([7], engine.tokenizer(JSON_CALL)["input_ids"])
        assert (completion.text, completion.tool_calls) == (JSON_CALL, None)
    assert engine.notes == [LEFT_CALLS]
    assert caplog.text.count("a reply calls a tool") == 1


def local_engine(model, template: str) -> TransformersEngine:
    engine = TransformersEngine(EngineOptions("model", str(model), Decoding(), 512, chat=True, parts_thinking=True))
    assert engine.stops  # by the model's own template
    engine.tokenizer.chat_template = template_text(template)
    engine.tokenizer.add_tokens(TOKENS)
    return engine
