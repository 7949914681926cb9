"""Fixtures and helpers for the generation tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def answer_command():
    """`generate_answers` with the chat template as a process of its own, which can be killed."""

    def command(
        model: str, systems: dict[str, Path | None], prompts: Sequence[Any], config: Any, out: Path
    ) -> list[str]:
        code = f"""
from pathlib import Path, PosixPath
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.base.models import ModelOptions
config = GenerationConfig(**{config.model_dump()!r})
generate_answers(ModelOptions(name={model!r}), {systems!r}, {prompts!r}, "chat", config, {out!r})
"""
        return [sys.executable, "-c", code]

    return command
