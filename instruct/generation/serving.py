"""What every engine is given and gives back, and what makes their answers alike: the same stops, limits and seeds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from instruct.generation.options import GenerationConfig


@dataclass(frozen=True)
class Completion:
    """`tokens` counts what was generated without the end token; `finish_reason` "length" means that it was cut."""

    text: str
    tokens: int
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class Serving:
    """What an engine loads. `max_model_len` bounds prompt and answer together, in tokens."""

    model: str
    revision: str | None
    tokenizer: Any
    adapters: tuple[Path, ...]
    max_model_len: int
    stop_ids: tuple[int, ...]


class Engine(Protocol):
    """`name` says engine, version and device: answers to the bit can be expected from the same name only."""

    name: str

    def complete(
        self, prompts_token_ids: list[list[int]], adapter: Path | None, config: GenerationConfig, first_index: int = 0
    ) -> list[Completion]:
        """Answers in the order of the prompts. `first_index`: the first prompt's number, from which seeds are made."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def completion_of(serving: Serving, ids: list[int]) -> Completion:
    """The answer in generated ids, of which those from the first stop token on are none of it."""
    end = next((i for i, token in enumerate(ids) if token in serving.stop_ids), None)
    text = serving.tokenizer.decode(ids[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return Completion(text.strip(), len(ids[:end]), "length" if end is None else "stop")


def answer_limits(serving: Serving, prompts: list[list[int]], config: GenerationConfig) -> list[int]:
    return [min(config.max_new_tokens, serving.max_model_len - len(ids)) for ids in prompts]


def prompt_seed(seed: int, index: int) -> int:
    """A prompt's own seed, so that its sample does not depend on what it is batched with."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:4], "big") >> 1
