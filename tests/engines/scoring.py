"""What the tests of reward models and of score heads share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.engines.base import Decoding, EngineOptions, Request


def chat(instruction: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": instruction}, {"role": "assistant", "content": answer}]


def options(model: Path, **more: Any) -> EngineOptions:
    return EngineOptions("judge scorer", str(model), Decoding(), 512, reward=True, dtype="float32", **more)


def score_all(engine: Any, chats: list[Any]) -> list[float]:
    """The scores in the order of the chats."""
    requests = [Request(f"key {number}", prompt) for number, prompt in enumerate(chats)]
    found = {request.key: reply for portion in engine.complete(iter(requests)) for request, reply in portion}
    engine.close()
    return [float(found[request.key].text) for request in requests]
