"""Rows that would leak into each other, or give no step, are refused when the trainer is made."""

from __future__ import annotations

import re

import pytest
from datasets import Dataset
from peft import LoraConfig
from population import tiny_network
from tiny import make_trainer, tiny_rows

from instruct.base.errors import InputError
from instruct.base.output import log_once

PACKING = {"packing": True, "max_length": 64}


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_models_whose_layers_read_position_ids_may_pack(tmp_path, kind):
    make_trainer(tmp_path, tiny_network(kind), **PACKING)


@pytest.mark.parametrize("kind", ["mamba", "qwen3_5_text", "opt", "bloom"])
def test_packing_is_refused_where_a_row_sees_the_one_before_it(tmp_path, kind):
    model = tiny_network(kind)
    with pytest.raises(InputError, match=f"^{type(model).__name__} does not keep packed rows apart: .*; set packing"):
        make_trainer(tmp_path, model, **PACKING)
    make_trainer(tmp_path, model)


def test_rows_that_give_no_step_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has 3 rows, fewer than a batch of 8"):
        make_trainer(tmp_path, rows=tiny_rows(3), dataloader_drop_last=True)
    with pytest.raises(InputError, match=r"^train dataset: no row has a token to train on within max_length 2; raise"):
        make_trainer(tmp_path, max_length=2)


def test_a_checkpoint_without_an_optimizer_is_not_resumed_from(tmp_path):
    arguments = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "save_only_model": True}
    make_trainer(tmp_path, **arguments).train()
    with pytest.raises(
        ValueError, match=r"checkpoint-1: has no state of the optimizer, learning rate, random numbers \(save"
    ):
        make_trainer(tmp_path, **arguments).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.parametrize(
    ("kind", "frozen"),
    [
        ("deepseek_v4", "o_a_proj"),
        ("qwen3_5", r"model\.visual"),
    ],
)
def test_layers_that_text_does_not_reach_or_peft_refuses_stay_frozen_and_are_named(tmp_path, printed, kind, frozen):
    log_once.cache_clear()
    network = tiny_network(kind)
    rows = Dataset.from_list([{"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8]}])
    trainer = make_trainer(tmp_path, network, rows=rows, peft_config=LoraConfig(target_modules="all-linear", r=2))
    adapted = {name.partition(".lora_")[0] for name, _ in trainer.model.named_parameters() if ".lora_" in name}
    said = printed.readouterr().err
    assert adapted
    assert re.search(rf"LoRA: .*{frozen}.* of {kind} stay frozen: ", said)
    assert not [name for name in adapted if re.search(rf"\.{frozen}(\.|$)", name)]
