"""Tiny random models of every type that transformers builds as a causal language model, alone or with eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoTokenizer, PreTrainedModel
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
    "rotary_dim": 8, "embed_dim": 32, "layers": 4, "attention_heads": 4, "encoder_hash_byte_group_vocab": 64,
    "ffn_hidden_size": 48, "expert_ffn_hidden_size": 16, "encoder_layers": 2, "decoder_layers": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_experts_per_token": 2, "is_decoder": True, "hc_lowrank": 8,
    "hidden_size_global": 32, "linear_num_heads": 4, "linear_head_dim": 8,
}  # fmt: skip
# Of these, what a wider model has more of.
WIDTHS = {key for key, size in SIZES.items() if size in (8, 16, 32, 48)} - {
    "chunk_size", "image_size", "mamba_chunk_size", "num_position_embeddings", "patch_size",
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 1e4}
# Parts of half a head that rotate by time, height and width.
SECTIONS, TIME_LAST = {**ROPE, "mrope_section": [2, 1, 1]}, {**ROPE, "mrope_section": [1, 1, 2]}
IMAGE = {"vocabulary_map": {"<image>": VOCABULARY - 1}}
SHARED = {"text_config": {"num_kv_shared_layers": 4, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}}
INDEXER = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}  # fmt: skip
# Parts that a config has not by default, and their types.
PARTS = {
    "diffusion_gemma": {"vision_config": "gemma4_vision"},
    "gemma4_assistant": {"text_config": "gemma4_text"},
    "gemma4_unified_assistant": {"text_config": "gemma4_unified_text"},
    "musicgen": {"text_encoder": "t5", "audio_encoder": "encodec", "decoder": "musicgen_decoder"},
    "musicgen_melody": {"text_encoder": "t5", "audio_encoder": "encodec", "decoder": "musicgen_melody_decoder"},
    "vision-encoder-decoder": {"encoder": "vit", "decoder": "gpt2"},
}
# What the rules do not find.
MORE: dict[str, dict[str, Any]] = {
    **{
        kind: {"text_config": {"rope_parameters": SECTIONS}}
        for kind in (
            "glm46v", "glm4v", "glm_ocr", "glmga", "hunyuan_vl", "paddleocr_vl", "qwen2_5_omni_thinker", "qwen2_5_vl",
            "qwen2_vl",
        )
    },
    "bamba": {"attn_layer_indices": [1], "mamba_n_heads": 8},
    "chameleon": IMAGE,
    "cohere_compass": {"text_config": {"rope_parameters": {"full_attention": TIME_LAST}}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": TIME_LAST}},
    "cwm": {"bos_token_id": 2},
    "dbrx": {"attn_config": {"rope_theta": 1e4, "clip_qkv": 8.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}},
    "diffusion_gemma": {"text_config": {"num_experts": 4, "top_k_experts": 2}},
    "dots1": {"n_shared_experts": 1},
    "emu3": {"text_config": {"bos_token_id": 2}, **IMAGE},
    "ernie4_5_vl_moe": {"text_config": {"rope_parameters": TIME_LAST}},
    "gemma4_assistant": SHARED,
    "gemma4_unified_assistant": SHARED,
    "glm4v_moe": {
        "text_config": {"rope_parameters": {**ROPE, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.5}}
    },
    "glm5_next": {"text_config": {"qk_rope_head_dim": 0}},
    "gpt2": {"n_inner": None},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granite4_vision": {
        "text_config": {"model_type": "granite"}, "deepstack_layer_map": [[1, 1]], "downsample_rate": "1/2",
    },
    "granitemoehybrid": {"mamba_n_heads": 8, "layer_types": ["mamba", "attention", "mamba", "attention"]},
    "inkling_mm_model": {"vision_config": {"patch_size": 40, "temporal_patch_size": 2}},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": {
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "llama4": {"text_config": {"interleave_moe_layer_step": 1, "attention_chunk_size": 64}},
    "llama4_text": {"interleave_moe_layer_step": 1, "attention_chunk_size": 64},
    "mamba2": {"num_heads": 8},
    "mistral4": {"head_dim": 16},
    "mllama": {"text_config": {"bos_token_id": 2}},
    "modernbert-decoder": {"bos_token_id": 2},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "moe", "mamba"]},
    "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2}},
    "plbart": {"num_attention_heads": 4},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "reformer": {"axial_pos_embds": False},
    "xlm": {"causal": True},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
IMAGES = ("image_token_id", "image_token_index", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def tiny_config(kind: str, times: int = 1) -> Any:
    """The type's config with its defaults, and the sizes above wherever it has them; `times` as wide."""
    return CONFIG_MAPPING[kind](**_tiny_values(kind, times))


def _tiny_values(kind: str, times: int) -> dict[str, Any]:
    parts = {key: {**_tiny_values(part, times), "model_type": part} for key, part in PARTS.get(kind, {}).items()}
    try:
        small = _shrunk(CONFIG_MAPPING[kind]().to_dict(), times)
    except Exception:  # it is nothing without its parts
        small = {}
    small |= parts
    for key, value in MORE.get(kind, {}).items():
        small[key] = {**small.get(key, {}), **value} if isinstance(value, dict) else value
    return small


def _shrunk(values: dict[str, Any], times: int) -> dict[str, Any]:
    small: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key.endswith(("_config", "coder")) and "model_type" in value:
            small[key] = {**_shrunk(value, times), "model_type": value["model_type"]}
        elif key in IMAGES:
            small[key] = VOCABULARY - 1 - IMAGES.index(key)
        elif key in SIZES:
            size = SIZES[key] * times if key in WIDTHS else SIZES[key]
            small[key] = [size] * len(value) if isinstance(value, list) and len(value) <= 4 else size
        elif key == "rope_parameters" and "mrope_section" in value:
            small[key] = {**value, "mrope_section": [part * times for part in SECTIONS["mrope_section"]]}
    if "kv_lora_rank" in values:  # latent attention has a key and a value for each head
        small["num_key_value_heads"] = SIZES["num_attention_heads"]
    return small


def tiny_network(kind: str, times: int = 1) -> PreTrainedModel:
    """Random weights, recurrent parameters, norms and biases too, large enough for logits that differ."""
    config = tiny_config(kind, times)
    config.architectures = [_architecture(kind)]
    torch.manual_seed(0)
    network = new_network(config).float()
    assert type(network) is model_class(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network


def saved_model(kind: str, folder: Path, tokenizer: Path, times: int = 1) -> Path:
    """Such a network with a tokenizer, in a folder inside this one."""
    tiny_network(kind, times).save_pretrained(folder / "model")
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder / "model")
    return folder / "model"


def _architecture(kind: str) -> str:
    """What a checkpoint of the type names: the class that sees, if there is one."""
    if kind in ("musicgen", "musicgen_melody"):  # their causal language model has another config
        return f"{kind.title().replace('_', '')}ForConditionalGeneration"
    named = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind) or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    return named if isinstance(named, str) else named[0]
