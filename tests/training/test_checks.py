"""Rows that would leak into each other, or give no step, are refused when the trainer is made."""

from __future__ import annotations

import re

import pytest
from datasets import Dataset
from peft import LoraConfig
from population import tiny_network
from tiny import chat_tokenizer, conversations, make_trainer, quiet_config, tiny_model, tiny_rows

from instruct.base.errors import InputError
from instruct.base.output import log_once

PACKING = {"packing": True, "max_length": 64}
APART = ["llama", "qwen2", "gemma2", "gpt2"]
TOGETHER = ["mamba", "mamba2", "qwen3_5_text", "qwen3_next", "lfm2", "falcon_h1", "opt", "bloom"]


@pytest.mark.parametrize("kind", APART)
def test_models_whose_layers_read_position_ids_may_pack(tmp_path, kind):
    make_trainer(tmp_path, tiny_network(kind), **PACKING)


@pytest.mark.parametrize("kind", TOGETHER)
def test_packing_is_refused_where_a_row_sees_the_one_before_it(tmp_path, kind):
    model = tiny_network(kind)
    with pytest.raises(InputError, match=f"^{type(model).__name__} does not keep packed rows apart: .*; set packing"):
        make_trainer(tmp_path, model, **PACKING)
    make_trainer(tmp_path, model)


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (Dataset.from_list([]), {}, "train_dataset has no rows"),
        (tiny_rows(3), {"dataloader_drop_last": True}, "has 3 rows, fewer than a batch of 8"),
        (tiny_rows(), {"max_steps": 0}, "max_steps is 0"),
    ],
)
def test_rows_that_give_no_step_are_refused(tmp_path, rows, arguments, message):
    from instruct import EMOTrainer

    with pytest.raises(ValueError, match=message):
        EMOTrainer(tiny_model(), quiet_config(tmp_path, **arguments), train_dataset=rows)


@pytest.mark.parametrize(("rows", "tokenizer"), [(tiny_rows(), None), (conversations(), chat_tokenizer())])
def test_rows_without_a_token_to_train_on_within_max_length_are_refused(tmp_path, rows, tokenizer):
    with pytest.raises(InputError, match=r"^train dataset: no row has a token to train on within max_length 2; raise"):
        make_trainer(tmp_path, rows=rows, tokenizer=tokenizer, max_length=2)


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
        ("llama", None),
        ("modernbert-decoder", None),
        ("deepseek_v4", "o_a_proj"),
        ("mamba", "out_proj"),
        ("qwen3_5", r"model\.visual"),
        ("llama4_text", "router"),
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
    if frozen is None:
        assert "stay frozen" not in said
        return
    assert re.search(rf"LoRA: .*{frozen}.* of {kind} stay frozen: ", said)
    assert not [name for name in adapted if re.search(rf"\.{frozen}(\.|$)", name)]
    assert [name for name, _ in network.named_parameters() if re.search(rf"(^|\.){frozen}\.", name)]
