"""Tiny models, rows and trainers for the tests of training, and their gradients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
)
from trl import SFTConfig, SFTTrainer

from instruct import EMOConfig, EMOTrainer

VOCABULARY = 64
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CONFIGS = {
    "llama": lambda tied: LlamaConfig(**SIZES, tie_word_embeddings=tied),
    "gemma2": lambda tied: Gemma2Config(
        **SIZES, head_dim=8, final_logit_softcapping=5.0, sliding_window=64, tie_word_embeddings=tied
    ),
}

# The assistant's words and its end token are marked: {% generation %}.
CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}w1 {% generation %}{{ m.content }} </s>{% endgeneration %} "
    "{% else %}w2 {{ m.content }} {% endif %}{% endfor %}{% if add_generation_prompt %}w1 {% endif %}"
)


def tiny_model(architecture: str = "llama", tied: bool = True):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[architecture](tied), attn_implementation="eager")
    with torch.no_grad():  # the default initialisation is so small that every token is as likely as any other
        for parameter in model.parameters():
            parameter.mul_(5)
    return model.float()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<s>", "</s>", *(f"w{number}" for number in range(VOCABULARY - 3))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="w0"
    )


def tiny_rows(count: int = 8) -> Dataset:
    generator = torch.Generator().manual_seed(1)

    def words(number: int) -> str:
        return " ".join(f"w{index}" for index in torch.randint(0, VOCABULARY - 3, (number,), generator=generator))

    return Dataset.from_list(
        [{"prompt": words(3 + row % 4), "completion": " " + words(2 + row)} for row in range(count)]
    )


def chat_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def conversations() -> Dataset:
    """Multi-turn chats of different lengths."""
    turns = [
        {"role": role, "content": f"w{10 + turn} w{20 + turn}" + " w5" * turn}
        for turn, role in enumerate(["user", "assistant"] * 3)
    ]
    return Dataset.from_list([{"messages": turns[: 2 + 2 * (row % 3)]} for row in range(8)])


def quiet_config(folder: Path, **arguments: Any) -> EMOConfig:
    return EMOConfig(str(folder), **{"report_to": [], "use_cpu": True, "bf16": False, **arguments})


def make_trainer(
    folder: Path, model=None, cls=EMOTrainer, rows: Dataset | None = None, peft_config=None, tokenizer=None, **arguments
):
    """A trainer of one step over all rows at learning rate 0; `arguments` go to its config, some to the trainer."""
    config = SFTConfig if cls is SFTTrainer else EMOConfig
    defaults = {
        "per_device_train_batch_size": 8,
        "max_steps": 1,
        "learning_rate": 0.0,
        "max_length": 64,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "disable_tqdm": True,
        "max_grad_norm": 0.0,
    }
    own = {name: arguments.pop(name) for name in ("compute_loss_func", "eval_dataset") if name in arguments}
    return cls(
        model or tiny_model(),
        config(str(folder), **{**defaults, **arguments}),
        train_dataset=rows or tiny_rows(),
        processing_class=tokenizer or tiny_tokenizer(),
        peft_config=peft_config,
        **own,
    )


def captured_gradients(trainer) -> dict[str, torch.Tensor]:
    """The gradients that the optimizer is handed in the trainer's only step."""
    found: dict[str, torch.Tensor] = {}
    trainer.create_optimizer()
    step = trainer.optimizer.step

    def recording_step(*args, **kwargs):
        for name, parameter in trainer.model.named_parameters():
            if parameter.grad is not None:
                found[name.replace("_orig_mod.", "")] = parameter.grad.detach().clone()  # torch.compile's prefix
        return step(*args, **kwargs)

    trainer.optimizer.step = recording_step
    trainer.train()
    assert found
    return found


def assert_same_gradients(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    whole = math.sqrt(sum(float(grad.double().square().sum()) for grad in expected.values()))
    difference = math.sqrt(sum(float((found[name] - expected[name]).double().square().sum()) for name in expected))
    assert difference / whole <= tolerance


def assert_like_trl(folder: Path, make=tiny_model, tolerance: float = 1e-5, **arguments: Any) -> None:
    """EMOTrainer with cross-entropy gives what SFTTrainer gives: gradients, loss and the number of tokens seen.

    Args:
        tolerance: of the gradients; of the loss, too, if it is wider than float32's.
    """
    theirs = make_trainer(folder / "trl", make(), SFTTrainer, **arguments)
    expected = captured_gradients(theirs)
    ours = make_trainer(folder / "ours", make(), objective="mle", **arguments)
    assert_same_gradients(captured_gradients(ours), expected, tolerance)
    for name in ("loss", "num_tokens"):
        rel = tolerance if tolerance > 1e-5 else 1e-6
        assert ours.state.log_history[0][name] == pytest.approx(theirs.state.log_history[0][name], rel=rel)
