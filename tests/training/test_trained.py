"""Which matrices of a model train, by kind, for every type of model that is tested."""

from __future__ import annotations

import re

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from population import _architecture, tiny_config, tiny_network
from test_population import GREEN
from tiny import make_trainer
from train_configs import tiny_config as experiment
from train_configs import write_rows

from instruct.base.errors import InputError
from instruct.base.networks import new_network
from instruct.base.output import log_once, printed_log
from instruct.phases.train import check_training
from instruct.training import trained
from instruct.training.checks import leave_layers_out
from instruct.training.trained import planned_network, trained_line, trained_matrices

ROWS = [{"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8]}]
EXPERTS = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
# What the names of matrices say outside of towers that see, where they say it.
NAMED = {
    "attention": r"(self_attn|attn)\.(?!conv)\w+\.weight$|\.mixer\.[qkvo]_proj\.weight$",
    "MLP": r"(mlp|feed_forward|shared_mlp|shared_experts?)\.(?!gate\.)\w+\.weight$|\.fc[12]\.weight$",
    "experts": r"\.experts\.(gate_up|up|down)_proj$",
    "router": r"\.(gate|router|shared_expert_gate)\.weight$",
    trained.STATE: r"\.(linear_attn|mamba|conv)\.|\.layers\.\d\.mixer\.(in_proj|x_proj|dt_proj|out_proj|conv1d|A_log)",
    trained.ENDS: r"(embed_tokens\w*|embed_positions|embeddings|wte|wpe|lm_head|per_layer_model_projection)\.weight$",
    "other": r"\.per_layer_(input_gate|projection)\.weight$",
}


@pytest.fixture(autouse=True)
def _nothing_is_told():
    log_once.cache_clear()


def empty(kind: str):
    config = tiny_config(kind)
    config.architectures = [_architecture(kind)]
    with torch.device("meta"):
        return new_network(config)


@pytest.mark.parametrize("kind", GREEN)
def test_every_matrix_is_of_the_kind_that_its_name_says(kind):
    network = empty(kind)
    counted = trained_matrices(network)
    listed = [name for matrices in counted.values() for name in matrices.parameters]
    shapes = {name: weight.shape for name, weight in network.named_parameters()}
    assert sorted(listed) == sorted(name for name, shape in shapes.items() if len(shape) > 1 and name[-4:] != "bias")
    sees = {name for name in listed if re.search(r"visi|visual|multi_modal", name)}
    assert sees == set(counted[trained.SEES].parameters if trained.SEES in counted else ())
    for named, pattern in NAMED.items():
        of_kind = set(counted[named].parameters if named in counted else ())
        said = {name for name in set(listed) - sees if re.search(pattern, name)}
        if named in ("attention", "MLP"):  # of which other kinds' names are parts
            said -= {name for name in said if re.search(NAMED[trained.STATE] + "|" + NAMED["router"], name)}
        assert of_kind == said, named
    if "experts" in counted:
        assert counted["experts"].number == sum(shapes[name][0] for name in counted["experts"].parameters)
    assert trained_line(network, counted) == f"full fine-tuning: all {sum(m.number for m in counted.values())} matrices"


@pytest.mark.parametrize(
    ("kind", "options", "line", "warned"),
    [
        ("llama", {}, "LoRA: attention 16 of 16, MLP 12 of 12, embeddings/head 0 of 2 (frozen)", None),
        ("gpt_oss", {}, "experts 0 of 32 (frozen)", f"the experts .* add {', '.join(EXPERTS)} to target_parameters"),
        ("gpt_oss", {"target_parameters": EXPERTS}, "experts 32 of 32", None),
        (
            "deepseek_v3",
            {},
            "MLP 0 of 12 (frozen), experts 24 of 24",
            "MLP .* shared_experts.up_proj.weight to target_p",
        ),
        ("qwen3_moe", {}, "experts 32 of 32, router 4 of 4", None),
        ("lfm2", {"target_modules": ["q_proj"]}, "MLP 0 of 12 (frozen)", "MLP .* add w1, w2, w3 to target_modules"),
        ("llama", {"modules_to_save": ["lm_head"]}, "embeddings/head 1 of 2", None),
        ("qwen3_5", {}, "vision/audio 0 of 12 (frozen)", None),
    ],
)
def test_the_plan_counts_adapters_and_warns_of_frozen_layers(printed, kind, options, line, warned):
    config = LoraConfig(**{"target_modules": "all-linear", "r": 2, **options})
    network = empty(kind)
    leave_layers_out(config, network)
    counted = trained.report_trained(planned_network(network, config))
    said = printed.readouterr()
    assert line in said.out.replace("\n", " ")
    assert trained_matrices(empty(kind)).keys() == counted.keys()
    frozen = " ".join(said.err.split())
    assert re.search(warned, frozen) if warned else not frozen


def test_what_a_plan_asks_for_trains_the_layers_that_were_frozen():
    network, config = empty("deepseek_v3"), LoraConfig(target_modules="all-linear", r=2)
    names = [".".join(name.split(".")[-3:]) for name in trained_matrices(network)["MLP"].parameters]
    config.target_parameters = sorted(set(names))
    counted = trained_matrices(planned_network(network, config))
    assert counted["MLP"].trained == counted["MLP"].number
    assert counted["experts"].trained == counted["experts"].number


def test_a_trainer_says_once_what_trains_and_trains_that(tmp_path, printed):
    def trainer(name: str, **options):
        config = LoraConfig(target_modules="all-linear", r=2, **options)
        return make_trainer(tmp_path / name, tiny_network("gpt_oss"), rows=Dataset.from_list(ROWS), peft_config=config)

    trainer("a")
    first = printed.readouterr()
    assert "experts 0 of 32 (frozen)" in first.out
    assert "stay frozen; to train them, add" in first.err
    trainer("b")
    second = printed.readouterr()
    assert "experts" not in second.out + second.err
    model = trainer("c", target_parameters=EXPERTS).model
    assert "experts 32 of 32" in printed.readouterr().out
    assert sum(weight.requires_grad for name, weight in model.named_parameters() if ".experts." in name) == 4 * 2 * 2


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
    with pytest.raises(InputError, match=r"vLLM does not serve .* set answers\.generation\.engine to transformers"):
        check_training(experts, tmp_path / "run", answers=True)
    with printed_log():
        check_training(experts, tmp_path / "run")
    assert "LoRA: attention 16 of 16, experts 32 of 32" in capsys.readouterr().out
