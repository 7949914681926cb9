"""The types that pass between whoever asks a model and the engine that answers."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from instruct.base.errors import one_line
from instruct.base.models import Dtype
from instruct.base.replies import Reply

Message = dict[str, str]
Prompt = str | list[Message] | tuple[int, ...]  # text, a chat, or token ids


def server_address(url: str) -> str:
    """A server's base URL as it is printed and stored.

    Raises:
        ValueError: not an http(s) URL, or one that may contain a secret; the message does not repeat it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its message would repeat the address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http(s) URL, such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError("leave user, password and query out; a key belongs in OPENAI_API_KEY")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether a server is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_of(url: str) -> str | None:
    """The host and port of the proxy, from the environment, through which a server is asked; None: none is."""
    import urllib.request

    server = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(server.scheme) or proxies.get("all")
    if not proxy or is_loopback(url) or urllib.request.proxy_bypass(server.hostname or ""):
        return None
    return one_line(proxy.rpartition("//")[2].rpartition("@")[2], 80)  # without user and password


# A chat's framing is 3 tokens a message and 3 to open the reply with OpenAI's models (openai-cookbook, "How to count
# tokens"); other models' templates write more.
_FRAMING_TOKENS = 16
# English prompts have 4.2 UTF-8 bytes per token, by SmolLM2's tokenizer and by GPT-4's own bills.
_BYTES_PER_TOKEN = 4


def most_tokens(prompt: Prompt, also: Any = None) -> int:
    """An upper bound on a prompt's tokens: a byte-level BPE has at most one per byte.

    Args:
        also: what is charged as part of the prompt: tools, a schema.
    """
    if isinstance(prompt, tuple):
        return len(prompt)
    messages = len(prompt) if isinstance(prompt, list) else 0
    return _bytes(prompt, also) + _FRAMING_TOKENS * (1 + messages)


def least_tokens(prompt: Prompt) -> int:
    """A lower bound on a prompt's or a reply's tokens, for texts whose words are apart: one for two words."""
    if isinstance(prompt, tuple):
        return len(prompt)
    texts = [prompt] if isinstance(prompt, str) else [text for message in prompt for text in message.values()]
    return sum(len(text.split()) for text in texts) // 2


def likely_tokens(prompt: Prompt, also: Any = None) -> int:
    """A prompt's likely number of tokens: within a quarter for English text, too few for most other languages."""
    return len(prompt) if isinstance(prompt, tuple) else math.ceil(_bytes(prompt, also) / _BYTES_PER_TOKEN)


def _bytes(prompt: str | list[Message], also: Any) -> int:
    texts = [prompt] if isinstance(prompt, str) else [text for message in prompt for text in message.values()]
    if also is not None:
        texts.append(json.dumps(also))
    # A lone surrogate counts as the three bytes of the replacement character that a server reads.
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}  # each with its other name
SAMPLING = ("temperature", "top_p", "max_tokens")


class Decoding(BaseModel):
    """How a reply is sampled; part of the key that a completion is stored under. A null key is not sent to a server."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    temperature: float = Field(default=0.0, ge=0)
    """The temperature of sampling; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling: the share of probability to sample from."""
    max_tokens: int = Field(default=512, ge=1)
    """The longest reply, in tokens."""
    repetition_penalty: float | None = Field(default=None, gt=0)
    """The penalty of tokens that occurred before."""
    beams: int = Field(default=1, ge=1)
    """Beam search with early stopping, in engines that have it."""
    extra: dict[str, Any] = {}
    """Further arguments of a request to a server, named as in the OpenAI API; null: the server's default."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_null(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        null = {name: None for name in SAMPLING if values.get(name, 0) is None}
        rest = {name: value for name, value in values.items() if name not in null}
        return {**rest, "extra": {**null, **(values.get("extra") or {})}} if null else values

    def most_tokens(self, context_length: int) -> int:
        """The most tokens that a server may write in reply."""
        limits = [self.extra[name] for name in LIMITS if self.extra.get(name) is not None]
        if self.extra.get("max_tokens", 0) is not None:
            limits.append(self.max_tokens)
        most = max((limit if _is_count(limit) else context_length for limit in limits), default=context_length)
        copies = [self.extra.get(name, 1) for name in ("n", "best_of")]
        return most * max([1, *filter(_is_count, copies)])


@dataclass(frozen=True)
class EngineOptions:
    """The model that an engine asks, and how.

    Attributes:
        subject: who is asked, as error messages name it: "judge autoj".
        model: a hub id, a local folder, or the name that a server knows.
        context_length: tokens of prompt and reply together; -1: as many as vLLM has memory for.
        labels: texts whose log-probabilities as the first token are wanted; each is one token.
        response_schema: a JSON schema that the reply must follow.
        chat: prompts are chats, so the chat template's end of a turn ends a reply too.
        continues: a reply continues the text of its prompt, to the letter: all its tokens are part of the text, as they
            read after the prompt.
        parts_thinking: a reply's thinking is kept apart from its text.
        keep_choice: a server's whole choice is kept, not its text alone.
        batch: the most prompts that are computed together on this machine; None: one in transformers, vLLM's default.
        adapters: LoRA adapter folders that requests may name.
        tokenizer: the model's, loaded already; None: it is loaded from the model.
        dtype: that the model computes in; None or auto: as `pick_dtype` picks it.
        quantization: "4bit" quantizes the weights as QLoRA does (bitsandbytes, NF4).
        tensor_parallel_size: GPUs that share one copy of the model (vLLM).
        gpu_memory_utilization: the share of a GPU's memory that vLLM takes; None: vLLM's default.
        allow_pickle: weights may be a pickle, which torch's safe unpickler reads.
        needs: what asking a hub model takes, for the message when it is missing.
        gpu_gb: the memory of the GPUs that it takes, in GB (10^9 bytes), if that is known.
        reward: the model scores answers instead of replying (`instruct.engines.rewards`).
        head: the file of a score head on the model's states (`instruct.engines.score_heads`); needs `reward`.
        elsewhere: the weights are loaded on other machines, whose memory counts.
        merges_system: a server that refuses system turns is sent theirs as part of the user's.
        other_model: how to ask another model, for the message when a server does not have this one.
        shorter: how to ask with shorter prompts, for the message when a server refuses one.
    """

    subject: str
    model: str
    decoding: Decoding
    context_length: int
    revision: str | None = None
    labels: tuple[str, ...] = ()
    response_schema: dict[str, Any] | None = None
    chat: bool = False
    continues: bool = False
    parts_thinking: bool = False
    keep_choice: bool = False
    batch: int | None = None
    adapters: tuple[Path, ...] = ()
    tokenizer: Any = None
    dtype: Dtype | None = None
    quantization: Literal["4bit"] | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None
    allow_pickle: bool = False
    needs: str | None = None
    gpu_gb: float | None = None
    reward: bool = False
    head: Path | None = None
    elsewhere: bool = False
    merges_system: bool = False
    other_model: str = "name a model that it serves, and check that the base URL ends where its API begins"
    shorter: str = "shorten the prompt, or lower the most tokens of a reply"


@dataclass(frozen=True)
class Request:
    """One prompt, the key its completion is stored under, and the most that one attempt can cost in US dollars.

    `adapter` is a folder in `EngineOptions.adapters`, or the name that a server knows an adapter by. `max_tokens` and
    `temperature` override the decoding's. A reply does not end before `min_tokens`. `seed` makes a sample repeatable; a
    server is sent it only if it is given. With `scored`, nothing is generated: the prompt's token ids from that place
    on are scored (`ScoredCompletion`). `may_try` tells whether there is money for so many attempts; it is asked before
    an attempt after those that the server may have charged for.
    """

    key: str
    prompt: Prompt
    usd: float = 0.0
    adapter: str | None = None
    max_tokens: int | None = None
    seed: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    scored: int | None = None
    may_try: Callable[[int], bool] | None = field(default=None, repr=False, compare=False)


class Engine(Protocol):
    """A model that can be asked.

    `identity` holds everything about the engine that could change a reply; it is part of every request's key. `notes`
    are remarks on how the replies are made, for the report.
    """

    @property
    def identity(self) -> dict[str, Any]: ...

    notes: list[str]

    def start(self) -> str:
        """Load the model if it is not loaded yet; returns engine, version and device, which replies depend on."""
        ...

    def check(self) -> None:
        """Refuse, before any work, a model that cannot be asked.

        Raises:
            InputError: what is missing, and where to get it.
        """
        ...

    def tokens(self, prompt: Prompt) -> int | None:
        """The prompt's length in the model's tokens; None if only the server knows."""
        ...

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """Replies as they arrive, in portions; requests are taken from the iterator when there is room for them."""
        ...

    def close(self) -> None:
        """Release the model."""
        ...
