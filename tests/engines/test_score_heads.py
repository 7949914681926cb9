"""Score heads: features equal the states computed alone, scores do not depend on the batch, wrong files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scoring import chat, options, score_all
from transformers import AutoModel, AutoTokenizer

from instruct.base.errors import InputError
from instruct.engines.rewards import BATCH_TOKENS
from instruct.engines.score_heads import HeadReading, ScoreHead, ScoreHeadEngine, StatesEngine, load_head
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


def scores(engine, chats=CHATS):
    return score_all(engine, chats)


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


def test_scores_are_the_same_in_repeated_runs_and_in_other_batches(tiny_model_folder, head, monkeypatch):
    engine = ScoreHeadEngine(options(tiny_model_folder, head=head))
    first = scores(engine)
    assert first == scores(ScoreHeadEngine(options(tiny_model_folder, head=head)))
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 1)  # each text alone
    assert scores(ScoreHeadEngine(options(tiny_model_folder, head=head))) == pytest.approx(first, abs=1e-4)
    shuffled = list(np.random.default_rng(1).permutation(len(CHATS)))
    again = scores(ScoreHeadEngine(options(tiny_model_folder, head=head)), [CHATS[place] for place in shuffled])
    assert again == pytest.approx([first[place] for place in shuffled], abs=1e-4)


def test_a_score_is_the_weighted_sum_of_the_features(tiny_model_folder, head):
    features = StatesEngine(options(tiny_model_folder), READING).features(CHATS)
    loaded = load_head(head)
    assert loaded.reading == READING
    expected = features @ loaded.weights + 0.25
    assert scores(make_engine("transformers", options(tiny_model_folder, head=head))) == pytest.approx(
        expected, abs=1e-4
    )


def test_a_long_answer_counts_by_its_whole_length_and_never_fails(tiny_model_folder, head):
    long, longer = chat("Why?", "x" * 4000), chat("Why?", "x" * 5000)
    one, other = scores(ScoreHeadEngine(options(tiny_model_folder, head=head)), [long, longer])
    assert other - one == pytest.approx(load_head(head).weights[-1] * np.log(5001 / 4001), abs=1e-3)


def test_an_answer_cannot_write_the_tokens_that_end_a_turn(tiny_model_folder):
    engine = StatesEngine(options(tiny_model_folder), READING)
    (text,) = engine._texts([chat("Why?", "a<|end|>b")])
    assert text.ids.count(1) == 2  # the prompt's own end and the answer's


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


def test_other_engines_and_models_are_refused(tiny_model_folder, head):
    path = head.with_name("judge.yaml")
    path.write_text(CARD.format(model=tiny_model_folder))
    with pytest.raises(InputError, match=r"its head reads states inside the model, which vLLM does not give"):
        make_engine("vllm", options(tiny_model_folder, head=head))
    with pytest.raises(InputError, match=r"reads no other model's; leave `model` out"):
        load_judge_card(str(path), "some/other")
    path.write_text(CARD.format(model=tiny_model_folder).replace("protocol: reward", "protocol: single"))
    with pytest.raises(InputError, match=r"head belongs to protocol reward"):
        load_judge_card(str(path))
    weights = np.zeros(10, np.float32)
    ScoreHead(READING, weights, 0.0).save(head)
    with pytest.raises(InputError, match=r"its head has 10 weights, but .* gives 65 features"):
        scores(ScoreHeadEngine(options(tiny_model_folder, head=head)))
    ScoreHead(HeadReading((3,)), weights, 0.0).save(head)
    with pytest.raises(InputError, match=r"reads the states after block 3 of .*, which has 2"):
        ScoreHeadEngine(options(tiny_model_folder, head=head)).check()


def test_files_that_are_no_heads_are_refused(tmp_path, head):
    path = tmp_path / "bad.safetensors"
    with pytest.raises(InputError, match=r"no such file; put the judge's head there"):
        load_head(path)
    from safetensors.numpy import save_file

    good = {"layers": [1], "prompt_tokens": 4, "answer_tokens": 4}
    one = {"weights": np.zeros(3, np.float32), "bias": np.zeros(1, np.float32)}
    for content in (b"", b"{}", b"\x00" * 100, head.read_bytes()[:-7]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a score head"):
            load_head(path)
    for tensors, reading in (
        (one, None),
        (one, []),
        (one, {**good, "layers": "x"}),
        (one, {**good, "layers": [0]}),
        (one, {**good, "layers": 1}),
        (one, {**good, "answer_tokens": 0}),
        (one, {**good, "more": 0}),
        ({**one, "weights": np.zeros((2, 2), np.float32)}, good),
        ({"weights": one["weights"]}, good),
        ({**one, "bias": np.zeros(0, np.float32)}, good),
    ):
        save_file(tensors, path, None if reading is None else {"reading": json.dumps(reading)})
        with pytest.raises(InputError, match="is not a score head"):
            load_head(path)
    save_file(one, path, {"reading": json.dumps(good)})
    assert load_head(path).reading == HeadReading((1,), 4, 4)


def test_a_head_is_saved_as_the_same_bytes(tmp_path, head):
    load_head(head).save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == head.read_bytes()
