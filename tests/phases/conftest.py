"""Runs of the tests of phases."""

from __future__ import annotations

import pytest

from instruct.config import make_config
from instruct.run.directory import RunDirectory


@pytest.fixture
def trained(tiny_experiment, make_adapter) -> RunDirectory:
    """A run with an adapter that was not trained here, and the base."""
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    make_adapter(tiny_experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    return run
