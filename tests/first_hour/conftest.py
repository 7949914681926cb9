"""A new user's first hour: the command as a process in an empty folder, its output read as a user reads it.

The first command of each test is a process of its own; those after it begin with the libraries loaded.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest

# What a user must never read.
WRONG = [
    r"Traceback",
    r"\b\w+Warning:",
    r"\b1 (pairs|prompts|rows|verdicts|requests|comparisons|labels|answers|tokens)\b",
    r"\bnan\b",
    r"\bNone\b",
    r"\binf\b",
    r"- \(-\)",
    r"not at hand",
    r"equally good",
]


def check_words(text: str) -> None:
    """No wrong word is in a text that a user reads."""
    for wrong in WRONG:
        if found := re.search(wrong, text):
            pytest.fail(f"a user reads {text[max(0, found.start() - 100) : found.end() + 100]!r}")


CARD = """\
name: strict_editor
description: our own judge, on our own server
model: our/model
protocol: pairwise
prompt: prompt.txt
prompt_form: chat
decoding: {temperature: 0.0, max_tokens: 20}
verdict: {words: {first: Response 1, second: Response 2, tie: Tie}}
order_policy: both
leading_policy: strict
context_length: 4096
licence: for our own use
"""
PROMPT = """\
Which response is better? End with "So, the final decision is Response 1", "... Response 2" or "... Tie".

{instruction}

Response 1: {first}

Response 2: {second}
"""


class User:
    """Someone in an empty folder who types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if key != "OPENAI_API_KEY"}
        self.environment |= {"COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        self.begun = False

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "instruct", *map(str, arguments)]

    def types(self, *arguments: object, code: int = 0) -> str:
        """Run `instruct ...`; what it prints, without a wrong word in it."""
        if not self.begun:
            self.begun = True
            return self.runs(self.command(*arguments), code)
        return self.read(forked.run(self.command(*arguments), self.folder, self.environment, timeout=300), code)

    def runs(self, command: list[str], code: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, timeout=300, capture_output=True, text=True
        )
        return self.read(done, code)

    def read(self, done: subprocess.CompletedProcess[str], code: int) -> str:
        assert done.returncode == code, done.stdout[-2000:] + done.stderr[-3000:]
        check_words(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def writes(self, name: str, content: Any) -> Path:
        """A file: text as it is, rows as JSON lines (.jsonl) or JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
        return path

    def reads(self, name: str) -> str:
        """A file of the run, checked for wrong words."""
        text = (self.folder / name).read_text(encoding="utf-8")
        check_words(re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL))
        return text


@pytest.fixture
def user(tmp_path) -> User:
    folder = tmp_path / "project"
    folder.mkdir()
    return User(folder)


@pytest.fixture
def says() -> Callable[..., None]:
    """`says(text, *sentences)`: all of them are in the text; the message shows what was there instead."""

    def check(text: str, *sentences: str) -> None:
        for sentence in sentences:
            assert sentence in text, f"{sentence!r} is not in:\n{text[-6000:]}"

    return check


@pytest.fixture
def strict_editor(user) -> str:
    """The name of a judge of the user's own."""
    user.writes("judges/strict_editor/judge.yaml", CARD)
    user.writes("judges/strict_editor/prompt.txt", PROMPT)
    return "strict_editor"
