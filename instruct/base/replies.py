"""What a model replies, as engines return it and stores keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    `label_logprobs` maps each label's text to its natural log-probability as the first token. `choice` is the server's
    whole choice in OpenAI's form, if it was to be kept; `model` is the model that the server says answered.
    `reasoning` is what the model thought before its text, None if it did not or the text has it; `tool_calls` are those
    of a reply, in OpenAI's form. `reasoning_tokens` are those of `completion_tokens` before the text; None if unknown.
    `changes` says how the request differed from what was meant to be sent, because the server refuses that.
    `score` is that of the prompt's tokens, if the request asked for it: the sum of their natural log-probabilities, and
    whether each is the most probable one.
    """

    text: str
    label_logprobs: dict[str, float] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    choice: dict[str, Any] | None = None
    model: str | None = None
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    reasoning_tokens: int | None = None
    score: tuple[float, bool] | None = None
    changes: str | None = None

    @property
    def cut_in_thinking(self) -> bool:
        """Whether the limit was reached before the text began."""
        return self.reasoning is not None and not self.text.strip() and self.finish_reason == "length"

    def record(self) -> dict[str, Any]:
        """The reply as JSON data; thinking and calls, which earlier versions did not have, only if there are any."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "token_logprobs"
            and (value is not None or name not in ("reasoning", "tool_calls", "reasoning_tokens", "score", "changes"))
        }


@dataclass(frozen=True)
class ScoredCompletion(Completion):
    """A completion with a score, as an engine gives it: also the log-probability of each token, which is not kept."""

    token_logprobs: tuple[float, ...] = ()


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
