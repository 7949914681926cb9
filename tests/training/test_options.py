"""The keys that TRL and PEFT define: each is known to change the result of training, or not to."""

from __future__ import annotations

import pytest

from instruct.training.options import LORA_KEYS, TRAIN_KEYS

AFFECT_TRAINING = """
    accelerator_config activation_offloading adam_beta1 adam_beta2 adam_epsilon assistant_only_loss
    auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval chat_template_path
    chunk_rows completion_only_loss data_seed dataloader_drop_last dataloader_in_order dataset_kwargs
    dataset_text_field ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters
    ddp_static_graph deepspeed do_eval do_predict do_train emo_emphasis emo_variant energy_dim energy_weight
    ent_threshold eos_token eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_packing
    eval_steps eval_strategy eval_use_gather_object fp16 fp16_full_eval fsdp fsdp_config full_determinism gamma
    goldfish_context goldfish_k gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs
    greater_is_better hub_always_push hub_revision hub_strategy hub_token ignore_data_skip include_for_metrics
    label_names label_smoothing_factor learning_rate length_column_name liger_kernel_config load_best_model_at_end
    local_rank loss_type lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_length max_steps
    metric_for_best_model model_init_kwargs neftune_noise_alpha num_train_epochs objective optim optim_args
    optim_target_modules output_dir packing packing_strategy pad_to_multiple_of pad_token padding_free
    parallelism_config patience per_device_eval_batch_size per_device_train_batch_size prediction_loss_only
    remove_unused_columns restore_callback_states_from_checkpoint resume_from_checkpoint router_aux_loss_coef
    save_only_model save_steps save_strategy seed shuffle_dataset tailr_variant tf32 torch_compile
    torch_compile_backend torch_compile_mode train_on train_sampling_strategy transport_cost truncation_mode
    trust_remote_code use_cache use_cpu use_liger_kernel warmup_steps weight_decay
    empty_thinking objective_args on_bad_row
"""

AFFECT_AN_ADAPTER = """
    alora_invocation_tokens alpha_pattern arrow_config auto_mapping base_model_name_or_path bias corda_config
    ensure_weight_tying eva_config exclude_modules fan_in_fan_out inference_mode init_lora_weights kasa_config
    layer_replication layers_pattern layers_to_transform loftq_config lora_alpha lora_bias lora_dropout
    lora_ga_config megatron_config megatron_core modules_to_save monteclora_config peft_type peft_version
    qalora_group_size r rank_pattern revision target_modules target_parameters task_type trainable_token_indices
    use_bdlora use_dora use_qalora use_rslora velora_config
"""


@pytest.mark.parametrize(("keys", "affect"), [(TRAIN_KEYS, AFFECT_TRAINING), (LORA_KEYS, AFFECT_AN_ADAPTER)])
def test_every_key_is_classified(keys, affect):
    """A new key of TRL or PEFT: add it here, or to `no_result` if a finished training goes on with any value."""
    installed = {*keys.types()}
    assert installed - keys.no_result - {*affect.split()} == set()
    assert keys.no_result & {*affect.split()} == set()
    assert keys.no_result <= installed
