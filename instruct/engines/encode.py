"""What a judge is shown, as token ids: an answer is text, and a special token in it opens no turn.

Such a token is cut in two, and the pieces are encoded apart: no tokenizer finds it then, whatever it does with special
tokens. A prompt without one is encoded as it stands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from instruct.base.chat_template import apply_template

_CUT = "\udfff"  # which no text has that can be encoded


class FilledText(str):
    """A text with parts that were filled in, such as answers.

    Attributes:
        parts: the text in pieces. The second one was filled in, and every second one after it.
    """

    parts: Sequence[str]


def encode_prompt(tokenizer: Any, prompt: Any, **more: Any) -> list[int]:
    """The token ids of a text, or of a chat as the chat template writes it.

    Args:
        prompt: a text, or messages with role and content. All of a text or content was filled in, unless it is a
            `FilledText`.
        more: arguments of the template.

    Raises:
        InputError: the template rejects the chat.
    """
    is_text = isinstance(prompt, str)
    if is_text:
        text = _cut(tokenizer, prompt)
    else:
        chat = [{**turn, "content": _cut(tokenizer, turn["content"])} for turn in prompt]
        text = apply_template(tokenizer, chat, **more)
    return [
        token
        for place, piece in enumerate(text.split(_CUT))
        for token in tokenizer(piece, add_special_tokens=is_text and place == 0)["input_ids"]
    ]


def _cut(tokenizer: Any, text: str) -> str:
    """The text, cut after the first character of each special token that was filled in."""
    tokens = _special_tokens(tokenizer)
    parts = enumerate(getattr(text, "parts", ("", text)))
    return "".join(tokens.sub(rf"\g<0>{_CUT}", part) if number % 2 else part for number, part in parts)


@functools.lru_cache(8)
def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Finds the first character of each special token; those of a turn may not be declared as special."""
    template = str(tokenizer.chat_template)
    added = tokenizer.added_tokens_decoder.values()
    texts = {token.content for token in added if token.special or (token.content.strip() and token.content in template)}
    either = "|".join(map(re.escape, texts))
    return re.compile(f"(?=(?!)|{either}).", re.DOTALL)
