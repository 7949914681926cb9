"""What cannot be right is refused when the trainer is made, and the message names the remedy."""

from __future__ import annotations

import pytest
import torch
from accelerate.parallelism_config import ParallelismConfig
from datasets import Dataset
from peft import IA3Config, LoraConfig
from tiny import make_trainer, quiet_config, tiny_model, tiny_rows, tiny_tokenizer
from transformers import T5Config, T5ForConditionalGeneration

from instruct import EMOConfig, EMOTrainer
from instruct.base.errors import InputError
from instruct.training.head import output_head
from instruct.training.trained import planned_network


def test_a_loss_of_ligers_is_refused(tmp_path):
    arguments = {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}}
    with pytest.raises(ValueError, match=r"fused_linear_cross_entropy .* remove it from liger_kernel_config"):
        make_trainer(tmp_path, **arguments)


@pytest.mark.filterwarnings("ignore:.compute_loss_func. is deprecated:FutureWarning")  # TRL says so before
def test_a_custom_loss_function_is_refused(tmp_path):
    with pytest.raises(ValueError, match="compute_loss_func would replace the objective; drop it"):
        make_trainer(tmp_path, compute_loss_func=lambda outputs, labels, num_items_in_batch: outputs.logits.sum())


def test_activation_offloading_without_a_gpu_is_refused(tmp_path):
    if torch.accelerator.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match=r"activation_offloading .* set it to False"):
        make_trainer(tmp_path, activation_offloading=True)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"cp_size": 2}, "context parallelism .* set cp_size to 1"),
        (ParallelismConfig(sp_size=2, sp_backend="deepspeed"), "sequence parallelism .* set sp_size to 1"),
        ({"tp_size": 2}, "tensor parallelism .* set tp_size to 1"),
        ({"cpsize": 2}, "parallelism_config: .*cpsize"),
    ],
)
def test_parallelism_that_splits_rows_or_the_head_is_refused(tmp_path, sizes, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, parallelism_config=sizes)
    quiet_config(tmp_path, parallelism_config=ParallelismConfig(dp_replicate_size=2, dp_shard_size=2))


def test_an_unknown_argument_names_the_nearest_ones():
    with pytest.raises(TypeError, match=r"EMOConfig has no argument objectives \(nearest: .*objective"):
        EMOConfig("out", objectives="emo")


@pytest.mark.parametrize("name", ["train_dataset", "eval_dataset"])
def test_a_list_of_rows_is_refused(tmp_path, name):
    rows = [{"prompt": "w1", "completion": " w2"}]
    for given in (rows, tuple(rows), *([{"a": rows}] if name == "eval_dataset" else [])):
        sets = {"train_dataset": tiny_rows(), name: given}
        with pytest.raises(ValueError, match=rf"^{name} is a list; give datasets\.Dataset\.from_list\(rows\)"):
            EMOTrainer(tiny_model(), quiet_config(tmp_path), processing_class=tiny_tokenizer(), **sets)


@pytest.mark.parametrize("columns", ["instruction, answer", "prompt, answer"])
@pytest.mark.parametrize("streamed", [False, True])
def test_rows_of_no_format_are_refused(tmp_path, columns, streamed):
    rows = Dataset.from_list([dict.fromkeys(columns.split(", "), "w1")])
    with pytest.raises(InputError, match=f"train dataset, row 0: columns {columns} match no format"):
        make_trainer(tmp_path, rows=rows.to_iterable_dataset() if streamed else rows)


@pytest.mark.parametrize(
    ("tied", "peft_config"),
    [
        (False, LoraConfig(r=2, target_modules=["lm_head"], task_type="CAUSAL_LM")),
        (False, LoraConfig(r=2, target_modules=[], target_parameters=["lm_head.weight"], task_type="CAUSAL_LM")),
        (True, LoraConfig(r=2, target_modules=["embed_tokens"], ensure_weight_tying=True, task_type="CAUSAL_LM")),
        (False, IA3Config(target_modules=["lm_head"], feedforward_modules=[], task_type="CAUSAL_LM")),
    ],
    ids=["lora", "target-parameters", "ensure-weight-tying", "ia3"],
)
def test_an_adapter_on_the_head_is_refused(tmp_path, tied, peft_config):
    with pytest.raises(ValueError, match=r"lm_head.* never be trained"):
        make_trainer(tmp_path, tiny_model(tied=tied), peft_config=peft_config)


IGNORED = {
    "target_modules": ["q_proj", "qproj"], "target_parameters": ["qproj"], "rank_pattern": {"q_proj": 4, "qproj": 4},
    "alpha_pattern": {"qproj": 4}, "modules_to_save": ["lm_head", "qproj"], "exclude_modules": ["k_proj", "qproj"],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # PEFT names some of them
@pytest.mark.filterwarnings("ignore:You have passed exclude_modules")
@pytest.mark.filterwarnings("ignore:.lora_bias=True. was passed")
@pytest.mark.filterwarnings("ignore:.*[Ee][Vv][Aa]")
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        *((option, value, r"has qproj, .* \(nearest: .*_proj.*; remove") for option, value in IGNORED.items()),
        ("exclude_modules", "layers[.]9", "layers.*9, which is nowhere in the model"),
        ("init_lora_weights", "eva", "eva starts as true does"),
        ("init_lora_weights", "lora_ga", "lora_ga starts as true does"),
        ("alora_invocation_tokens", [3, 4], "no engine answers"),
        ("lora_bias", True, "a layer without a bias"),
    ],
)
def test_an_adapter_that_is_not_what_its_config_says_is_refused(tmp_path, option, value, message):
    config = {"target_modules": ["q_proj"], "r": 2, "task_type": "CAUSAL_LM", option: value}
    with pytest.raises(ValueError, match=f"^{option}: .*{message}"):
        make_trainer(tmp_path / "python", tiny_model(tied=False), peft_config=LoraConfig(**config))
    with pytest.raises(InputError, match=f"^lora: {option}: .*{message}"):
        planned_network(tiny_model(tied=False).to("meta"), LoraConfig(**config))


def test_names_that_peft_finds_are_taken(tmp_path):
    network = planned_network(
        tiny_model(tied=False).to("meta"),
        LoraConfig(
            target_modules=["layers.0.self_attn.q_proj", "k_proj", "up_proj"],
            rank_pattern={r"layers\.0.*q_proj": 4},
            alpha_pattern={"^model.layers.1.self_attn.k_proj": 4},
            modules_to_save=["head"],
            exclude_modules=["layers.1.mlp.up_proj"],
            task_type="CAUSAL_LM",
        ),
    )
    assert len(network.base_model.targeted_module_names) == 4


def test_an_adapter_injected_by_transformers_itself_is_refused(tmp_path):
    """Such a model is not a PeftModel, and TRL would train without the adapter."""
    model = tiny_model(tied=False)
    model.add_adapter(LoraConfig(r=2, target_modules=["lm_head"]))
    with pytest.raises(InputError, match="an adapter on lm_head"):
        make_trainer(tmp_path, model)


def test_a_loss_without_a_trained_weight_is_refused(tmp_path):
    with pytest.raises(InputError, match="llama: its loss depends on no weight that is trained"):
        make_trainer(tmp_path, tiny_model().requires_grad_(False)).train()


def test_an_encoder_decoder_is_refused():
    config = T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=16)
    with pytest.raises(InputError, match="encoder-decoder; name a causal language model"):
        output_head(T5ForConditionalGeneration(config))


def test_a_quantized_head_is_refused():
    """bitsandbytes keeps integers under `weight`; by default it does not quantize the head."""
    model = tiny_model(tied=False)
    model.lm_head.weight = torch.nn.Parameter(torch.zeros(64, 32, dtype=torch.int8), requires_grad=False)
    with pytest.raises(InputError, match=r"quantized lm_head \(Linear, torch.int8\): .*llm_int8_skip_modules"):
        output_head(model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "emd"}, "unknown objective 'emd'; use mle, emo"),
        ({"objective": "mixce", "objective_args": {"gamma": 2.0}}, "gamma is 2.0"),
        ({"objective": "focal", "objective_args": {"beta": 1}}, "objective focal: .*'beta'; correct objective_args"),
        ({"objective": "power", "objective_args": {"k": 0}}, "k is 0; it must be above 0"),
        ({"objective": "power", "objective_args": {"threshold": 2.0}}, "threshold is 2.0; it must be a probability"),
        ({"objective": "label_smoothing", "objective_args": {"epsilon": 1.5}}, "epsilon is 1.5; it must lie between"),
        ({"transport_cost": "fix"}, "'fix': no such file or folder; use fixed, or the path"),
    ],
)
def test_an_invalid_value_in_the_config_is_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        quiet_config(tmp_path, **arguments)
