"""What a vLLM server makes of a reply: its reasoning, its content and its tool calls, by vLLM's own parsers."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from instruct.base.machine import vllm_is_installed

# vLLM's parsers of reasoning and of tool calls (--reasoning-parser, --tool-call-parser), by what a chat template has.
# Harmony (gpt-oss) is not here: vLLM parses it by the ids of its own vocabulary.
_PARSERS = (
    ("<|tool_call>", "gemma4", "gemma4"),
    ("<arg_key>", "glm45", "glm45"),
    ("<function=", "qwen3", "qwen3_coder"),
    ("enable_thinking", "qwen3", "hermes"),
    ("</think>", "deepseek_r1", None),
    ("<tool_call>", None, "hermes"),
)

# What begins a call in a reply, in any family.
_CALLS = ("<|tool_call>", "<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", " to=functions.")

# Calls are parsed only if a request has tools; any will do.
_TOOLS: Any = [{"type": "function", "function": {"name": "tool"}}]


class Served(NamedTuple):
    """A reply as a vLLM server with these parsers returns it."""

    reasoning: str | None
    content: str | None
    tool_calls: list[dict[str, Any]]
    parsers: str

    def words(self) -> str:
        """It in a line, for people."""
        shown = {"reasoning": self.reasoning, "content": self.content, "tool calls": self.tool_calls or None}
        listed = "; ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items() if value)
        return f"vLLM ({self.parsers}) returns {listed or 'nothing'}"


def as_served(tokenizer: Any, prompt: str, reply: str) -> Served | None:
    """What vLLM makes of a reply to a rendered prompt.

    Args:
        prompt: the text that the model is asked with; if it closes the thinking, thinking is turned off.
        reply: without its end token.

    Returns:
        None if vLLM is not installed, does not know the template's family, or cannot parse with this tokenizer.
    """
    known = _parsers(tokenizer)
    if known is None or not vllm_is_installed():
        return None
    mode = {"enable_thinking": False} if re.search(r"</think>\s*\Z", prompt) else {}
    return _parsed(tokenizer, known, mode, reply)


def _parsers(tokenizer: Any) -> list[str | None] | None:
    """The parsers of reasoning and of tool calls for a tokenizer's chat template, if they are known."""
    template = str(tokenizer.chat_template or "")
    known: list[str | None] | None = next((list(names) for mark, *names in _PARSERS if mark in template), None)
    return None if "<|channel|>" in template else known


def _parsed(tokenizer: Any, parsers: list[str | None], mode: dict[str, Any], reply: str) -> Served | None:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # it logs on import what it cannot use
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    reasoning_parser, tool_parser = parsers
    try:
        make = ParserManager.get_parser(
            reasoning_parser_name=reasoning_parser,
            tool_parser_name=tool_parser,
            enable_auto_tools=True,
            tokenizer=tokenizer,
        )
        messages: Any = [{"role": "user", "content": ""}]
        request = ChatCompletionRequest(model="", messages=messages, chat_template_kwargs=mode, tools=_TOOLS)
        ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
        parser = make(tokenizer, request.tools, chat_template_kwargs=mode)
        reasoning, content, calls = parser.parse(reply, request, True, ids)
    except (TypeError, ValueError, RuntimeError, LookupError):  # the tokenizer lacks the family's tokens
        return None
    listed = [{"name": call.name, "arguments": call.arguments} for call in calls or ()]
    return Served(reasoning, content, listed, ", ".join(filter(None, parsers)))


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
    known = _parsers(tokenizer)
    if known is None or known[1] is None or not vllm_is_installed():
        return None
    served = _parsed(tokenizer, [None, known[1]], {}, text)
    if served is None or not served.tool_calls:
        return None
    return (served.content or "").strip(), [{"type": "function", "function": call} for call in served.tool_calls]
