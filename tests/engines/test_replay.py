"""Earlier replies in place of a judge."""

from __future__ import annotations

import hashlib
import json

import pytest

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Request
from instruct.engines.replay import ReplayEngine, prompt_sha256

MISSING = Failure("not in the replay file", tried=False)


def replies(engine, requests):
    found = [pair for portion in engine.complete(iter(requests)) for pair in portion]
    assert [request for request, _ in found] == requests
    return [reply for _, reply in found]


@pytest.fixture
def write(tmp_path):
    def lines(*rows: dict):
        path = tmp_path / "replies.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return lines


def test_replies_are_found_by_prompt_or_key(write):
    chat = [{"role": "user", "content": "Which – ✓ \ud800?"}]
    path = write(
        {
            "prompt_sha256": hashlib.sha256(b"Which one?").hexdigest(),
            "text": "1",
            "label_logprobs": {"1": -0.1, "2": -3},
        },
        {"prompt_sha256": prompt_sha256(chat), "text": "2", "pair": 3, "position": "first"},
        {"key": "a key", "text": "tie", "finish_reason": "stop"},
        {"key": "another", "failure": "too long: \x1b[31m9 tokens"},
    )
    engine = ReplayEngine(path)
    prompts = {"a": "Which one?", "b": chat, "a key": "?", "another": "?", "c": "?"}
    asked = [Request(key, prompt) for key, prompt in prompts.items()]
    assert replies(engine, asked) == [
        Completion("1", {"1": -0.1, "2": -3.0}),
        Completion("2"),
        Completion("tie", finish_reason="stop"),
        Failure("too long: [31m9 tokens"),
        MISSING,
    ]
    assert engine.identity == {"replay": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert engine.notes == ["replies are replayed from replies.jsonl"]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"text": "1"}, r"replies\.jsonl, row 1: has neither key nor prompt_sha256"),
        ({"key": "k"}, r"replies\.jsonl, row 1: the key 'completion\.text' is missing"),
        ({"key": "k", "text": 1}, r"replies\.jsonl, row 1: completion\.text"),
        ({"completions": []}, r"replies\.jsonl, row 1: completions: must be an object"),
        ({"completions": {"k": "text"}}, r"replies\.jsonl, row 1: completion"),
    ],
)
def test_an_invalid_line_is_named(write, row, line):
    with pytest.raises(InputError, match=line):
        ReplayEngine(write(row))
