"""What the tests of engines share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.engines.base import Decoding, EngineOptions, Request

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use


def chat(instruction: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": instruction}, {"role": "assistant", "content": answer}]


def options(model: Path, **more: Any) -> EngineOptions:
    return EngineOptions("judge scorer", str(model), Decoding(), 512, reward=True, dtype="float32", **more)


def replies_of(engine: Any, prompts: list[Any]) -> list[Any]:
    """The replies in the order of the prompts; the engine is closed."""
    requests = [Request(f"key {number}", prompt) for number, prompt in enumerate(prompts)]
    found = {request.key: reply for portion in engine.complete(iter(requests)) for request, reply in portion}
    engine.close()
    return [found[request.key] for request in requests]


def score_all(engine: Any, chats: list[Any]) -> list[float]:
    return [float(reply.text) for reply in replies_of(engine, chats)]
