"""Thinking has a budget of its own: in transformers, in real vLLM, and at a server that takes or refuses it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stored
from transformers import AutoTokenizer

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.replies import MARKS_ROOM, Completion, ThinkingBudget
from instruct.data.prompts import EvalPrompt
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.server_replies import ErrorStatus, Refused, read_refusal, read_reply
from instruct.generation.answers import generate_answers
from instruct.generation.options import GenerationConfig
from instruct.generation.written import ReplyStats
from instruct.run.replies import BatchStore

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 3)}words about the number {i}.", "tiny") for i in range(5)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=5, thinking_budget=9, batch_size=3)
OPENS = "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}"


def thinking_model(source: Path, folder: Path, opens: str = OPENS) -> Path:
    """A copy whose chat template opens the thinking in the prompt."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("chat_template.jinja"))
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template += opens
    tokenizer.save_pretrained(folder)
    return folder


def answered(model: Path, folder: Path, config: GenerationConfig = CONFIG) -> tuple[ReplyStats, list[Completion]]:
    stats = generate_answers(ModelOptions(name=str(model)), {"base": None}, PROMPTS, "chat", config, folder)
    with BatchStore(folder / "base.replies.sqlite") as store:
        keys = [key for (key,) in stored.select(store.path, "SELECT key FROM completions")]
        replies = store.completions(keys)
    return stats["base"], [replies[key] for key in sorted(replies)]


def test_the_end_of_thinking_is_forced_when_its_tokens_are_used_up():
    budget = ThinkingBudget(2, (1,), (8, 9))
    prompt = [0, 1, 5]
    assert [budget.forced(prompt, [4] * count) for count in (0, 1, 2)] == [None, None, 8]
    assert budget.forced(prompt, [4, 4, 8]) == 9
    assert budget.forced(prompt, [4, 4, 8, 9]) is None
    assert budget.forced(prompt, [4, 8, 9, 4, 4, 4]) is None  # it ended itself
    assert budget.forced([0], [4] * 9) is None  # it does not think
    assert [budget.forced([0], [1, 4, 4, *forced]) for forced in ([], [8], [8, 9])] == [8, 9, None]
    assert budget.forced([1, 8, 9], [4] * 9) is None  # thinking is off
    assert ThinkingBudget(0, (1,), (8,)).forced([1, 5], []) == 8


@pytest.mark.parametrize("budget", [0, 9])
def test_transformers_ends_thinking_and_answers_within_limits_of_their_own(tiny_model, tmp_path, budget):
    model = thinking_model(tiny_model, tmp_path / "model")
    config = CONFIG.model_copy(update={"thinking_budget": budget})
    stats, replies = answered(model, tmp_path / "out", config)
    tokenizer = AutoTokenizer.from_pretrained(model)
    marks = len(tokenizer("</think>")["input_ids"])
    assert not stats.failed
    assert all(reply.reasoning is not None for reply in replies)
    assert max(reply.reasoning_tokens or 0 for reply in replies) == budget + marks
    assert any(reply.text.strip() for reply in replies)
    assert all(
        (reply.completion_tokens or 0) - (reply.finish_reason == "stop") - (reply.reasoning_tokens or 0) <= 5
        for reply in replies
    )
    assert 0 < (stats.mean_tokens or 0) <= 5
    assert 0 < (stats.mean_thinking_tokens or 0) <= budget + marks
    rows = json.loads((tmp_path / "out" / "base.json").read_text())
    assert all("</think>" not in row["output"] for row in rows)


def test_without_a_budget_thinking_shares_the_limit_of_the_answer(tiny_model, tmp_path):
    model = thinking_model(tiny_model, tmp_path / "model")
    stats, _ = answered(model, tmp_path / "out", CONFIG.model_copy(update={"thinking_budget": None}))
    assert stats.failed == {"cut off while thinking": len(PROMPTS)}


def test_a_changed_budget_answers_anew_and_none_is_as_before(tiny_model, tmp_path):
    from instruct.generation.answers import answer_work

    works = [answer_work(PROMPTS, "chat", CONFIG.model_copy(update={"thinking_budget": n})) for n in (None, 3, 4)]
    assert len({json.dumps(work.decoding) for work in works}) == 3
    assert "thinking_budget" not in works[0].decoding


def test_a_model_that_does_not_think_is_refused_a_budget(tiny_model, tmp_path):
    with pytest.raises(InputError, match=r"generation\.thinking_budget 9: the chat template of .* has no thinking"):
        answered(tiny_model, tmp_path)


@pytest.mark.usefixtures("short_waits")
def test_a_server_is_sent_the_budget_and_room_for_the_answer_after_it(fake_server, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    url, requests = fake_server({"number 3": "cut_reasoning"})
    config = GenerationConfig(engine="server", base_url=url, max_new_tokens=5, thinking_budget=9, batch_size=3)
    stats = generate_answers(ModelOptions(name="m"), {"base": None}, PROMPTS, "chat", config, tmp_path)["base"]
    bodies = [each["body"] for each in requests()]
    assert {(body["thinking_token_budget"], body["max_tokens"]) for body in bodies} == {(9, 5 + 9 + MARKS_ROOM)}
    assert stats.failed == {"cut off while thinking": 1}
    assert "base: 1 replies think longer than thinking_budget 9, which the server seems to ignore" in caplog.text


def test_a_server_that_takes_no_budget_ends_the_work_in_a_line():
    options = EngineOptions("model m", "m", Decoding(), 0, thinking_budget=9)
    body = {"message": "thinking_token_budget is set but reasoning_config is not configured."}
    for error in (body, {"param": "thinking_token_budget", "code": "unknown_parameter"}):
        found = read_refusal(options, "http://s", ErrorStatus(400, {}, error), {"model": "m"})
        assert isinstance(found, InputError)
        assert str(found).startswith("model m: http://s takes no thinking_token_budget (HTTP 400); start vLLM with")
    unlimited = replace(options, thinking_budget=None)
    assert isinstance(read_refusal(unlimited, "http://s", ErrorStatus(400, {}, body), {"model": "m"}), Refused)


@pytest.mark.parametrize(("usage", "counted"), [(7, 7), (30, None), (None, None)])
def test_a_server_says_how_many_tokens_were_thinking(usage, counted):
    message = {"content": "It is 4.", "reasoning": "2 + 2"}
    counts = {"prompt_tokens": 3, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": usage}}
    reply = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": counts}
    completion = read_reply(EngineOptions("m", "m", Decoding(), 0), json.dumps(reply).encode())
    assert completion.reasoning_tokens == counted


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
@pytest.mark.parametrize("opens", [OPENS, pytest.param("{# <think> </think> #}", marks=pytest.mark.full)])
def test_vllm_ends_thinking_within_two_tokens_of_transformers(smollm2, tmp_path, monkeypatch, opens):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = thinking_model(Path(smollm2), tmp_path / "model", opens)
    marks = len(AutoTokenizer.from_pretrained(model)("</think>")["input_ids"])
    lengths: dict[str, Any] = {}
    for engine in ("vllm", "transformers"):
        config = CONFIG.model_copy(update={"engine": engine})
        stats, replies = answered(model, tmp_path / engine, config)
        assert not stats.failed
        assert all(reply.reasoning for reply in replies) == bool(opens.count("add_generation_prompt"))
        lengths[engine] = [
            (reply.reasoning_tokens, (reply.completion_tokens or 0) - (reply.reasoning_tokens or 0))
            for reply in replies
        ]
    assert len(lengths["vllm"]) == len(lengths["transformers"])
    for (thought, text), (expected, same) in zip(lengths["vllm"], lengths["transformers"], strict=True):
        assert expected in (None, 9 + marks)
        assert abs((thought or 0) - (expected or 0)) <= 2  # vLLM counts on while it samples the next token
        assert text == same
