from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from json_files import write_json

from instruct.config import ExperimentConfig
from instruct.judging.presentations import Answers
from instruct.run.directory import RunDirectory


@pytest.fixture(scope="session")
def make_answers() -> Callable[[str, int, str], Answers]:
    def make(name: str, count: int, text: str) -> Answers:
        rows = [
            {"dataset": "test", "instruction": f"Question {index}?", "output": f"{text} {index}", "generator": name}
            for index in range(count)
        ]
        return Answers(name, rows)

    return make


@pytest.fixture(scope="session")
def make_run(make_answers) -> Callable[..., RunDirectory]:
    """`make_run(folder, count)`: a run with the answers of two systems, `ours` and `theirs`, to `count` prompts."""

    def make(folder: Path, count: int, **more: str) -> RunDirectory:
        run = RunDirectory(folder)
        run.start(ExperimentConfig(name=folder.name).model_dump(mode="json"))
        for side in ("ours", "theirs"):
            rows = [row | more for row in make_answers(side, count, f"{side} to").rows]
            write_json(run.outputs / f"{side}.json", rows)
        return run

    return make


@pytest.fixture
def pair(make_answers) -> tuple[Answers, Answers]:
    return make_answers("ours", 20, "A good answer to"), make_answers("theirs", 20, "Another answer to")


@pytest.fixture(autouse=True)
def _a_server(short_waits, monkeypatch):
    """There is a key, and a server's faults are waited out in milliseconds."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
