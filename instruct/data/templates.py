"""How a chat becomes text. Every chat that is trained on, previewed or answered is rendered here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instruct.base.errors import InputError, one_line


@dataclass(frozen=True)
class Rendering:
    """What a chat's text depends on besides the chat and the tokenizer.

    Attributes:
        chat_template: the template's text, instead of the tokenizer's own.
        arguments: of the template, such as `{"enable_thinking": False}`.
        remedy: what to do if the template cannot be used, for error messages.
    """

    chat_template: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = "set template: alpaca"

    def render(self, tokenizer: Any, messages: Sequence[Any], *, prompt: bool = False, **more: Any) -> str:
        """The chat as text; a `prompt` ends where the answer starts.

        Args:
            tokenizer: or a processor.
            more: further arguments of `apply_chat_template`, such as `tools`; they win over `arguments`.

        Raises:
            InputError: there is no chat template, or it rejects the chat.
        """
        import jinja2

        template = self.chat_template or tokenizer.chat_template
        if template is None:
            raise InputError(f"the tokenizer has no chat template; {self.remedy}")
        more = {"chat_template": self.chat_template, **self.arguments, **more}
        try:
            text = tokenizer.apply_chat_template(list(messages), add_generation_prompt=prompt, tokenize=False, **more)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise InputError(
                f"the tokenizer's chat template rejects this chat ({one_line(error, 120)}); "
                f"fix the row or {self.remedy}"
            ) from None
        return str(text)


DEFAULT = Rendering()
"""The tokenizer's own template, without arguments."""
