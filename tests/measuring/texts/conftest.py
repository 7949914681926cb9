from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from instruct.base.models import ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.texts.predictions import HeldOut

TEXTS = ["Ünïcödé, first of all.", "x", " = Heading = ", "A longer text with words to learn, " * 4, "Dæta"]


@pytest.fixture
def model(tiny_model: Path) -> ForwardModel:
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


@pytest.fixture
def held_out() -> Callable[..., HeldOut]:
    """`held_out(texts, prefixes)`: whole texts, or texts that go on with a prefix."""

    def make(texts: list[str] = TEXTS, prefixes: list[str] | None = None) -> HeldOut:
        ids = [str(place) for place in range(len(texts))]
        return HeldOut(ids, prefixes or [""] * len(texts), texts, prefixes is None)

    return make
