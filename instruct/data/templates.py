"""How a chat becomes text. Every chat that is trained on, previewed or answered is rendered here, and nowhere else."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from instruct.base.cards import nearest
from instruct.base.chat_template import RejectedChatError, TemplateError, apply_template
from instruct.base.errors import InputError, one_line
from instruct.base.parsing import RepeatedKeyError, parse_json

# What other tools call an answer's thinking. Here it is `reasoning_content`, as servers return it.
REASONING = ("reasoning_content", "reasoning", "thinking")
# The prompt may have opened a thought that the text only closes, at the end of a line: elsewhere, it is spoken of.
_THOUGHT = re.compile(
    r"\s*(?:<think>(?P<whole>.*?)</think>|(?P<closed>(?:(?!<think>).)*?)</think>[ \t]*\n)(?P<text>.*)", re.DOTALL
)
_PROBE = "probe"
GEMMA_CHANNEL = "<|channel>"
# What templates call the switch that turns thinking on and off.
MODES = ("enable_thinking", "thinking")


@dataclass(frozen=True)
class Rendering:
    """What a chat's text depends on besides the chat and the model's tokenizer.

    Attributes:
        chat_template: instead of the tokenizer's own: a file, a model's folder or hub id, or the name of a template in
            TRL.
        arguments: of the template, such as `{"enable_thinking": False}`.
        empty_thinking: train an answer without thinking after a prompt that asks for thinking.
        day: the date that a template writes; None: today.
        thinks: what templates are told that can turn thinking on and off; None: their own default.
        remedy: what to do if the template cannot be used, for error messages.
    """

    chat_template: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    empty_thinking: bool = False
    day: date | None = None
    thinks: bool | None = None
    remedy: str = "set data.chat_template to another one, such as qwen3, or data.template to alpaca"

    @property
    def is_own(self) -> bool:
        """Whether chats are rendered otherwise than the tokenizer does by itself, whatever the day."""
        return self.chat_template is not None or bool(self.arguments) or self.thinks is not None

    def identity(self) -> dict[str, Any]:
        """What a text depends on, for the inputs of a step: empty if that is the tokenizer alone, whatever the day.

        Raises:
            InputError: there is no such template.
        """
        inputs: dict[str, Any] = {"arguments": dict(self.arguments)} if self.arguments else {}
        if self.thinks is not None:
            inputs["thinks"] = self.thinks
        if self.chat_template is not None:
            inputs["sha256"] = hashlib.sha256(template_text(self.chat_template).encode()).hexdigest()
        return inputs

    def prepare(self, tokenizer: Any) -> None:
        """Make template and arguments the tokenizer's own, so that they are saved and served with it.

        The arguments become defaults, which a call of the template may override.

        Raises:
            InputError: there is no such template, or it does not read an argument.
        """
        if self.chat_template is None and not self.arguments:
            return
        text = template_text(self.chat_template) if self.chat_template is not None else tokenizer.chat_template
        if isinstance(text, dict):  # variants by name
            text = text["default"]
        if text is None:
            raise InputError("data.chat_template_kwargs: the tokenizer has no chat template; set data.chat_template")
        for name in self.arguments:
            if not re.search(rf"\b{name}\b", text):
                raise InputError(
                    f"data.chat_template_kwargs.{name}: the chat template does not read it; remove or rename it"
                )
        defaults = "".join(
            f"{{%- if {name} is not defined %}}{{%- set {name} = {json.dumps(value, ensure_ascii=False)} %}}"
            "{%- endif %}"
            for name, value in self.arguments.items()
        )
        tokenizer.chat_template = defaults + text.removeprefix(defaults)

    def render(self, tokenizer: Any, messages: Sequence[Any], *, prompt: bool = False, **more: Any) -> str:
        """The chat as text; a `prompt` ends where the answer starts.

        The text of a system turn that the template rejects begins the first user turn.

        Args:
            tokenizer: or a processor; see `prepare`.
            more: further arguments of `apply_chat_template`, such as `tools`; they win over `arguments`.

        Raises:
            InputError: there is no chat template, or it rejects the chat.
        """
        template = tokenizer.chat_template
        if template is None:
            raise TemplateError(f"the tokenizer has no chat template; {self.remedy}")
        if self.day is not None and writes_the_date(tokenizer):
            more = {"strftime_now": self.day.strftime, **more}
        modes = {} if self.thinks is None else dict.fromkeys(MODES, self.thinks)
        more = {**modes, **more, "add_generation_prompt": prompt}
        in_parts = _takes_parts(tokenizer, template, self.remedy)
        own = [_as_read(message, in_parts, template) for message in messages]
        try:
            return str(apply_template(tokenizer, own, self.remedy, **more))
        except RejectedChatError as error:
            # A few templates write a call's arguments as they are, which then have to be text.
            others = [[_with_arguments(message, json.dumps) for message in own]]
            if [message["role"] for message in messages[:2]] == ["system", "user"]:
                system, user = (message["content"] for message in messages[:2])
                others.append([{**own[1], "content": f"{system}\n\n{user}"}, *own[2:]])
            for other in others:
                if other != own:
                    with contextlib.suppress(RejectedChatError):
                        return str(apply_template(tokenizer, other, self.remedy, **more))
            raise InputError(
                f"the tokenizer's chat template rejects this chat ({error.reason}); fix the row or {self.remedy}"
            ) from None


def takes_system(tokenizer: Any) -> bool:
    """Whether a tokenizer's chat template has a system role; the templates of Gemma 1 and 2 reject it."""
    chat = [{"role": role, "content": _PROBE} for role in ("system", "user")]
    try:
        return bool(apply_template(tokenizer, chat))
    except RejectedChatError:
        return False


_parts: dict[str, bool] = {}


def _takes_parts(tokenizer: Any, template: str | Mapping[str, str], remedy: str) -> bool:
    """Whether a template reads a message's content as a list of parts, not as text."""
    if not isinstance(template, str):
        return False
    if template not in _parts:
        chats = [[{"role": "user", "content": content}] for content in (_PROBE, [{"type": "text", "text": _PROBE}])]
        rendered = []
        for chat in chats:
            try:
                rendered.append(_PROBE in apply_template(tokenizer, chat, remedy, chat_template=template))
            except RejectedChatError:
                rendered.append(False)
        _parts[template] = rendered == [False, True]
    return _parts[template]


def _as_read(message: Mapping[str, Any], in_parts: bool, template: str | Mapping[str, str]) -> dict[str, Any]:
    """The message as the template reads it: its content as text or parts, its thinking under the template's name."""
    own = {key: value for key, value in message.items() if key not in REASONING}
    thinking, text = thinking_of(message, template)
    if thinking:
        own[_key_of(str(template)) or REASONING[0]] = thinking
    own["content"] = [{"type": "text", "text": text}] if in_parts else text
    return _with_arguments(own, lambda arguments: arguments)


def thinking_of(message: Mapping[str, Any], template: str | Mapping[str, str]) -> tuple[str, str]:
    """An assistant turn's thinking, and its text without it.

    The thinking stands in `reasoning_content`, or before the text, between `<think>` and `</think>`, of which the
    prompt may have the first. A template that knows no thinking writes such a text as it is.

    Raises:
        InputError: it stands in both places, and differs.
    """
    thinking, text, written = str(message.get(REASONING[0]) or ""), message["content"], str(template)
    # One that drops all thinking tells it from text, too.
    knows_thinking = _key_of(written) or "'</think>' in content" in written or GEMMA_CHANNEL in written
    inside = _THOUGHT.fullmatch(text) if message.get("role") == "assistant" and knows_thinking else None
    if inside is None:
        return thinking, text
    own = (inside["whole"] or inside["closed"] or "").strip("\n")
    if thinking.strip() and own.strip() not in ("", thinking.strip()):
        raise InputError("the thinking of an answer in reasoning_content differs from that in its text; remove one")
    return thinking or own, inside["text"].lstrip("\n")


@functools.lru_cache
def _key_of(template: str) -> str | None:
    """The key under which a template reads thinking, if it does."""
    return next((key for key in REASONING if re.search(rf"(\.|['\"]){key}\b", template)), None)


def _with_arguments(message: dict[str, Any], write: Callable[[Any], Any]) -> dict[str, Any]:
    """The message with the arguments of its tool calls as `write` returns them; JSON text is parsed."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        own = call.get("function") if isinstance(call.get("function"), dict) else call
        arguments = own.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = parse_json(arguments)
            except RepeatedKeyError as error:
                raise InputError(f"the arguments of a tool call: {error}") from None
            except ValueError:
                calls.append(call)
                continue
        own = {**own, "arguments": write(arguments)} if "arguments" in own else own
        calls.append({**call, "function": own} if isinstance(call.get("function"), dict) else own)
    return {**message, "tool_calls": calls}


DEFAULT = Rendering()
"""The tokenizer's own template, without arguments."""


def writes_the_date(tokenizer: Any) -> bool:
    """Whether a tokenizer's chat template writes today's date."""
    return "strftime_now" in str(tokenizer.chat_template)


def template_text(name: str) -> str:
    """The text of a chat template.

    Args:
        name: a file; the folder or hub id of a model; or the name of one of TRL's templates, such as `qwen3`.

    Raises:
        InputError: there is none.
    """
    spec = importlib.util.find_spec("trl")  # whose templates are found without importing it
    folders = (spec and spec.submodule_search_locations) or ()
    shipped = {file.stem: file for folder in folders for file in sorted(Path(folder).glob("chat_templates/*.jinja"))}
    path = Path(name).expanduser()
    if path.is_file():
        return path.read_text(encoding="utf-8")
    if (path / "chat_template.jinja").is_file():
        return (path / "chat_template.jinja").read_text(encoding="utf-8")
    if name in shipped:
        return shipped[name].read_text(encoding="utf-8")
    if "/" in name:
        from transformers import AutoTokenizer

        try:
            text = AutoTokenizer.from_pretrained(name, trust_remote_code=False).get_chat_template()
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"data.chat_template: {name} has no chat template ({one_line(error, 120)})") from None
        return str(text)
    raise InputError(
        f"data.chat_template: {one_line(name, 80)} is no file, model or template of TRL{nearest(name, shipped)}; give "
        "one of them"
    )
