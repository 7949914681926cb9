"""What a training takes, from the model's sizes: steps, and memory as it is spread over processes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions, compute_dtype, model_path
from instruct.base.networks import new_network
from instruct.engines.memory import GIB
from instruct.training.options import LoraOptions
from instruct.training.precision import weights_dtype
from instruct.training.rows import unreachable_model

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
QUANTIZED_BYTES = 0.5625  # 4 bits, and half a byte for each block of 8
# Adam's two moments; other optimizers keep at most as much, in the weights' own dtype.
MOMENT_BYTES = {"adamw_torch_8bit": 2, "adamw_torch_4bit": 1, "adamw_8bit": 2, "adamw_bnb_8bit": 2, "sgd": 0}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that the estimates need.

    Attributes:
        parameters: all of them.
        outside: those of the embeddings, and of the head if it is not tied to them; the layers have the rest.
    """

    parameters: int
    outside: int
    layers: int
    hidden: int
    vocabulary: int


def model_network(model: ModelOptions) -> Any:
    """The base model without weights, from its config.

    Raises:
        InputError: the config cannot be loaded, or transformers has no class with a head for words.
    """
    import torch
    from transformers import AutoConfig

    try:
        loaded = AutoConfig.from_pretrained(
            model_path(model.name), revision=model.revision, trust_remote_code=model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise unreachable_model(model.name, error) from None
    try:
        with torch.device("meta"):
            return new_network(loaded, model.trust_remote_code)
    except ValueError:
        raise _no_head(loaded, model.name) from None


def shape_of(model: Any, name: str) -> ModelShape:
    """The sizes of a network.

    Raises:
        InputError: it is not a causal language model.
    """
    try:
        words, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        text = model.config.get_text_config()
    except (ValueError, AttributeError):
        raise _no_head(model.config, name) from None
    return ModelShape(
        outside=sum(weight.numel() for weight in {id(end): end for end in (words, head)}.values()),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=getattr(text, "num_hidden_layers", None) or 1,  # BLT counts its parts'
        hidden=getattr(text, "hidden_size", None) or words.shape[1],
        vocabulary=len(head),
    )


def _no_head(loaded: Any, name: str) -> InputError:
    return InputError(f"model {name}: {loaded.model_type} has no lm_head; name a causal language model")


def steps_of_training(rows: int, arguments: Any) -> int:
    """The optimizer's steps of a training on so many rows."""
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    each = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
    return math.ceil(arguments.num_train_epochs * math.ceil(rows / each))


@dataclass(frozen=True)
class Sharding:
    """What `accelerate launch` spreads over the processes. Without it: one process and nothing to spread.

    Attributes:
        processes: each trains on its own rows.
        weights, gradients, optimizer: whether these are spread, so that a process holds 1 / processes of them.
    """

    processes: int = 1
    weights: bool = False
    gradients: bool = False
    optimizer: bool = False

    def part(self, sharded: bool) -> float:
        """What a process holds of something."""
        return 1 / self.processes if sharded else 1.0


def uses_fsdp() -> bool:
    """Whether `accelerate launch` asks for FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def sharding_of(arguments: Any) -> Sharding:
    """The sharding that the environment of `accelerate launch` and the trainer's arguments ask for."""
    processes = arguments.world_size
    if arguments.deepspeed_plugin is not None:
        stage = int(arguments.deepspeed_plugin.zero_stage)
        return Sharding(processes, weights=stage >= 3, gradients=stage >= 2, optimizer=stage >= 1)
    if uses_fsdp():
        resharded = os.environ.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower() == "true"
        # FSDP2 sums up whole gradients until the last micro-batch, unless it exchanges them after each one.
        accumulation = arguments.accelerator_config.gradient_accumulation_kwargs or {}
        exchanged = arguments.gradient_accumulation_steps == 1 or accumulation.get("sync_each_batch", False)
        return Sharding(processes, weights=resharded, gradients=exchanged, optimizer=True)
    return Sharding(processes)


def memory_gib(
    model: ModelOptions, lora: LoraOptions | None, shape: ModelShape, arguments: Any, sharding: Sharding
) -> dict[str, float]:
    """Peak training memory of a process by part, in GiB.

    Full fine-tuning with Adam takes 16 bytes a parameter, spread over the processes as far as `sharding` says: float32
    weights, gradients and two moments. Narrower computation takes 2 more for the copies that autocast or DeepSpeed
    make; if the weights are sharded, only a layer or two and the ends of the model are whole at a time. DDP keeps the
    gradients a second time, in its buckets. torchao's optimizers take 1 or 2 bytes for the moments.

    Activations take about 80 bytes per token, layer and hidden unit without recomputation (measured on a LoRA step of
    SmolLM2-135M under autocast, 8 rows of 512 tokens: 5.5 GiB), and with it the layers' inputs and one layer's
    activations. The objective needs two chunk x vocabulary buffers for any batch; if the head trains, also its float32
    gradient, and the copies of the head that autocast and a fixed transport cost need. A second model, which an
    objective has as its reference, counts as one of the same size.
    """
    from instruct.objectives.linear import buffer_rows

    width = BYTES[compute_dtype(model)]
    stored = BYTES[weights_dtype(model, lora is not None)]
    inside = shape.parameters - shape.outside
    if lora:
        trained: float = _lora_parameters(lora, shape)  # in float32
        own, head = 4, 0
        of_layers = QUANTIZED_BYTES if model.quantization else stored
        weights = inside * of_layers + shape.outside * stored + trained * own
        of_ends: float = stored
    else:
        trained, own, head = shape.parameters, stored, shape.vocabulary * shape.hidden
        weights, of_layers, of_ends = trained * own, width, width
    copies = 0.0 if lora or sharding.weights or (own == width and not sharding.optimizer) else trained * width
    gradients = trained * own * sharding.part(sharding.gradients)
    if sharding.processes > 1 and not sharding.optimizer:
        gradients *= 2
    moments = trained * MOMENT_BYTES.get(str(getattr(arguments.optim, "value", arguments.optim)), 2 * own)

    tokens = arguments.per_device_train_batch_size * (arguments.max_length or 2048)
    units = tokens * shape.hidden
    inputs = units * shape.layers * (4 if own == 4 and not lora and not sharding.optimizer else 2)
    activations = inputs + 80 * units if arguments.gradient_checkpointing else 80 * units * shape.layers
    rows = buffer_rows(shape.vocabulary, width, not arguments.use_cpu, bool(head), arguments.chunk_rows)
    objective = sum(min(tokens, most) for most in rows) * shape.vocabulary * width + head * (4 + 2 * width)
    if sharding.weights:
        # Either the objective runs, next to the last layer, or a layer's backward pass, next to the layer that is
        # gathered meanwhile. A layer's gradients are whole in both dtypes, while they are exchanged.
        layer = inside / shape.layers
        copies = shape.outside * of_ends + layer * of_layers
        exchanged = 0 if lora else layer * (width + own) + head * width
        at_objective = objective + (inputs if arguments.gradient_checkpointing else activations)
        if layer * of_layers + exchanged + activations > at_objective:
            copies, gradients, objective = copies + layer * of_layers, gradients + exchanged, 0
        else:
            activations = at_objective - objective
    held = sharding.weights or (sharding.optimizer and not lora)
    return {
        "weights": (weights * sharding.part(held) + copies) / GIB,
        "gradients and optimizer": (gradients + moments * sharding.part(sharding.optimizer)) / GIB,
        "activations": activations / GIB,
        "objective": objective / GIB,
    }


def disk_gib(model: ModelOptions, lora: LoraOptions | None, shape: ModelShape, systems: int) -> float:
    """What a run's checkpoints and final weights take: little for adapters, much for whole models with Adam's state."""
    if lora:  # a checkpoint has Adam's two moments, too; a new one is written before the last one is removed
        adapter = 4 * _lora_parameters(lora, shape) / GIB
        return (systems + 2 * 3) * adapter + 0.1
    width = BYTES[compute_dtype(model)]
    stored = BYTES[weights_dtype(model, lora is not None)]
    return (systems * width + 2 * 3 * stored) * shape.parameters / GIB


def _lora_parameters(lora: LoraOptions, shape: ModelShape) -> int:
    """A rank-r pair on each of the seven projections."""
    return shape.layers * 7 * 2 * lora.r * 2 * shape.hidden
