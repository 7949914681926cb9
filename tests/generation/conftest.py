"""A tiny Llama with a tokenizer and a chat template, made from a config, and LoRA adapters that change what it says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

CHAT = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def save_tokenizer(folder: Path) -> int:
    """A byte-level tokenizer whose end of text and end of turn are different tokens; its vocabulary's size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|eos|>", "<|start|>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        ["a few words to learn"], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet)
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|eos|>", pad_token="<|pad|>", chat_template=CHAT
    )
    wrapped.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|end|>"]})
    wrapped.save_pretrained(folder)
    return len(wrapped)


def save_model(folder: Path, seed: int = 0) -> Path:
    """Two layers, hidden 32, a context of 512; weights large enough for answers that differ."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = save_tokenizer(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def save_adapter(model: str | Path, folder: Path, seed: int, scale: float, rank: int = 4, **options: Any) -> Path:
    """A LoRA adapter whose B is not zero, as if it had been trained."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj", "down_proj"], **options)
    adapted = get_peft_model(base, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=scale)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture
def answer_command() -> Callable[..., list[str]]:
    """`generate_answers` with the chat template as a process of its own, which can be killed."""

    def command(
        model: str, systems: dict[str, Path | None], prompts: Sequence[Any], config: Any, out: Path
    ) -> list[str]:
        code = f"""
from pathlib import Path, PosixPath
from instruct.data.evaluation import EvalPrompt
from instruct.generation.answers import GenerationConfig, generate_answers
generate_answers({model!r}, {systems!r}, {prompts!r}, "chat", GenerationConfig(**{config.model_dump()!r}), {out!r})
"""
        return [sys.executable, "-c", code]

    return command


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """These models are too small for threads, which only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_adapters(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return {name: save_adapter(tiny_model, folder / name, seed, 0.5) for seed, name in enumerate(("mle", "emo"), 1)}


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Path]:
    return save_model


@pytest.fixture(scope="session")
def make_adapter() -> Callable[..., Path]:
    return save_adapter
