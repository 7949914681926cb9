"""Prompts with several turns: each system's later turns follow its own answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from instruct.base.models import ModelOptions
from instruct.base.replies import Completion
from instruct.data.evaluation import load_answers
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import (
    NOT_ASKED,
    GenerationConfig,
    _next_turn,
    generate_answers,
)

PROMPTS = [
    EvalPrompt("Say one.", "math", later=("Say two.",), reference=("1", "2"), id="7"),
    EvalPrompt("Say three.", "plain"),
    EvalPrompt("Say four.", "math", later=("Say five.", "Say six."), id="8"),
]


def test_transformers_answer_turn_by_turn(tiny_model, tiny_adapters, tmp_path):
    systems = {"base": None, "emo": tiny_adapters["emo"]}
    config = GenerationConfig(engine="transformers", max_new_tokens=12, batch_size=2)
    stats = generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", config, tmp_path)
    assert [stats[name].n for name in systems] == [6, 6]
    for name in systems:
        rows = load_answers(tmp_path / f"{name}.json")
        assert [row["instruction"][4:] for row in rows] == ["one.", "two.", "three.", "four.", "five.", "six."]
        assert [len(row.get("earlier", [])) for row in rows] == [0, 2, 0, 0, 2, 4]
        assert rows[1]["earlier"][1]["content"] == rows[0]["output"]
        assert (rows[1]["reference"], rows[0]["reference"]) == (["1", "2"], ["1"])


@pytest.fixture
def asked(fake_server, tmp_path, monkeypatch) -> Callable[..., list[dict[str, Any]]]:
    """`asked(prompts, **options)`: the bodies of the requests to a server."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def ask(prompts: list[EvalPrompt], **options: float) -> list[dict[str, Any]]:
        url, requests = fake_server()
        config = GenerationConfig(engine="server", base_url=url, max_new_tokens=9, **options)
        generate_answers(ModelOptions(name="served"), {"base": None}, prompts, "chat", config, tmp_path)
        return [request["body"] for request in requests()]

    return ask


def test_a_server_is_sent_the_conversation(asked, tmp_path):
    conversations = [body["messages"] for body in asked(PROMPTS)]
    assert sorted(map(len, conversations)) == [1, 1, 1, 3, 3, 5]
    last = max(conversations, key=len)
    assert last[:4] == load_answers(tmp_path / "base.json")[5]["earlier"]


def test_nothing_is_asked_after_a_turn_that_failed():
    assert _next_turn(PROMPTS[0], [NOT_ASKED]) is None
    assert _next_turn(PROMPTS[1], [Completion("Three.")]) is None


@pytest.mark.parametrize(("options", "expected"), [({}, [0.0, 0.7, 0.7]), ({"temperature": 0.3}, [0.3] * 3)])
def test_prompts_are_sampled_at_the_temperature_of_their_set_unless_one_is_given(asked, options, expected):
    prompts = [EvalPrompt("Say one.", "math"), EvalPrompt("Write.", "writing", later=("More.",), temperature=0.7)]
    bodies = asked(prompts, **options)
    assert sorted(body["temperature"] for body in bodies) == expected
    assert all("seed" in body for body in bodies if body["temperature"])
