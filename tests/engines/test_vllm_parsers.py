"""vLLM's own parsers find in a reply what was trained, or show that they do not."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console
from small_tokenizers import small_tokenizer

from instruct.data.templates import template_text
from instruct.engines import vllm_parsers
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.local import LEFT_CALLS
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm_parsers import as_served

XML_CALL = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
JSON_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
TOKENS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|channel>", "<channel|>", "<|tool_call>"]
TOKENS += ["<tool_call|>", '<|"|>']


def tokenizer_of(template: str):
    tokenizer = small_tokenizer(template_text(template))
    tokenizer.add_tokens(TOKENS)
    return tokenizer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "prompt", "reply", "parts"),
    [
        ("qwen3", "", "<think>\n2 + 2\n</think>\n\nIt is 4.", ("2 + 2", "It is 4.", 0)),
        ("qwen3", "<think>\n\n</think>\n\n", "It is 4.", (None, "It is 4.", 0)),
        # Trained after a prompt that asks for thinking: a user sees nothing.
        ("qwen3", "", "It is 4.", ("It is 4.", None, 0)),
        ("qwen3", "", f"<think>\nx\n</think>\n\n{JSON_CALL}", ("x", None, 1)),
        ("qwen3_5_think", "<think>\n", f"2 + 2\n</think>\n\nok{XML_CALL}", ("2 + 2", "ok", 1)),
        ("qwen3_5_nothink", "<think>\n\n</think>\n\n", "It is 4.", (None, "It is 4.", 0)),
        ("nemotron_3_nano", "<think>\n", "2 + 2\n</think>\nok", ("2 + 2", "ok", 0)),
        ("deepseek_r1_distill", "<think>\n", "2 + 2\n</think>\n\nok", ("2 + 2", "ok", 0)),
        ("gemma4", "", "<|channel>thought\n2 + 2<channel|>ok", ("2 + 2", "ok", 0)),
    ],
)
def test_vllm_finds_reasoning_content_and_calls(template, prompt, reply, parts):
    pytest.importorskip("vllm")
    served = as_served(tokenizer_of(template), prompt, reply)
    assert served is not None
    assert tuple(each and each.strip() for each in served[:2]) == parts[:2]
    assert [call["name"] for call in served.tool_calls] == ["add"] * parts[2]
    assert served.words().startswith(f"vLLM ({served.parsers}) returns ")


def test_nothing_is_shown_without_vllm_or_for_a_template_that_it_needs_no_parser_for(monkeypatch):
    assert as_served(tokenizer_of("llama3"), "", "It is 4.") is None
    assert as_served(tokenizer_of("gptoss"), "", "It is 4.") is None
    monkeypatch.setattr(vllm_parsers, "vllm_is_installed", lambda: False)
    assert as_served(tokenizer_of("qwen3"), "", "It is 4.") is None


def test_preview_asks_for_the_last_answer_of_a_whole_row_without_its_end_token(monkeypatch):
    from instruct.training import preview

    tokenizer, asked = tokenizer_of("qwen3"), []
    monkeypatch.setattr(preview, "as_served", lambda _, *texts: asked.append(texts))
    ids = tokenizer("ask one<|im_end|>again two<|im_end|>", add_special_tokens=False)["input_ids"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    first, answer = ids.index(end) + 1, len(tokenizer(" two", add_special_tokens=False)["input_ids"]) + 1
    labels = [-100] * 4 + ids[4:first] + [-100] * (len(ids) - first - answer) + ids[-answer:]
    answers = [4, first, len(ids) - answer, len(ids)]
    row = {"place": "row 1", "input_ids": ids, "labels": labels, "tokens": len(ids), "answers": answers}
    rows = [row | {"status": status} for status in ("kept", "truncated")]
    data = SimpleNamespace(
        tokenizer=tokenizer, encoded=SimpleNamespace(encoded=rows, weights={}), rows=SimpleNamespace(format=None)
    )
    preview._print_rows(Console(file=io.StringIO()), data, None, 2)
    assert asked == [("ask one<|im_end|>again", " two")]  # not of the row that was cut off


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
