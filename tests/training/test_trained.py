"""What an adapter on all linear layers leaves frozen, for every type of model that is tested."""

from __future__ import annotations

import re

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from population import _architecture, tiny_config, tiny_network
from test_population import GREEN
from tiny import make_trainer, tiny_model
from train_configs import tiny_config as experiment
from train_configs import write_rows

from instruct.base.errors import InputError
from instruct.base.networks import new_network
from instruct.base.output import log_once, printed_log
from instruct.phases.train import check_training
from instruct.training.checks import leave_layers_out
from instruct.training.trained import ALL_LINEAR, left_frozen, planned_network

ROWS = [{"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8]}]
EXPERTS = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]


@pytest.fixture(autouse=True)
def _nothing_is_told():
    log_once.cache_clear()


def empty(kind: str):
    config = tiny_config(kind)
    config.architectures = [_architecture(kind)]
    with torch.device("meta"):
        return new_network(config)


def adapted(kind: str, **options):
    """A model without weights, as PEFT plans it with an adapter on all linear layers."""
    config = LoraConfig(**{"target_modules": ALL_LINEAR, "r": 2, **options})
    network = empty(kind)
    leave_layers_out(config, network)
    return planned_network(network, config)


@pytest.mark.parametrize("kind", GREEN)
def test_what_stays_frozen_is_what_peft_does_not_target(kind):
    network, planned = empty(kind), adapted(kind)
    targeted = set(planned.base_model.targeted_module_names)
    targeted |= {name.removesuffix(".weight") for name in planned.base_model.targeted_parameter_names}
    linear = {name for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)}
    experts = {name for name, _ in network.named_parameters() if re.search(r"\.experts\.\w*_proj$", name)}
    excluded = planned.active_peft_config.exclude_modules or "(?!)"
    left = {name for name in (linear | experts) - targeted if not re.fullmatch(rf"{excluded}|(.*\.)?lm_head", name)}
    names = {".".join(f"{name}{'.weight' if name in linear else ''}".split(".")[-3:]) for name in left}
    assert left_frozen(planned) == sorted(names)
    if names:
        assert left_frozen(adapted(kind, target_parameters=sorted(names))) == []


def test_what_all_linear_leaves_frozen_is_told_once_with_the_number_of_parameters(tmp_path, printed):
    def trainer(name: str, **options):
        config = LoraConfig(**{"target_modules": ALL_LINEAR, "r": 2, **options})
        return make_trainer(tmp_path / name, tiny_network("gpt_oss"), rows=Dataset.from_list(ROWS), peft_config=config)

    model = trainer("a").model
    first = printed.readouterr()
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert f"trained   {trained:,} of {sum(weight.numel() for weight in model.parameters()):,} parameters" in first.out
    assert f"all-linear leaves frozen, of gpt_oss: {', '.join(EXPERTS)}; to train them, add" in first.err
    for name, options in (("b", {}), ("c", {"target_parameters": EXPERTS}), ("d", {"target_modules": ["q_proj"]})):
        trainer(name, **options)
        assert "frozen" not in printed.readouterr().err


@pytest.mark.parametrize("row", [0.0, 1e-23])
def test_an_end_token_that_cannot_be_learned_is_told_before_training(tmp_path, printed, row):
    def said(name: str, **options) -> str:
        model = tiny_model(tied=False)
        model.lm_head.weight.data[2] = row
        config = LoraConfig(r=2, target_modules=ALL_LINEAR, **options) if name != "full" else None
        make_trainer(tmp_path / name, model, peft_config=config)
        return printed.readouterr().err

    assert re.search(r"end token </s> .*cannot learn to stop; add lm_head to modules_to_save", said("lora"))
    for name, options in (("saved", {"modules_to_save": ["lm_head"]}), ("full", {})):
        assert "learn to stop" not in said(name, **options)


def test_a_run_refuses_before_training_what_peft_or_the_engine_does_not_take(tmp_path, tiny_model_folder, capsys):
    folder, rows = tmp_path / "model", write_rows(tmp_path / "rows.jsonl", 4)
    wrong = experiment(tiny_model_folder, rows, lora={"target_modules": ["nothing"]})
    with pytest.raises(InputError, match=r"^lora: Target modules .*nothing.* not found"):
        check_training(wrong, tmp_path / "run")
    tiny_network("gpt_oss").save_pretrained(folder)
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder)
    answers = {"files": [rows], "generation": {"engine": "vllm"}}
    experts = experiment(folder, rows, lora={"r": 2, "target_parameters": EXPERTS}, answers=answers)
    with pytest.raises(
        InputError, match=r"^answers\.generation\.engine: vLLM does not serve .*; set it to transformers"
    ):
        check_training(experts, tmp_path / "run", answers=True)
    with printed_log():
        check_training(experts, tmp_path / "run")
    assert re.search(r"trained   [\d,]+ of [\d,]+ parameters", capsys.readouterr().out)
