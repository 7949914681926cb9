"""Prompts with several turns: each system's later turns follow its own answers."""

from __future__ import annotations

from pathlib import Path

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


def test_transformers_answer_turn_by_turn_and_resume(tiny_model, tiny_adapters, tmp_path, monkeypatch):
    systems = {"base": None, "emo": tiny_adapters["emo"]}
    config = GenerationConfig(engine="transformers", max_new_tokens=12, batch_size=2)

    def answers(folder: Path) -> dict:
        return generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", config, folder)

    stats = answers(tmp_path)
    assert [stats[name].n for name in systems] == [6, 6]
    for name in systems:
        rows = load_answers(tmp_path / f"{name}.json")
        assert [row["instruction"][4:] for row in rows] == ["one.", "two.", "three.", "four.", "five.", "six."]
        assert [len(row.get("earlier", [])) for row in rows] == [0, 2, 0, 0, 2, 4]
        assert rows[1]["earlier"][1]["content"] == rows[0]["output"]
        assert (rows[1]["reference"], rows[0]["reference"]) == (["1", "2"], ["1"])
    before = (tmp_path / "emo.json").read_bytes()
    monkeypatch.setattr("instruct.generation.replies._ask", lambda *args: pytest.fail("nothing is missing"))
    answers(tmp_path)
    assert (tmp_path / "emo.json").read_bytes() == before


def test_a_server_is_sent_the_conversation(fake_server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    url, requests = fake_server()
    config = GenerationConfig(engine="server", base_url=url, max_new_tokens=9, batch_size=2)
    generate_answers(ModelOptions(name="served"), {"base": None}, PROMPTS, "chat", config, tmp_path)
    asked = [request["body"]["messages"] for request in requests()]
    rows = load_answers(tmp_path / "base.json")
    assert sorted(len(messages) for messages in asked) == [1, 1, 1, 3, 3, 5]
    last = next(messages for messages in asked if len(messages) == 5)
    assert last[:4] == rows[5]["earlier"]


def test_nothing_is_asked_after_a_turn_that_failed():
    assert _next_turn(PROMPTS[0], [NOT_ASKED]) is None
    assert _next_turn(PROMPTS[1], [Completion("Three.")]) is None


@pytest.mark.parametrize(("options", "expected"), [({}, [0.0, 0.7, 0.7]), ({"temperature": 0.3}, [0.3] * 3)])
def test_prompts_are_sampled_at_the_temperature_of_their_set_unless_one_is_given(
    fake_server, tmp_path, monkeypatch, options, expected
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    url, requests = fake_server()
    prompts = [EvalPrompt("Say one.", "math"), EvalPrompt("Write.", "writing", later=("More.",), temperature=0.7)]
    config = GenerationConfig(engine="server", base_url=url, max_new_tokens=9, **options)
    generate_answers(ModelOptions(name="served"), {"base": None}, prompts, "chat", config, tmp_path)
    bodies = [request["body"] for request in requests()]
    assert sorted(body["temperature"] for body in bodies) == expected
    assert all("seed" in body for body in bodies if body["temperature"])
