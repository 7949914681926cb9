"""Tiny random models of every type that transformers builds as a causal language model, alone or with eyes."""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from instruct.base.networks import model_class, new_network

TYPES = sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES})
VOCABULARY = 288  # the tiny tokenizer's 261, and room for the tokens that stand for images
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "n_embd": 32, "d_model": 32, "dim": 32, "word_embed_proj_dim": 32,
    "intermediate_size": 48, "ffn_dim": 48, "n_inner": 48, "intermediate_size_mlp": 48, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "shared_intermediate_size": 16, "block_ff_dim": 48, "num_hidden_layers": 4,
    "n_layer": 4, "n_layers": 4, "num_layers": 4, "depth": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 8, "max_position_embeddings": 512,
    "n_positions": 512, "n_ctx": 512, "max_seq_len": 512, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_groups": 1, "q_lora_rank": 8,
    "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "linear_num_key_heads": 2,
    "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "mamba_d_ssm": 32,
    "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_num_heads": 4,
    "mamba_head_dim": 8, "ssm_state_size": 8, "state_size": 8, "mamba_chunk_size": 16, "chunk_size": 16,
    "lru_width": 32, "out_hidden_size": 32, "num_position_embeddings": 16, "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 0, "first_k_dense_replace": 1,
    "image_size": 16, "patch_size": 8, "sliding_window": 64, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": 1, "expand": 2, "text_hidden_size": 32, "output_hidden_size": 32, "temporal_patch_size": 1,
    "moe_shared_expert_intermediate_size": 16, "moe_latent_size": None, "num_global_key_value_heads": 2,
}  # fmt: skip
# What the rule above does not find.
MORE: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v3": {"num_key_value_heads": 4},
    "gpt2": {"n_inner": None},
    "llama4": {"text_config": {"interleave_moe_layer_step": 1, "attention_chunk_size": 64}},
    "llama4_text": {"interleave_moe_layer_step": 1, "attention_chunk_size": 64},
    "granitemoehybrid": {"mamba_n_heads": 8, "layer_types": ["mamba", "attention", "mamba", "attention"]},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "moe", "mamba"]},
}
IMAGES = ("image_token_id", "image_token_index", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def tiny_config(kind: str) -> Any:
    """The type's config with its defaults, and the sizes above wherever it has them."""
    cls = CONFIG_MAPPING[kind]
    small = _shrunk(cls().to_dict())
    for key, value in MORE.get(kind, {}).items():
        small[key] = {**small[key], **value} if isinstance(value, dict) else value
    return cls(**small)


def _shrunk(values: dict[str, Any]) -> dict[str, Any]:
    small: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key.endswith("_config") and "model_type" in value:
            small[key] = {**_shrunk(value), "model_type": value["model_type"]}
        elif key in IMAGES:
            small[key] = VOCABULARY - 1 - IMAGES.index(key)
        elif key in SIZES:
            small[key] = SIZES[key]
    return small


def tiny_network(kind: str) -> PreTrainedModel:
    """Random weights, recurrent parameters, norms and biases too, large enough for logits that differ."""
    config = tiny_config(kind)
    config.architectures = [_architecture(kind)]
    torch.manual_seed(0)
    network = new_network(config).float()
    assert type(network) is model_class(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network


def _architecture(kind: str) -> str:
    """What a checkpoint of the type names: the class that sees, if there is one."""
    named = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind) or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    return named if isinstance(named, str) else named[0]
