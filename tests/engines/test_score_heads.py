"""Score heads: features equal the states computed alone, scores do not depend on the batch, wrong files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scoring import chat, options, score_all
from transformers import AutoModel, AutoTokenizer

from instruct.engines.rewards import BATCH_TOKENS
from instruct.engines.score_heads import HeadReading, ScoreHead, StatesEngine, load_head
from instruct.engines.start import make_engine
from instruct.judging.asking import Judge
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions

READING = HeadReading((1, 2), prompt_tokens=40, answer_tokens=30)
CARD = """\
name: scorer
description: a tiny head
model: {model}
protocol: reward
head: head.safetensors
order_policy: one
leading_policy: single
context_length: 512
licence: none
"""


CHATS = [chat(f"Why {'so ' * (number % 5)}?", f"Because {number}. " * (number % 9)) for number in range(30)]


@pytest.fixture
def head(tmp_path):
    weights = np.random.default_rng(0).normal(size=2 * 32 + 1).astype(np.float32)
    ScoreHead(READING, weights, 0.25).save(tmp_path / "head.safetensors")
    return tmp_path / "head.safetensors"


def own_features(folder: Path, prompt: list[dict[str, str]]) -> np.ndarray:
    """The definition, for one text alone and with all of the model's blocks."""
    network = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(prompt[:1], tokenize=False, add_generation_prompt=True)
    asked = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(asked) > 40:
        asked = asked[:20] + asked[-20:]
    answer = [*tokenizer(prompt[1]["content"], add_special_tokens=False)["input_ids"][:30], tokenizer.eos_token_id]
    states: list[torch.Tensor] = []
    for block in network.layers:
        block.register_forward_hook(lambda module, given, out: states.append(out))
    with torch.no_grad():
        network(input_ids=torch.tensor([[*asked, *answer]]))
    means = [(s / (s.square().mean(-1, keepdim=True) + 1e-5).sqrt())[0, len(asked) :].mean(0) for s in states]
    return np.r_[torch.cat(means).numpy(), np.log1p(len(prompt[1]["content"]))]


def test_features_are_the_normalized_states_of_the_answers_tokens(tiny_model_folder, monkeypatch):
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 400)
    features = StatesEngine(options(tiny_model_folder), READING).features(CHATS)
    assert features.shape == (30, 65)
    for place in (0, 1, 8, 29):
        assert features[place] == pytest.approx(own_features(tiny_model_folder, CHATS[place]), abs=2e-5)


def test_a_score_is_the_weighted_sum_of_the_features(tiny_model_folder, head):
    features = StatesEngine(options(tiny_model_folder), READING).features(CHATS)
    loaded = load_head(head)
    assert loaded.reading == READING
    expected = features @ loaded.weights + 0.25
    engine = make_engine("transformers", options(tiny_model_folder, head=head))
    assert score_all(engine, CHATS) == pytest.approx(expected, abs=1e-4)


def test_the_card_and_the_keys_change_with_the_heads_weights(tiny_model_folder, head):
    path = head.with_name("judge.yaml")
    path.write_text(CARD.format(model=tiny_model_folder))
    card = load_judge_card(str(path))
    judge = Judge(JudgeOptions(card=str(path)))
    assert judge.engine == "transformers"  # whether or not vLLM is installed
    with judge.open() as engine:
        before = engine.identity
    found = card.sha256()
    other = load_head(head)
    ScoreHead(READING, other.weights + 1, 0.25).save(head)
    assert load_judge_card(str(path)).sha256() != found
    with Judge(JudgeOptions(card=str(path))).open() as engine:
        assert engine.identity["score"] != before["score"]
        assert {**engine.identity, "score": ""} == {**before, "score": ""}
