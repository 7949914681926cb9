"""What an adapter on all linear layers leaves frozen, for every type of model that is tested."""

from __future__ import annotations

import re

import pytest
from datasets import Dataset
from peft import LoraConfig
from population import tiny_network
from tiny import make_trainer, tiny_model

from instruct.base.output import log_once
from instruct.training.trained import ALL_LINEAR

ROWS = [{"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8]}]
EXPERTS = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]


@pytest.fixture(autouse=True)
def _nothing_is_told():
    log_once.cache_clear()


def test_what_all_linear_leaves_frozen_is_told_once_with_the_number_of_parameters(tmp_path, printed):
    def trainer(name: str, **options):
        config = LoraConfig(**{"target_modules": ALL_LINEAR, "r": 2, **options})
        return make_trainer(tmp_path / name, tiny_network("gpt_oss"), rows=Dataset.from_list(ROWS), peft_config=config)

    model = trainer("a").model
    first = printed.readouterr()
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert f"trained   {trained:,} of {sum(weight.numel() for weight in model.parameters()):,} parameters" in first.out
    assert f"all-linear leaves frozen, of gpt_oss: {', '.join(EXPERTS)}; to train them, add" in first.err
    trainer("b", target_parameters=EXPERTS)
    assert "frozen" not in printed.readouterr().err


def test_an_end_token_that_cannot_be_learned_is_told_before_training(tmp_path, printed):
    def said(name: str, **options) -> str:
        model = tiny_model(tied=False)
        model.lm_head.weight.data[2] = 0
        config = LoraConfig(r=2, target_modules=ALL_LINEAR, **options) if name != "full" else None
        make_trainer(tmp_path / name, model, peft_config=config)
        return printed.readouterr().err

    assert re.search(r"end token </s> .*cannot learn to stop; add lm_head to modules_to_save", said("lora"))
    for name, options in (("saved", {"modules_to_save": ["lm_head"]}), ("full", {})):
        assert "learn to stop" not in said(name, **options)
