"""Objectives with a reference: the base under the adapter."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from dense_reference import reference_token_loss
from peft import LoraConfig
from tiny import make_trainer
from train_configs import tiny_config, write_rows
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.errors import InputError
from instruct.objectives.built_in import OBJECTIVES

TEXTS = ["the night was dark and it was fine", "a cat sat on the mat", "rain and wind all night", "so it was"]


def trainer(tmp_path, model, **options):
    return make_trainer(
        tmp_path / "out", AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        rows=Dataset.from_dict({"text": TEXTS}), tokenizer=AutoTokenizer.from_pretrained(model), max_steps=3,
        learning_rate=0.05, per_device_train_batch_size=2, peft_config=options.pop("lora", lora()), **options,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), [("asft", {"weight": 0.3}), ("frozen", {})])
def test_the_reference_is_the_base_whatever_is_trained(tiny_model, tmp_path, name, arguments):
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    trained = trainer(tmp_path, tiny_model, objective=name, objective_args=arguments)
    trained.train()
    batch = next(iter(trained.get_eval_dataloader(trained.train_dataset)))
    labels = batch["labels"][:, 1:]
    kept = labels != -100
    with torch.no_grad():
        found = float(trained.compute_loss(trained.model.eval(), dict(batch)))
        own, other = (each(input_ids=batch["input_ids"]).logits[:, :-1][kept] for each in (trained.model, base))
    of_base, of_itself = (
        reference_token_loss(own, torch.eye(own.shape[1]), labels[kept], OBJECTIVES[name](**arguments), base=logits)
        .mean()
        .item()
        for logits in (other, own)
    )
    assert found == pytest.approx(of_base, rel=1e-4)
    assert found != pytest.approx(of_itself, rel=1e-3)  # it has moved


def test_full_training_is_refused_before_another_system_trains(tiny_model_folder, tmp_path):
    from instruct.phases.train import check_training

    systems = {"mle": {"objective": "mle"}, "ours": {"objective": "asft"}}
    rows = write_rows(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match=r"systems\.ours: the objective reads the model before training"):
        check_training(tiny_config(tiny_model_folder, rows, systems=systems, lora=None), tmp_path / "run")
    check_training(tiny_config(tiny_model_folder, rows, systems=systems), tmp_path / "run").close()


def lora(**arguments) -> LoraConfig:
    return LoraConfig(**{"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM", **arguments})
