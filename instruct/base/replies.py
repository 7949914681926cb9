"""What a model replies, as engines return it and stores keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    `label_logprobs` maps each label's text to its natural log-probability as the first token. `choice` is the server's
    whole choice in OpenAI's form, if it was to be kept; `model` is the model that the server says answered.
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
    """Why there is no reply, and what the attempts cost in US dollars.

    `permanent`: the request was refused, so that it would fail again. `tried`: it was given all the attempts that a
    request has; otherwise it failed because the whole work ended, or no model was asked.
    """

    reason: str
    usd: float = 0.0
    permanent: bool = False
    tried: bool = True


Reply = Completion | Failure
