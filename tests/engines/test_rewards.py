"""Reward models: scores equal the model's own logits, each text is scored once, nothing is cut."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from scoring import chat, options, replies_of, score_all
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Qwen3ForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.engines.network import BATCH_TOKENS
from instruct.engines.rewards import RewardEngine
from instruct.engines.start import make_engine
from instruct.judging.verdicts import NO_SCORE, read_scores

CHATS = [chat(f"Why {'so ' * (number % 5)}much?", f"Because {number}. " * (number % 9 + 1)) for number in range(40)]


def scores(engine: Any) -> list[float]:
    return score_all(engine, CHATS)


def own_logits(folder: Path) -> list[float]:
    """What the model gives for each chat alone, without padding."""
    network = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [tokenizer.apply_chat_template(each, tokenize=False) for each in CHATS]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    with torch.no_grad():
        return [float(network(input_ids=torch.tensor([row])).logits[0, 0]) for row in ids]


def test_scores_are_the_models_own_logits(reward_model, monkeypatch):
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 600)
    assert scores(RewardEngine(options(reward_model))) == pytest.approx(own_logits(reward_model), abs=2e-5)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_scores_of_vllm_are_the_models_own_logits(reward_model):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    by_vllm = scores(make_engine("vllm", options(reward_model)))
    assert by_vllm == pytest.approx(own_logits(reward_model), abs=2e-4)


def test_an_encoder_reads_its_classifier_with_a_mask(tmp_path, tiny_model_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=600, pad_token_id=tokenizer.pad_token_id, num_labels=1, initializer_range=0.2,
    )  # fmt: skip
    RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert scores(RewardEngine(options(tmp_path))) == pytest.approx(own_logits(tmp_path), abs=2e-5)


def test_a_model_without_a_padding_token_is_scored_in_batches(reward_model, tmp_path):
    """transformers refuses to score such a batch; other code guesses a token, and reads the wrong one."""
    tokenizer = AutoTokenizer.from_pretrained(reward_model)
    tokenizer.pad_token = None
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        "llama", vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, pad_token_id=None, bos_token_id=None,
        eos_token_id=1, num_labels=1, initializer_range=0.2,
    )  # fmt: skip
    network = AutoModelForSequenceClassification.from_config(config)
    network.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Cannot handle batch sizes > 1"):
        network(input_ids=torch.ones(2, 3, dtype=torch.long))
    assert scores(RewardEngine(options(tmp_path))) == pytest.approx(own_logits(tmp_path), abs=2e-5)


def test_the_token_scored_is_the_one_that_training_reads(reward_model, tmp_path):
    """A text may end with the padding token, as with Llama's end of a turn; training reads the token before it."""
    shutil.copytree(reward_model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(reward_model)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "model")
    network = Qwen3ForSequenceClassification.from_pretrained(reward_model, dtype=torch.float32).eval()
    network.config.pad_token_id = tokenizer.pad_token_id
    network.save_pretrained(tmp_path / "model")
    texts = [tokenizer.apply_chat_template(each, tokenize=False) for each in CHATS]
    assert all(text.endswith(tokenizer.pad_token) for text in texts)
    batch = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    with torch.no_grad():
        trained = network(**batch).logits[:, 0].tolist()
    assert scores(RewardEngine(options(tmp_path / "model"))) == pytest.approx(trained, abs=2e-5)


def adapter(base: Path, folder: Path, **lora: Any) -> Path:
    """A reward model as TRL's RewardTrainer saves it: adapter, head and tokenizer. The head is not the base's."""
    torch.manual_seed(3)
    network = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
    lora = {"task_type": "SEQ_CLS", "target_modules": ["q_proj", "up_proj"], "init_lora_weights": False, **lora}
    model = get_peft_model(network, LoraConfig(r=4, **lora))
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.save_pretrained(folder)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.merge_and_unload().save_pretrained(folder.with_name(folder.name + "_whole"))
    tokenizer.save_pretrained(folder.with_name(folder.name + "_whole"))
    return folder


@pytest.mark.parametrize("lora", [{}, {"task_type": None, "modules_to_save": ["score"]}])
def test_an_adapter_is_merged_once_and_scores_as_it_does_with_its_base(
    lora, tiny_model_folder, tmp_path, monkeypatch, printed
):
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    folder = adapter(tiny_model_folder, tmp_path / "adapter", **lora)
    engine = RewardEngine(options(folder))
    name = engine.identity["model"]
    assert scores(engine) == pytest.approx(own_logits(tmp_path / "adapter_whole"), abs=2e-5)
    assert "merged with its base model, once" in printed.readouterr().err
    again = RewardEngine(options(folder))
    again.check()
    assert scores(again) == scores(RewardEngine(options(folder)))
    assert again.identity["model"] == name
    assert "merged" not in printed.readouterr().err
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "lora_alpha": 16}))
    assert RewardEngine(options(folder)).identity["model"] != name


def test_adapters_that_are_no_reward_models_are_refused(tiny_model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    folder = adapter(tiny_model_folder, tmp_path / "adapter")
    settings = json.loads((folder / "adapter_config.json").read_text())

    def refusal(**changed: Any) -> str:
        (folder / "adapter_config.json").write_text(json.dumps({**settings, **changed}))
        with pytest.raises(InputError) as caught:
            RewardEngine(options(folder)).check()
        return str(caught.value)

    assert r"is no reward model (its adapter's task is CAUSAL_LM)" in refusal(task_type="CAUSAL_LM")
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    weights = load_file(folder / "adapter_model.safetensors")
    save_file({n: t for n, t in weights.items() if "score" not in n}, folder / "adapter_model.safetensors")
    assert "has no score.weight, which its scores need; train it with modules_to_save" in refusal()


def test_a_text_that_exceeds_the_context_fails_and_is_not_cut(reward_model):
    engine = RewardEngine(options(reward_model))
    text = chat("Why?", "x" * 600)
    long, short = replies_of(engine, [text, CHATS[0]])
    assert long == Failure(f"too long: {engine.tokens(text)} tokens exceed the context of 512", permanent=True)
    assert isinstance(short, Completion)


def test_models_that_are_no_reward_models_are_refused(reward_model, tiny_model_folder, tmp_path):
    with pytest.raises(InputError, match=r"is no reward model \(its architecture is LlamaForCausalLM\)"):
        RewardEngine(options(tiny_model_folder)).check()
    shutil.copytree(reward_model, tmp_path / "headless")
    weights = load_file(reward_model / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, tmp_path / "headless" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"has no score\.weight, which would be random"):
        scores(RewardEngine(options(tmp_path / "headless")))
    shutil.copytree(reward_model, tmp_path / "remote")
    config = json.loads((reward_model / "config.json").read_text())
    remote = {**config, "model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (tmp_path / "remote" / "config.json").write_text(json.dumps(remote))
    with pytest.raises(InputError, match="needs code from its repository, which is never run"):
        RewardEngine(options(tmp_path / "remote")).check()


def test_the_higher_score_wins_and_a_margin_is_a_tie():
    assert read_scores(0.0, "1", "1.5").verdict == "second"
    close = read_scores(0.6, "1.5", "1")
    assert (close.verdict, close.preference, close.ratings) == ("tie", 1.5, (1.5, 1.0))
    reading = read_scores(0.1, "2", "-1")
    assert reading.preference == pytest.approx(2 - 1 / (1 + math.exp(-3)))
    assert read_scores(0.0, "-900", "900").preference == 2.0
    for odd in ("nan", "-inf", ""):
        assert (read_scores(0.0, odd, "1").verdict, read_scores(0.0, odd, "1").reason) == ("unparsed", NO_SCORE)
