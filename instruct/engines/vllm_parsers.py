"""A reply's tool calls, by vLLM's own parsers."""

from __future__ import annotations

import os
from typing import Any

from instruct.base.machine import vllm_is_installed

# vLLM's parsers of tool calls (--tool-call-parser), by what a chat template has. Harmony (gpt-oss) is not here: vLLM
# parses it by the ids of its own vocabulary.
_PARSERS = (
    ("<|tool_call>", "gemma4"),
    ("<arg_key>", "glm45"),
    ("<function=", "qwen3_coder"),
    ("<tool_call>", "hermes"),
)

# What begins a call in a reply, in any family.
_CALLS = ("<|tool_call>", "<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", " to=functions.")

# Calls are parsed only if a request has tools; any will do.
_TOOLS: Any = [{"type": "function", "function": {"name": "tool"}}]


def has_a_call(text: str) -> bool:
    """Whether a reply, with its special tokens, seems to call a tool."""
    return any(mark in text for mark in _CALLS)


def called(tokenizer: Any, text: str) -> tuple[str, list[dict[str, Any]]] | None:
    """A reply's text without its tool calls, and these in OpenAI's form, without ids, which vLLM draws.

    Args:
        text: the reply after its thinking, with its special tokens.

    Returns:
        None if vLLM is not installed, knows no parser for the template's family, or finds no call.
    """
    name = next((name for mark, name in _PARSERS if mark in str(tokenizer.chat_template or "")), None)
    if name is None or not vllm_is_installed():
        return None
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # it logs on import what it cannot use
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    try:
        make = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True, tokenizer=tokenizer)
        messages: Any = [{"role": "user", "content": ""}]
        request = ChatCompletionRequest(model="", messages=messages, tools=_TOOLS)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        _, content, calls = make(tokenizer, request.tools).parse(text, request, True, ids)
    except (TypeError, ValueError, RuntimeError, LookupError):  # the tokenizer lacks the family's tokens
        return None
    listed = [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls or ()
    ]
    return ((content or "").strip(), listed) if listed else None
