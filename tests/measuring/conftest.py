from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(scope="session", autouse=True)
def _environment_is_not_described() -> Iterator[None]:
    """lm-eval runs pip and git after each of its evaluations, for two seconds."""
    installed = importlib.util.find_spec("lm_eval")
    with mock.patch("lm_eval.evaluator.add_env_info") if installed else contextlib.nullcontext():
        yield
