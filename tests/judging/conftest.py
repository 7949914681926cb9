from __future__ import annotations

from collections.abc import Callable

import pytest

from instruct.judging.presentations import Answers


@pytest.fixture(scope="session")
def make_answers() -> Callable[[str, int, str], Answers]:
    def make(name: str, count: int, text: str) -> Answers:
        rows = [
            {"dataset": "test", "instruction": f"Question {index}?", "output": f"{text} {index}", "generator": name}
            for index in range(count)
        ]
        return Answers(name, rows)

    return make


@pytest.fixture
def pair(make_answers) -> tuple[Answers, Answers]:
    return make_answers("ours", 20, "A good answer to"), make_answers("theirs", 20, "Another answer to")


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """A server's faults are waited out in milliseconds."""
