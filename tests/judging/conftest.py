from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instruct.judging.judge import Answers


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    """A server's faults are waited out in milliseconds."""
    monkeypatch.setattr("instruct.judging.engines.server.FIRST_WAIT", 0.002)


@contextlib.contextmanager
def _fake_servers(folder: Path) -> Iterator[Callable[..., tuple[str, Callable[[], list[dict]]]]]:
    started = []

    def start(faults: dict[str, str | list[str]] | None = None, delay: float = 0.01):
        index = len(started)
        port_file, log = folder / f"port{index}", folder / f"requests{index}.jsonl"
        command = [sys.executable, str(Path(__file__).with_name("fake_server.py")), str(port_file), str(log)]
        started.append(subprocess.Popen([*command, json.dumps(faults or {}), str(delay)]))
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

        def requests() -> list[dict]:
            return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

        return f"http://127.0.0.1:{port_file.read_text()}/v1", requests

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def fake_server(tmp_path):
    """Start the fake judge: `start(faults, delay)` gives its base URL and a function that reads its log."""
    with _fake_servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_fake_server(tmp_path_factory):
    """`fake_server`, once for a module."""
    with _fake_servers(tmp_path_factory.mktemp("server")) as start:
        yield start


@pytest.fixture
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
