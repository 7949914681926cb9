"""What passes between who asks a model and the engine that answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, str]
Prompt = str | list[Message]


@dataclass(frozen=True)
class Request:
    """One prompt to ask, the key that its completion is stored under, and the most that it can cost in US dollars."""

    key: str
    prompt: Prompt
    usd: float = 0.0


@dataclass(frozen=True)
class Completion:
    """A model's reply. `label_logprobs`: a label's text to its log-probability (natural) as the first token.

    `choice` is the server's whole choice in OpenAI's form, kept where the card's reader wants it; `model` is what the
    server says answered.
    """

    text: str
    label_logprobs: dict[str, float] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    choice: dict[str, Any] | None = None
    model: str | None = None


@dataclass(frozen=True)
class Failure:
    """Why there is no reply; `usd`: what it cost all the same."""

    reason: str
    usd: float = 0.0


Reply = Completion | Failure


class Engine(Protocol):
    """Who is asked.

    `identity` is what of the engine could change a reply: part of every request's key. `notes` is what a report must
    say of how the replies were made. `batch`: so many requests are asked together and always the same ones, for
    replies that depend on their neighbours (near-tied log-probabilities); None: a stream.
    """

    identity: dict[str, Any]
    notes: list[str]
    batch: int | None

    def tokens(self, prompt: Prompt) -> int | None:
        """The prompt's length in the judge's tokens; None where only the server knows."""
        ...

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """Replies, as they arrive, in portions that belong together; requests are taken as there is room for them."""
        ...

    def close(self) -> None: ...
