"""A judge in transformers, compared with direct calls of a tiny model; pickled weights."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from scoring import LABELS, replies_of
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from instruct.base.errors import InputError
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.options import JudgeOptions

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
PROMPTS = ["Which one is better?", "One, two, three and so on: first or second?", "Hm."]


@pytest.fixture(scope="module")
def wide_model(tiny_model_folder, tmp_path_factory):
    """The tiny model with weights so large that beam search and greedy decoding differ."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder)
    return folder


def make_card(name: str, model: Path, decoding: dict[str, Any] | None = None, **fields: Any) -> JudgeCard:
    card = load_judge_card(name)
    decoded = card.decoding.model_copy(update=decoding or {})
    update = {"model": str(model), "revision": None, "context_length": 1024, "decoding": decoded, **fields}
    return card.model_copy(update=update)


def test_pandalm_is_decoded_as_by_its_authors(wide_model):
    """Four beams, early stopping, a repetition penalty of 1.2, ids 0, 1, 2 (pandalm/utils/pandalm_inference.py)."""
    network = AutoModelForCausalLM.from_pretrained(wide_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(wide_model)
    tokenizer.eos_token = None
    folder = wide_model.with_name("without-end")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    done = replies_of(
        TransformersEngine(engine_options(make_card("pandalm", folder, {"max_tokens": 24}), dtype="float32")), PROMPTS
    )
    expected, greedy = [], []
    network.config.pad_token_id, network.config.bos_token_id, network.config.eos_token_id = 0, 1, 2
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        for found, beams in ((expected, 4), (greedy, 1)):
            config = GenerationConfig(
                num_beams=beams,
                early_stopping=True if beams > 1 else None,
                repetition_penalty=1.2,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
            answer = network.generate(ids, generation_config=config, max_new_tokens=24)[0, ids.shape[1] :]
            found.append(tokenizer.decode(answer, skip_special_tokens=True))
    assert [reply.text for reply in done] == expected
    assert expected != greedy


def test_label_logprobs_equal_those_of_the_model(wide_model):
    card = make_card(LABELS, wide_model)
    done = replies_of(TransformersEngine(engine_options(card, dtype="float32")), PROMPTS)
    network = AutoModelForCausalLM.from_pretrained(wide_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(wide_model)
    labels = [tokenizer(label)["input_ids"][0] for label in ("1", "2")]
    for prompt, reply in zip(PROMPTS, done, strict=True):
        with torch.no_grad():
            wanted = network(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1].log_softmax(-1)[labels]
        assert list(reply.label_logprobs) == ["1", "2"]
        assert torch.allclose(torch.tensor(list(reply.label_logprobs.values())), wanted, atol=1e-4)
        assert (reply.prompt_tokens, reply.completion_tokens) == (len(tokenizer(prompt)["input_ids"]), 1)


def test_a_pickle_is_refused_unless_the_card_allows_it(pickled_model_folder):
    with pytest.raises(InputError, match=r"has no \*\.safetensors, its weights are a pickle.*`weights: pickle`"):
        Judge(JudgeOptions(card=LABELS, engine="transformers"), make_card(LABELS, pickled_model_folder)).check()


class _Touch:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self._path),)


IN_VLLM = [needs_vllm, pytest.mark.slow, pytest.mark.xdist_group("vllm")]


@pytest.mark.parametrize("engine", [TransformersEngine, pytest.param(VLLMEngine, marks=IN_VLLM)])
def test_code_in_a_pickle_is_not_run(pickled_model_folder, tmp_path, engine):
    ran = tmp_path / "ran"
    with (pickled_model_folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"model.norm.weight": _Touch(str(ran))}, file, protocol=2)
    card = make_card(LABELS, pickled_model_folder, weights="pickle")
    with pytest.raises(InputError, match=r"unpickler for tensors cannot read its \.bin files; use"):
        replies_of(engine(engine_options(card)), PROMPTS)
    assert not ran.exists()
