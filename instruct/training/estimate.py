"""Rough estimates before training: parameters and time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import model_path
from instruct.training.options import TrainingOptions
from instruct.training.rows import unreachable_model

# The fraction of a matrix product's speed that a whole training step reaches: low on a CPU, where elementwise work and
# LoRA's narrow products take longer.
STEP_EFFICIENCY = {"cpu": 0.15, "cuda": 0.4}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that the estimates need.

    Attributes:
        parameters: all of them.
        outside: those of the embeddings, and of the head if it is not tied to them; the layers have the rest.
        state: the keys and values of a token in each layer, in numbers.
    """

    parameters: int
    outside: int
    layers: int
    hidden: int
    vocabulary: int
    state: int = 0


def model_shape(config: TrainingOptions) -> ModelShape:
    """The base model's sizes, from its config; no weights are read.

    Raises:
        InputError: the config cannot be loaded, or the model is not a causal language model.
    """
    from transformers import AutoConfig

    name = model_path(config.model.name)
    try:
        loaded = AutoConfig.from_pretrained(
            name, revision=config.model.revision, trust_remote_code=config.model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise unreachable_model(config.model.name, error) from None
    return shape_of(loaded, config.model.name)


def shape_of(loaded: Any, name: str) -> ModelShape:
    """The sizes of a model by its transformers config.

    Raises:
        InputError: it is not a causal language model.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(loaded)
    except ValueError:
        raise InputError(f"model {name}: {loaded.model_type} has no lm_head; name a causal language model") from None
    text = loaded.get_text_config()
    ends = {id(end.weight): end.weight.numel() for end in (model.get_input_embeddings(), model.get_output_embeddings())}
    heads = text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    return ModelShape(
        outside=sum(ends.values()),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        vocabulary=text.vocab_size,
        state=2 * (getattr(text, "num_key_value_heads", None) or heads) * width,
    )


def matrix_flops() -> float:
    """FLOP per second of a bfloat16 matrix product on this machine, measured in well under a second."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)
    best = 0.0
    for _ in range(4):
        begun = time.perf_counter()
        (a @ a).sum().item()
        best = max(best, 2 * 2048**3 / (time.perf_counter() - begun))
    return best


def copy_speed() -> float:
    """Bytes per second that this machine reads from the memory of its GPU, else of its processor, and writes there."""
    import torch

    values = torch.zeros(1 << 25, device="cuda" if torch.cuda.is_available() else "cpu")
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        copied = values.clone()
        copied[-1].item()
        best = max(best, 2 * values.nbytes / (time.perf_counter() - begun))
    return best


def training_operations(lengths: Sequence[int], shape: ModelShape, arguments: Any, lora: bool) -> float:
    """The FLOP of a process: 4 per parameter and token with frozen weights, otherwise 6.

    Args:
        lengths: of the rows of an epoch, in tokens.
        arguments: the trainer's.
    """
    rows = len(lengths) * arguments.num_train_epochs
    if arguments.max_steps > 0:
        rows = arguments.max_steps * arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
        rows *= arguments.world_size
    tokens = int(rows * sum(lengths) / len(lengths) / arguments.world_size)
    return tokens * shape.parameters * (4 if lora else 6)


def training_minutes(lengths: Sequence[int], shape: ModelShape, arguments: Any, lora: bool) -> float:
    """The minutes to train on this machine."""
    import torch

    efficiency = STEP_EFFICIENCY["cuda" if torch.cuda.is_available() else "cpu"]
    return training_operations(lengths, shape, arguments, lora) / (matrix_flops() * efficiency) / 60
