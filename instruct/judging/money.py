"""What a judge costs: its price, an estimate before the first request, and the budget."""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from instruct.base.cards import packaged_folder, read_yaml, validated
from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.engines.base import Request

OPENAI = "api.openai.com"
TABLE = Path("judges") / "prices.yaml"


class _Entry(BaseModel):
    """An entry of the price table, in US dollars per million tokens; `model` may be a pattern with `*`."""

    model_config = ConfigDict(extra="forbid")

    model: str
    endpoint: str = OPENAI
    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prices: list[_Entry]


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens of the prompt and of the completion."""

    input: float
    output: float

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of these tokens, in US dollars."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


def price_of(model: str, endpoint: str | None) -> Price | None:
    """The price of a model at an endpoint: the first match in ./judges/prices.yaml, then in the installed table.

    None if nothing matches, or if the model runs in this process (no endpoint). An entry's endpoint is a host with or
    without a port; without one it matches all of that host's ports.

    Raises:
        InputError: an invalid table.
    """
    if endpoint is None:
        return None
    host, port = _host_and_port(endpoint)
    tables = {path.resolve(): path for path in (TABLE, packaged_folder("judges") / TABLE.name) if path.is_file()}
    for path in tables.values():
        for entry in validated(_Table, read_yaml(path), path).prices:
            entry_host, entry_port = _host_and_port(entry.endpoint)
            if entry_host == host and entry_port in (None, port) and fnmatch.fnmatchcase(model, entry.model):
                return Price(entry.input, entry.output)
    return None


def is_free(endpoint: str | None) -> bool:
    """Whether an endpoint without a price is the user's own: this process, or a loopback or private address.

    A host name other than localhost is not, since looking it up would be a request.
    """
    if endpoint is None:
        return True
    host, _ = _host_and_port(endpoint)
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_private or address.is_link_local


def _host_and_port(endpoint: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:  # not a URL
        return "", None


@dataclass(frozen=True)
class JudgingEstimate:
    """What the requests that are not stored yet will take.

    `prompt_tokens` is the likely number, `completion_tokens` the maximum. `usd` follows from both; None if the price is
    unknown.
    """

    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None

    def words(self) -> str:
        """The estimate in one line."""
        cost = "at an unknown price" if self.usd is None else f"at most about ${self.usd:.2f}"
        if self.usd is not None and self.usd < 0.01:
            cost = "less than $0.01"
        return (
            f"estimate: {self.requests:,} requests, about {self.prompt_tokens:,} prompt tokens and at most "
            f"{self.completion_tokens:,} completion tokens, {cost}"
        )


def estimate_of(prompt_tokens: Sequence[int], max_tokens: int, price: Price | None) -> JudgingEstimate:
    """What prompts of so many tokens will take, with replies of up to `max_tokens`."""
    prompts, replies = sum(prompt_tokens), len(prompt_tokens) * max_tokens
    return JudgingEstimate(len(prompt_tokens), prompts, replies, price.usd(prompts, replies) if price else None)


def gate(estimate: JudgingEstimate, price: Price | None, budget_usd: float | None, yes: bool, asked: str) -> None:
    """Print the estimate of a judge that costs money, and refuse to ask it without a budget or `yes`.

    Args:
        asked: the model and its endpoint, in words.

    Raises:
        InputError: neither a budget nor `yes`; a budget without a known price.
    """
    unknown = None if price else f"the price of {asked} is unknown; add it to ./{TABLE}"
    if unknown and budget_usd is not None:
        raise InputError(f"`budget_usd`: {unknown}, or use `yes` alone")
    say(estimate.words())
    if unknown and not yes:
        raise InputError(f"{unknown} and set `budget_usd`, or use `yes`")
    if not yes and budget_usd is None:
        raise InputError("this judge costs money; set `budget_usd`, a limit for the whole run in dollars, or use `yes`")


class Budget:
    """A limit in US dollars that what is spent and what is in flight together never exceed; None: no limit."""

    def __init__(self, spent: float, limit: float | None) -> None:
        self.spent, self.limit = spent, limit
        self._reserved: dict[str, float] = {}  # the most that each request in flight can cost

    def reserve(self, request: Request, attempts: int = 1) -> bool:
        """Whether a request may be sent so many times in all; if so, the most that they can cost is reserved.

        An unusable reply may be charged as well: what it takes to ask for another is reserved then, not before.
        """
        others = sum(usd for key, usd in self._reserved.items() if key != request.key)
        if self.limit is not None and self.spent + others + attempts * request.usd > self.limit:
            return False
        self._reserved[request.key] = attempts * request.usd
        return True

    def release(self) -> list[str]:
        """Give back what is reserved; returns the keys of the requests."""
        keys = [*self._reserved]
        self._reserved.clear()
        return keys

    def settle(self, key: str, usd: float) -> None:
        """Replace what was reserved for a request by what it cost."""
        self.spent += usd
        self._reserved.pop(key, None)
