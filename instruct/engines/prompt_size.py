"""How many tokens a prompt has, estimated from its text: for models whose tokenizer is not here."""

from __future__ import annotations

import json
import math
from typing import Any

from instruct.engines.base import Message, Prompt

# A chat's framing is 3 tokens a message and 3 to open the reply with OpenAI's models (openai-cookbook, "How to count
# tokens"); other models' templates write more.
_FRAMING_TOKENS = 16
# English prompts have 4.2 UTF-8 bytes per token, by SmolLM2's tokenizer and by GPT-4's own bills.
_BYTES_PER_TOKEN = 4


def most_tokens(prompt: Prompt, also: Any = None) -> int:
    """An upper bound on a prompt's tokens: a byte-level BPE has at most one per byte.

    Args:
        also: what is charged as part of the prompt: tools, a schema.
    """
    if isinstance(prompt, tuple):
        return len(prompt)
    messages = len(prompt) if isinstance(prompt, list) else 0
    return _bytes(prompt, also) + _FRAMING_TOKENS * (1 + messages)


def likely_tokens(prompt: Prompt, also: Any = None) -> int:
    """A prompt's likely number of tokens: within a quarter for English text, too few for most other languages."""
    return len(prompt) if isinstance(prompt, tuple) else math.ceil(_bytes(prompt, also) / _BYTES_PER_TOKEN)


def _bytes(prompt: str | list[Message], also: Any) -> int:
    texts = [prompt] if isinstance(prompt, str) else [text for message in prompt for text in message.values()]
    if also is not None:
        texts.append(json.dumps(also))
    # A lone surrogate counts as the three bytes of the replacement character that a server reads.
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
