"""What a judge costs: its price, the most that a request can cost, and an estimate before the first one."""

from __future__ import annotations

import fnmatch
import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from instruct.cards import packaged_folder, read_yaml, validated
from instruct.engines.base import Prompt
from instruct.engines.prompt_size import likely_tokens
from instruct.errors import InputError

OPENAI = "api.openai.com"
TABLE = Path("judges") / "prices.yaml"
# What an estimate's minutes assume of a request; a hundred tokens of an answer take a large model about as long.
SECONDS_A_REQUEST = 5.0


class _Entry(BaseModel):
    """A line of the price table. `model`: a name or a pattern with `*`; the dollars are per million tokens."""

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
        """What so many tokens cost, in US dollars."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6

    def paid(self, prompt_tokens: int | None, completion_tokens: int | None, most: float) -> float:
        """What a reply cost by the server's count; `most`, its reservation, where the server counted nothing usable."""
        if prompt_tokens is None or completion_tokens is None or prompt_tokens < 0 or completion_tokens < 0:
            return most
        return self.usd(prompt_tokens, completion_tokens)


def price_of(model: str, endpoint: str | None) -> Price | None:
    """The price of a model at an endpoint: of the entries in ./judges/prices.yaml, then of the installed ones, the
    first that fits. None where there is none, and for an engine in this process (no endpoint).

    An entry's endpoint is a host, with or without a port; without one it stands for all of that host's ports.

    Raises:
        InputError: a table that is not as it should be.
    """
    if endpoint is None:
        return None
    host, port = _host_and_port(endpoint)
    tables = {path.resolve(): path for path in (TABLE, packaged_folder("judges") / TABLE.name) if path.is_file()}
    for path in tables.values():
        for entry in validated(_Table, read_yaml(path), path).prices:
            its_host, its_port = _host_and_port(entry.endpoint)
            if its_host == host and its_port in (None, port) and fnmatch.fnmatchcase(model, entry.model):
                return Price(entry.input, entry.output)
    return None


def is_free(endpoint: str | None) -> bool:
    """Whether an endpoint without a price is one's own: this process, or a loopback or private address.

    A name that would have to be looked up is not, whatever it stands for.
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
    except ValueError:  # no URL that anything could be asked at
        return "", None


@dataclass(frozen=True)
class Estimate:
    """What the requests that are not stored yet will take.

    `prompt_tokens` are likely, `completion_tokens` the most that may be written. `usd` follows from both and is None
    where the price is unknown. `minutes` come from the assumed seconds of a request.
    """

    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None
    minutes: float
    concurrency: int

    def words(self) -> str:
        """The estimate, in a line."""
        cost = "at an unknown price" if self.usd is None else f"at most about ${self.usd:.2f}"
        if self.usd is not None and self.usd < 0.01:
            cost = "less than $0.01"
        return (
            f"estimate: {self.requests:,} requests, about {self.prompt_tokens:,} prompt tokens and at most "
            f"{self.completion_tokens:,} to answer, {cost}, {max(1, math.ceil(self.minutes))} min "
            f"({self.concurrency} at once, {SECONDS_A_REQUEST:g} s a request assumed)"
        )


def estimate_of(
    prompts: Iterable[Prompt], max_tokens: int, price: Price | None, concurrency: int, also: Any = None
) -> Estimate:
    """What asking these prompts will take, each answered with up to `max_tokens`."""
    likely = [likely_tokens(prompt, also) for prompt in prompts]
    completion_tokens = len(likely) * max_tokens
    return Estimate(
        requests=len(likely),
        prompt_tokens=sum(likely),
        completion_tokens=completion_tokens,
        usd=price.usd(sum(likely), completion_tokens) if price else None,
        minutes=math.ceil(len(likely) / concurrency) * SECONDS_A_REQUEST / 60,
        concurrency=concurrency,
    )


def gate(estimate: Estimate, price: Price | None, budget_usd: float | None, yes: bool) -> None:
    """Let a paid judge be asked only by someone who has seen what it costs or has set a limit.

    Not for an engine that is free. Where nothing is left to ask, there is nothing to refuse.

    Raises:
        InputError: neither --budget-usd nor --yes, after the estimate is printed; or a budget without a price.
    """
    check_budget(budget_usd)
    if not estimate.requests:
        return
    if price is None and budget_usd is not None:
        raise InputError(
            f"--budget-usd: what this judge costs at this endpoint is unknown; add it to ./{TABLE}, or give --yes alone"
        )
    print(estimate.words())
    if yes or budget_usd is not None:
        return
    if price is None:
        raise InputError(
            f"what this judge costs at this endpoint is unknown; add it to ./{TABLE} with --budget-usd, or give --yes"
        )
    raise InputError("this judge costs money; give --budget-usd DOLLARS as a limit for the whole run, or --yes")


def check_budget(budget_usd: float | None) -> None:
    """Refuse a limit that is none.

    Raises:
        InputError: not above 0, or no number.
    """
    if budget_usd is not None and not 0 < budget_usd < math.inf:
        raise InputError(f"--budget-usd {budget_usd:g}: is no limit; give dollars above 0")
