"""Rows that would leak into each other, or give no step, are refused when the trainer is made."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from population import tiny_network
from tiny import CONFIGS, SIZES, chat_tokenizer, conversations, make_trainer, quiet_config, tiny_model, tiny_rows
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconH1Config,
    GPT2Config,
    Lfm2Config,
    Mamba2Config,
    MambaConfig,
    OPTConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
)

from instruct.base.errors import InputError
from instruct.base.output import log_once

PACKING = {"packing": True, "max_length": 64}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
EXPERTS |= {"shared_expert_intermediate_size": 16}
LAYERS = {"layer_types": ["linear_attention", "full_attention"]}


def random_model(config: Any):
    """Recurrent parameters, norms and biases are random, too: as they begin, some states carry nothing."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


APART = {
    **{name: config(False) for name, config in CONFIGS.items()},
    "gpt2": GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=2),
}
TOGETHER = {
    "mamba": MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4),
    "mamba2": Mamba2Config(vocab_size=64, hidden_size=32, num_hidden_layers=2, head_dim=16, num_heads=4, n_groups=1),
    "qwen3_5": Qwen3_5TextConfig(**SIZES, head_dim=8, **LINEAR, **LAYERS),
    "qwen3_next": Qwen3NextConfig(**SIZES, head_dim=8, **LINEAR, **LAYERS, **EXPERTS),
    "lfm2": Lfm2Config(**SIZES, layer_types=["conv", "full_attention"]),
    "falcon_h1": FalconH1Config(**SIZES, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8),
    "opt": OPTConfig(
        vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32
    ),
    "bloom": BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4),
}


@pytest.mark.parametrize("name", APART)
def test_models_whose_layers_read_position_ids_may_pack(tmp_path, name):
    make_trainer(tmp_path, random_model(APART[name]), **PACKING)


@pytest.mark.parametrize("name", TOGETHER)
def test_packing_is_refused_where_a_row_sees_the_one_before_it(tmp_path, name):
    model = random_model(TOGETHER[name])
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
