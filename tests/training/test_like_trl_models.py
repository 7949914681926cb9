"""Mixtures of experts, PEFT's adapters and vision-language models, each as TRL's SFTTrainer trains it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PrefixTuningConfig, PromptTuningConfig
from population import tiny_network
from tiny import (
    CONFIGS,
    SIZES,
    VOCABULARY,
    assert_like_trl,
    make_trainer,
    tiny_model,
    tiny_rows,
    tiny_tokenizer,
)
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError
from instruct.training.head import router_loss


@pytest.mark.parametrize("kind", ["mixtral", "qwen2_moe", "qwen3_moe"])
def test_the_auxiliary_loss_of_a_mixture_of_experts(tmp_path, kind):
    assert_like_trl(tmp_path, lambda: tiny_network(kind), router_aux_loss_coef=0.5)
    trainer = make_trainer(tmp_path / "with", tiny_network(kind), objective="mle", router_aux_loss_coef=0.5)
    trainer.train()
    log = trainer.state.log_history[0]
    assert log["loss"] > log["ce"] + 0.4 * log["aux_loss"] > log["ce"]


@pytest.mark.parametrize("kind", ["granitemoe", "phimoe"])
def test_experts_that_the_config_calls_local_have_an_auxiliary_loss(tmp_path, kind):
    """TRL's own head looks for `num_experts` and fails, so the model's native forward is the reference."""
    model = tiny_network(kind)
    trainer = make_trainer(tmp_path, model, objective="mle", router_aux_loss_coef=0.5)
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    with torch.no_grad():
        model.eval()  # PhiMoE's router is noisy in training
        native = type(model).forward(model, **batch, output_router_logits=True)
        ours = model(**batch, objective_loss=True, output_router_logits=True)
    assert native.aux_loss > 0
    assert float(ours.aux_loss) == pytest.approx(float(native.aux_loss), rel=1e-6)
    trainer.train()
    assert trainer.state.log_history[0]["aux_loss"] == pytest.approx(float(native.aux_loss), rel=0.1)


def test_a_mixture_without_a_number_of_experts_is_refused_with_its_key():
    class Nameless(torch.nn.Module):
        config = CONFIGS["llama"](True)

    with pytest.raises(InputError, match=r"Nameless: .* num_experts or num_local_experts.* router_aux_loss_coef to 0"):
        router_loss(Nameless(), None, {"output_router_logits": True})


def lora(**arguments: Any) -> LoraConfig:
    return LoraConfig(**{"r": 2, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", **arguments})


@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["tied", "untied"])
@pytest.mark.parametrize(
    "peft_config",
    [
        lora(),
        lora(use_dora=True),
        lora(modules_to_save=["lm_head"]),
        lora(modules_to_save=["lm_head", "embed_tokens"]),
        lora(modules_to_save=["embed_tokens"], ensure_weight_tying=True),
        lora(target_modules=["embed_tokens"]),
        PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    ],
    ids=["lora", "dora", "head", "head-embedding", "tied-embedding", "lora-embedding", "prompt", "prefix"],
)
def test_adapters_train_like_trl(tmp_path, tied, peft_config):
    assert_like_trl(tmp_path, lambda: tiny_model(tied=tied), peft_config=peft_config)


@pytest.mark.parametrize("peft_config", [lora(), lora(use_dora=True), lora(modules_to_save=["lm_head"])])
def test_qlora_trains_like_trl(tmp_path, peft_config):
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

    assert_like_trl(tmp_path, make, 2e-2, peft_config=peft_config)
    with pytest.raises(InputError, match=r"quantized lm_head \(Linear4bit, torch\.uint8\)"):
        make_trainer(tmp_path / "head", make(llm_int8_skip_modules=["none"]), peft_config=lora())


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
