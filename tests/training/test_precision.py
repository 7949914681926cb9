"""Weights move as float32 weights do at the learning rates of full fine-tuning, or are refused or announced."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig
from tiny import make_trainer, quiet_config, tiny_model
from train_configs import rows_of, tiny_config, train, write_rows
from transformers import AutoModelForCausalLM, TrainingArguments

from instruct.training.train import make_trainer as make_from_config
from instruct.training.train import trainer_arguments


@pytest.fixture
def rows(tmp_path) -> str:
    return write_rows(tmp_path / "rows.jsonl")


def full_config(folder, rows, dtype: str = "bfloat16", **arguments):
    """Full fine-tuning as in recipes/configs/paper, for a few steps."""
    return tiny_config(
        folder, rows, model={"name": str(folder), "dtype": dtype}, lora=None,
        train={
            "max_steps": 6, "per_device_train_batch_size": 4, "max_length": 256, "learning_rate": 2e-5,
            "warmup_steps": 0, "logging_steps": 1, **arguments,
        },
    )  # fmt: skip


def moved(config, output) -> tuple[float, torch.dtype]:
    """The share of the weights that training has changed, and their dtype."""
    data = rows_of(config)
    arguments = trainer_arguments(config, config.systems["emo"], output)
    trainer = make_from_config(config.model, config.lora, arguments, data)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    pairs = list(zip(before, trainer.model.parameters(), strict=True))
    changed = sum(int((old != new).sum()) for old, new in pairs)
    return changed / sum(old.numel() for old in before), before[0].dtype


def test_full_fine_tuning_moves_its_weights(tmp_path, tiny_model_folder, rows):
    """As many of them as without bfloat16. The rows of tokens that do not occur have no gradient."""
    share, dtype = moved(full_config(tiny_model_folder, rows), tmp_path / "a")
    assert dtype == torch.float32
    expected, _ = moved(full_config(tiny_model_folder, rows, "float32"), tmp_path / "b")
    assert share == pytest.approx(expected, abs=0.01)


def test_full_fine_tuning_saves_the_models_own_dtype(tmp_path, tiny_model_folder, rows):
    run = train(tmp_path / "run", full_config(tiny_model_folder, rows))
    assert AutoModelForCausalLM.from_pretrained(run.adapters / "emo", dtype="auto").dtype == torch.bfloat16


def test_bfloat16_weights_that_train_are_announced(tmp_path):
    with pytest.warns(UserWarning, match=r"bfloat16 weights train: .* dtype float32, set bf16=True"):
        make_trainer(tmp_path, tiny_model().bfloat16())


def test_float16_weights_that_train_are_refused(tmp_path):
    lora = LoraConfig(r=2, task_type="CAUSAL_LM")
    for arguments in ({"bf16": True}, {"peft_config": lora}):
        with pytest.raises(ValueError, match=r"is in float16"):
            make_trainer(tmp_path, tiny_model().half(), **arguments)
    make_trainer(tmp_path, tiny_model().half(), peft_config=lora, bf16=True)


def test_apples_gpu_is_refused(tmp_path, monkeypatch):
    found = TrainingArguments.device.fget
    mps = property(lambda self: torch.device("mps", found(self).index))
    monkeypatch.setattr(TrainingArguments, "device", mps)
    with pytest.raises(ValueError, match=r"Apple's GPU \(mps\) has no float64.*set use_cpu=True"):
        quiet_config(tmp_path)
