"""Mixtures of experts, PEFT's adapters and vision-language models, each as TRL's SFTTrainer trains it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PrefixTuningConfig, PromptTuningConfig
from population import tiny_network
from tiny import (
    SIZES,
    VOCABULARY,
    assert_like_trl,
    make_trainer,
    tiny_rows,
    tiny_tokenizer,
)
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError


def test_the_auxiliary_loss_of_a_mixture_of_experts(tmp_path):
    assert_like_trl(tmp_path, lambda: tiny_network("qwen3_moe"), router_aux_loss_coef=0.5)


def lora(**arguments: Any) -> LoraConfig:
    return LoraConfig(**{"r": 2, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", **arguments})


@pytest.mark.parametrize(
    "peft_config",
    [
        lora(),
        lora(use_dora=True),
        lora(modules_to_save=["lm_head"]),
        lora(modules_to_save=["embed_tokens"], ensure_weight_tying=True),
        PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    ],
    ids=["lora", "dora", "head", "tied-embedding", "prompt", "prefix"],
)
def test_adapters_train_like_trl(tmp_path, peft_config):
    assert_like_trl(tmp_path, peft_config=peft_config)


def test_qlora_trains_like_trl(tmp_path):
    """4-bit layers under an unquantised head; bitsandbytes, of the GPU requirements, has CPU code too."""
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig, LlamaConfig

    folder = tmp_path / "model"
    AutoModelForCausalLM.from_config(LlamaConfig(**{**SIZES, "hidden_size": 64})).save_pretrained(folder)

    def make(**arguments: Any):
        quantization = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, **arguments
        )
        return AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=quantization, dtype=torch.bfloat16, device_map={"": "cpu"}
        )

    assert_like_trl(tmp_path, make, 2e-2, peft_config=lora())
    with pytest.raises(InputError, match=r"quantized lm_head \(Linear4bit, torch\.uint8\)"):
        make_trainer(tmp_path / "head", make(llm_int8_skip_modules=["none"]), peft_config=lora())


@pytest.mark.slow
def test_a_vision_language_model_trains_like_trl(tmp_path):
    import numpy
    from PIL import Image
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}),
        tokenizer=tokenizer, patch_size=4, vision_feature_select_strategy="default", num_additional_image_tokens=1,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4
    )
    config = LlavaConfig(
        vision_config=vision, text_config=LlamaConfig(**{**SIZES, "vocab_size": VOCABULARY + 1}),
        image_token_id=VOCABULARY, image_seq_length=4, vision_feature_layer=-1,
    )  # fmt: skip

    def make():
        torch.manual_seed(0)
        return LlavaForConditionalGeneration(config).float()

    pixels = numpy.random.default_rng(0)
    rows = Dataset.from_list(
        [
            {**row, "prompt": "<image> " + row["prompt"], "images": [Image.fromarray(picture)]}
            for row, picture in zip(tiny_rows(), pixels.integers(0, 255, (8, 8, 8, 3), dtype=numpy.uint8), strict=True)
        ]
    )
    assert_like_trl(tmp_path, make, 1e-4, rows=rows, tokenizer=processor, max_length=None)
