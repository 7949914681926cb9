"""What passes between the judging loop and who is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from instruct.judging.prompts import JudgePrompt
from instruct.judging.store import Completion


@dataclass(frozen=True)
class Request:
    """One prompt to ask, the key that its completion is stored under, and the most that it can cost in US dollars."""

    key: str
    prompt: JudgePrompt
    usd: float = 0.0


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

    def tokens(self, prompt: JudgePrompt) -> int | None:
        """The prompt's length in the judge's tokens; None where only the server knows."""
        ...

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """Replies, as they arrive, in portions that belong together; requests are taken as there is room for them."""
        ...

    def close(self) -> None: ...
