"""The keys that TRL and PEFT define: each is known to change the result of training, or not to."""

from __future__ import annotations

import json

import pytest

from instruct.base.errors import InputError
from instruct.config import check_train_arguments, make_config
from instruct.phases.experiment import steps_of
from instruct.phases.steps import start_or_continue
from instruct.run.directory import RunDirectory
from instruct.training.emo_config import REFUSED
from instruct.training.options import LORA_KEYS, TRAIN_KEYS

OBEYED = """
    accelerator_config activation_offloading adam_beta1 adam_beta2 adam_epsilon assistant_only_loss
    auto_find_batch_size average_tokens_across_devices bf16 bf16_full_eval chat_template_path chunk_rows
    completion_only_loss data_seed dataloader_drop_last dataloader_in_order dataset_kwargs dataset_text_field
    ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph deepspeed
    empty_thinking eos_token eval_delay
    eval_on_start eval_packing eval_steps eval_strategy fp16 fp16_full_eval fsdp fsdp_config full_determinism
    gradient_accumulation_steps gradient_checkpointing
    gradient_checkpointing_kwargs greater_is_better learning_rate length_column_name
    liger_kernel_config load_best_model_at_end lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_length
    max_steps metric_for_best_model model_init_kwargs neftune_noise_alpha num_train_epochs objective
    objective_args on_bad_row optim optim_args optim_target_modules output_dir packing packing_strategy
    pad_to_multiple_of pad_token padding_free parallelism_config patience per_device_eval_batch_size
    per_device_train_batch_size prompt_loss_weight remove_unused_columns restore_callback_states_from_checkpoint
    router_aux_loss_coef save_steps save_strategy seed shuffle_dataset tf32
    torch_compile torch_compile_backend torch_compile_mode train_on train_sampling_strategy transport_cost
    trust_remote_code use_cpu use_liger_kernel warmup_steps weight_decay
"""

AFFECT_AN_ADAPTER = """
    alora_invocation_tokens alpha_pattern arrow_config auto_mapping base_model_name_or_path bias corda_config
    ensure_weight_tying eva_config exclude_modules fan_in_fan_out inference_mode init_lora_weights kasa_config
    layer_replication layers_pattern layers_to_transform loftq_config lora_alpha lora_bias lora_dropout
    lora_ga_config megatron_config megatron_core modules_to_save monteclora_config peft_type peft_version
    qalora_group_size r rank_pattern revision target_modules target_parameters task_type trainable_token_indices
    use_bdlora use_dora use_qalora use_rslora velora_config
"""


# Obeyed with rows and models that are given in Python; the command has its own keys for them.
IN_PYTHON = """
    assistant_only_loss completion_only_loss dataset_kwargs dataset_text_field length_column_name model_init_kwargs
    on_bad_row empty_thinking output_dir resume_from_checkpoint trust_remote_code push_to_hub hub_model_id
    hub_private_repo hub_strategy hub_always_push hub_revision hub_token do_train do_eval do_predict local_rank
"""


@pytest.mark.parametrize(
    ("keys", "affect"), [(TRAIN_KEYS, [*OBEYED.split(), *REFUSED]), (LORA_KEYS, AFFECT_AN_ADAPTER.split())]
)
def test_every_key_is_obeyed_or_refused_or_without_effect_on_results(keys, affect):
    """A new key of TRL or PEFT: add it here, or to `no_result` if a finished training goes on with any value."""
    installed = {*keys.types()}
    assert installed - keys.no_result == {*affect}
    assert keys.no_result <= installed


def test_the_command_refuses_what_it_would_not_read():
    for key in IN_PYTHON.split():
        with pytest.raises(InputError, match=rf"^config\.yaml: train\.{key}\b"):
            check_train_arguments({key: "x"}, "config.yaml")
    check_train_arguments({"max_length": 64}, "config.yaml")


@pytest.fixture
def begun(tmp_path):
    """A training with a checkpoint, as a run and its config."""
    data = {"card": "starter", "eval_fraction": 0.1}
    config = make_config({"name": "one", "data": data, "systems": {"emo": {"objective": "emo"}}}, [], "test")
    run = RunDirectory(tmp_path / "one")
    start_or_continue(run, config.model_dump(mode="json"), steps_of(config))
    run.record("train/emo", {"status": "started", "inputs": {"options": config.trained_with("emo")}})
    (run.folder / "checkpoints" / "emo" / "checkpoint-2").mkdir(parents=True)
    return run, config


def test_a_training_with_checkpoints_refuses_what_changes_its_result_and_goes_on_with_the_rest(begun):
    run, config = begun
    affecting = {*OBEYED.split(), *REFUSED} - {"chat_template_path"}  # it is data.chat_template
    for key in {*TRAIN_KEYS.types()} - {"chat_template_path"}:
        changed = config.model_copy(update={"train": {key: "changed"}})
        inputs = run.manifest()["steps"]["train/emo"]["inputs"]
        if key not in affecting:
            start_or_continue(run, changed.model_dump(mode="json"), steps_of(changed))
            assert changed.trained_with("emo") == inputs["options"], key
            continue
        with pytest.raises(
            InputError, match=rf": train\.{key} was not set and is .* now, but train/emo .*`redo` train"
        ):
            start_or_continue(run, changed.model_dump(mode="json"), steps_of(changed))


OTHERS = {"lora.r": 4, "model.name": "gpt2", "data.limit": 3, "systems.emo.seed": 2}


@pytest.mark.parametrize("key", OTHERS)
def test_it_refuses_other_sections_keys_until_it_is_to_be_made_again(begun, key):
    run, config = begun
    changed = make_config(config.model_dump(mode="json"), [f"--{key}", json.dumps(OTHERS[key])], "test")
    with pytest.raises(InputError, match=rf"{key} was .* now, but train/emo has checkpoints; .*`redo` train"):
        start_or_continue(run, changed.model_dump(mode="json"), steps_of(changed))
    assert run.config() == config.model_dump(mode="json")
    start_or_continue(run, changed.model_dump(mode="json"), steps_of(changed), ["train/emo"])
    assert run.config() == changed.model_dump(mode="json")
