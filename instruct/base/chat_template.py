"""The one place where a tokenizer's chat template is rendered: it is tried first, because a stranger may have written
it."""

from __future__ import annotations

from typing import Any

from instruct.base import trial
from instruct.base.errors import InputError, one_line

_ENDS: dict[str, bool] = {}


class TemplateError(InputError):
    """A chat template cannot be used, whatever the chat is."""


class RejectedChatError(InputError):
    """A chat template rejects a chat, for this reason."""

    def __init__(self, name: str, error: Exception, remedy: str) -> None:
        self.reason = one_line(error, 120)
        super().__init__(f"{name}: its chat template rejects a chat ({self.reason}); {remedy}")


def apply_template(tokenizer: Any, chats: Any, remedy: str = "use another model", **more: Any) -> Any:
    """A chat as text, or of a list of chats each; `more`: arguments of `apply_chat_template`.

    Raises:
        TemplateError: of the first chats that it gets, it needs more memory or time than any chat does.
        RejectedChatError: whatever else it raises.
    """
    import jinja2

    def render() -> Any:
        return tokenizer.apply_chat_template(chats, tokenize=False, **more)

    name = one_line(getattr(tokenizer, "name_or_path", ""), 200) or "the tokenizer"
    template = str(more.get("chat_template") or tokenizer.chat_template)
    if template not in _ENDS:
        _ENDS[template] = trial.ends_in_bounds(render)
    if not _ENDS[template]:
        raise TemplateError(
            f"{name}: its chat template needs more than {trial.MIB} MiB or {trial.SECONDS} s for a chat, or is nested "
            f"too deep; {remedy}"
        )
    try:
        return render()
    except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise RejectedChatError(name, error, remedy) from None
