"""What systems are asked: each with its weights and temperature, all with the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.base import Prompt


@dataclass(frozen=True)
class System:
    """A LoRA adapter's folder, None for the model itself, or a whole model's folder; and the temperature it samples at.

    `name` is the name of its file, and of its adapter on a server.
    """

    name: str
    source: Path | None
    temperature: float


@dataclass(frozen=True)
class Work:
    """What every system is asked, in order, and how.

    Attributes:
        what: `answers` or `continuations`, for messages.
        parts: what a prompt and a reply to it are called in messages.
        places: where each prompt stands, for messages.
        seeds: of each prompt's sample.
        token_ids: the prompts' tokens, by the tokenizer.
        server_prompts: the prompts as a server is sent them.
        identities: everything about each prompt that could change a reply, for JSON.
        identity: everything about all of them that could.
        decoding: how is decoded, besides the temperature; it could change a reply, too.
        max_tokens: of a reply; near the context's end, a reply without `min_tokens` may be shorter.
        thinking_budget: the most tokens of thinking before a reply, besides its `max_tokens`; None: both share them.
        min_tokens: before which a reply does not end.
        top_p: the share of probability to sample from.
        temperatures: of each prompt; None: the system's. Empty: all have the system's.
        to_the_letter: replies continue the text of their prompts, and their white space is kept.
        rendering: how chats become text.
    """

    what: str
    parts: tuple[str, str]
    places: Sequence[str]
    seeds: Sequence[int]
    token_ids: Callable[[Any], Iterable[list[int]]]
    server_prompts: Callable[[], Sequence[Prompt]]
    identities: Sequence[Any]
    identity: list[Any]
    decoding: dict[str, Any]
    max_tokens: int
    thinking_budget: int | None = None
    min_tokens: int = 0
    top_p: float = 1.0
    temperatures: Sequence[float | None] = ()
    to_the_letter: bool = False
    rendering: Rendering = DEFAULT

    def temperature(self, place: int, system: float) -> float:
        """What the prompt at a place is sampled at; `system`: the system's temperature."""
        own = self.temperatures[place] if self.temperatures else None
        return system if own is None else own
