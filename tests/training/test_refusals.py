"""What cannot be right is refused when the trainer is made, and the message names the remedy."""

from __future__ import annotations

import pytest
from peft import LoraConfig
from tiny import make_trainer, quiet_config, tiny_model

from instruct.base.errors import InputError
from instruct.training.trained import planned_network


def test_a_loss_of_ligers_is_refused(tmp_path):
    arguments = {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}}
    with pytest.raises(ValueError, match=r"fused_linear_cross_entropy .* remove it from liger_kernel_config"):
        make_trainer(tmp_path, **arguments)


@pytest.mark.filterwarnings("ignore:.compute_loss_func. is deprecated:FutureWarning")  # TRL says so before
def test_a_custom_loss_function_is_refused(tmp_path):
    with pytest.raises(ValueError, match="compute_loss_func would replace the objective; drop it"):
        make_trainer(tmp_path, compute_loss_func=lambda outputs, labels, num_items_in_batch: outputs.logits.sum())


def test_parallelism_that_splits_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"context parallelism .* set cp_size to 1"):
        make_trainer(tmp_path, parallelism_config={"cp_size": 2})


@pytest.mark.parametrize(
    ("tied", "peft_config"),
    [
        (False, LoraConfig(r=2, target_modules=["lm_head"], task_type="CAUSAL_LM")),
        (True, LoraConfig(r=2, target_modules=["embed_tokens"], ensure_weight_tying=True, task_type="CAUSAL_LM")),
    ],
    ids=["lora", "ensure-weight-tying"],
)
def test_an_adapter_on_the_head_is_refused(tmp_path, tied, peft_config):
    with pytest.raises(ValueError, match=r"lm_head.* never be trained"):
        make_trainer(tmp_path, tiny_model(tied=tied), peft_config=peft_config)


@pytest.mark.filterwarnings("ignore:.*[Ee][Vv][Aa]")
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("target_modules", ["q_proj", "qproj"], r"has qproj, .* \(nearest: .*_proj.*; remove"),
        ("init_lora_weights", "eva", "eva starts as true does"),
        ("alora_invocation_tokens", [3, 4], "no engine answers"),
    ],
)
def test_an_adapter_that_is_not_what_its_config_says_is_refused(tmp_path, option, value, message):
    config = {"target_modules": ["q_proj"], "r": 2, "task_type": "CAUSAL_LM", option: value}
    with pytest.raises(ValueError, match=f"^{option}: .*{message}"):
        make_trainer(tmp_path / "python", tiny_model(tied=False), peft_config=LoraConfig(**config))
    with pytest.raises(InputError, match=f"^lora: {option}: .*{message}"):
        planned_network(tiny_model(tied=False).to("meta"), LoraConfig(**config))


def test_a_loss_without_a_trained_weight_is_refused(tmp_path):
    with pytest.raises(InputError, match="llama: its loss depends on no weight that is trained"):
        make_trainer(tmp_path, tiny_model().requires_grad_(False)).train()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "emd"}, "unknown objective 'emd'; use mle, emo"),
        ({"objective": "focal", "objective_args": {"beta": 1}}, "objective focal: .*'beta'; correct objective_args"),
        ({"label_smoothing_factor": 0.1}, "^label_smoothing_factor="),
        ({"transport_cost": "fix"}, "'fix': no such file or folder; use fixed, or the path"),
    ],
)
def test_an_invalid_value_in_the_config_is_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        quiet_config(tmp_path, **arguments)
