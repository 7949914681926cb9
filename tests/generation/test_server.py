"""Answers from an OpenAI-compatible server: the requests, and how a stopped call resumes."""

from __future__ import annotations

import json

import pytest
import stored

from instruct.base.errors import StoppedError
from instruct.base.models import ModelOptions
from instruct.data.formats import alpaca_prompt
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import generate_answers, prompt_seed
from instruct.generation.options import GenerationConfig
from instruct.reporting.provenance import _engine

PROMPTS = [EvalPrompt(f"Question {i}?", "tiny") for i in range(5)]
MODEL = ModelOptions(name="someone/served-model")


@pytest.fixture(autouse=True)
def _environment(monkeypatch, short_waits):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def config_at(url: str, **changes: object) -> GenerationConfig:
    return GenerationConfig(engine="server", base_url=url, max_new_tokens=9, batch_size=2, **changes)


def answered(url, folder, prompts=PROMPTS, **changes):
    """What the base's answers count."""
    systems = {"base": None}
    return generate_answers(MODEL, systems, prompts, "chat", config_at(url, **changes), folder)["base"]


def test_the_template_decides_the_request_and_adapters_are_model_names(fake_server, tiny_adapters, tmp_path):
    url, requests = fake_server()
    systems = {"base": None, "emo": tiny_adapters["emo"]}
    stats = generate_answers(MODEL, systems, PROMPTS, "chat", config_at(url), tmp_path / "chat")
    assert stats["emo"].engine == f"server {url}"
    asked = requests()
    assert {each["path"] for each in asked} == {"/v1/chat/completions"}
    assert [each["body"]["model"] for each in asked] == ["someone/served-model"] * 5 + ["emo"] * 5
    bodies = [each["body"] for each in asked if each["body"]["model"] == "emo"]
    assert sorted(body["messages"][0]["content"] for body in bodies) == [p.instruction for p in PROMPTS]
    assert {(body["max_tokens"], body["temperature"], body["top_p"]) for body in bodies} == {(9, 0.0, 1.0)}

    sampled = config_at(url, temperature=0.7, seed=1)
    generate_answers(MODEL, {"base": None}, PROMPTS, "alpaca", sampled, tmp_path / "alpaca")
    asked = requests()[10:]
    assert {each["path"] for each in asked} == {"/v1/completions"}
    assert {each["body"]["prompt"] for each in asked} == {alpaca_prompt(p.instruction) for p in PROMPTS}
    assert {each["body"]["seed"] for each in asked} == {prompt_seed(1, place) for place in range(len(PROMPTS))}


def test_a_server_that_breaks_keeps_what_it_replied(fake_server, tmp_path):
    prompts = [EvalPrompt(f"Question {i}?", "tiny") for i in range(60)]
    url, requests = fake_server({f"Question {i}?": ["400"] for i in range(20, 50)})
    config = config_at(url).model_copy(update={"batch_size": 4})
    with pytest.raises(StoppedError, match=r"20 requests in a row failed"):
        generate_answers(MODEL, {"base": None}, prompts, "chat", config, tmp_path)
    assert not (tmp_path / "base.json").exists()
    kept = len(stored.replies(tmp_path, "base"))
    assert kept == 20
    failed = stored.select(stored.path_of(tmp_path, "base"), "SELECT COUNT(*) FROM attempts")[0][0]
    before = len(requests())
    generate_answers(MODEL, {"base": None}, prompts, "chat", config, tmp_path)
    assert len(requests()) - before == 60 - kept - failed


def test_a_server_that_refuses_all_prompts_ends_the_call_and_is_asked_again(fake_server, tmp_path):
    url, requests = fake_server({"Question": ["too_long"]})
    with pytest.raises(StoppedError, match=r"served-model: no request to base was answered \(the first: too long"):
        answered(url, tmp_path)
    stats = answered(url, tmp_path)
    assert (stats.failed, len(requests())) == ({}, 10)


def test_an_answer_is_what_a_user_sees_and_one_cut_in_its_thinking_is_none(fake_server, tmp_path):
    url, requests = fake_server(
        {"Question 1?": "reasoning_content", "Question 2?": "cut_reasoning", "Question 3?": "reasoning"}
    )
    stats = answered(url, tmp_path)
    rows = json.loads((tmp_path / "base.json").read_text())
    assert [(row["output"].strip(), row["reasoning"]) for row in (rows[1], rows[3])] == [("It is 4.", "2 + 2")] * 2
    assert (rows[2]["output"], rows[2]["failed"]) == ("", "cut off while thinking")
    assert "reasoning" not in rows[0]
    assert stats.failed == {"cut off while thinking": 1}
    assert stats.truncated == 0

    asked = len(requests())
    assert answered(url, tmp_path) == stats
    assert len(requests()) == asked  # it would be cut again


def test_an_answer_of_another_model_is_recorded_and_reported(fake_server, tmp_path):
    url, _ = fake_server({PROMPTS[0].instruction: "served someone/small-model"})
    stats = answered(url, tmp_path)
    assert stats.others == {"someone/small-model": 1}
    assert _engine(stats.record()) == f"server {url}; answered by someone/small-model, as the server says"
