"""What a training takes, estimated from the model's sizes: time, and memory as it is spread over processes."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instruct.base.errors import InputError
from instruct.base.machine import least_seconds, one_thread
from instruct.base.models import compute_dtype, model_path
from instruct.base.networks import new_network
from instruct.engines.memory import GIB
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.objective import BASE, SNAPSHOT
from instruct.training.options import LoraOptions, TrainingOptions
from instruct.training.precision import weights_dtype
from instruct.training.rows import unreachable_model

# The fraction of a matrix product's speed that those of a training reach. On a GPU it is that of a whole step, and on a
# CPU elementwise work is apart: a step of SmolLM2-135M with LoRA on 1,024 tokens took 12.1 CPU-s on one core of an AMD
# EPYC in float32, of which its products are 6.6 at 84 of the 92 GFLOP/s that the best product reached.
STEP_EFFICIENCY = {"cpu": 0.9, "cuda": 0.4}
# What elementwise work (norms, rotary embeddings, activations, LoRA's narrow products) moves in a pass over a token, of
# each number of a layer's hidden state, at the speed of a copy. From the same step, at 11.9 GB/s; steps of models of
# width 1,024 and 2,048 with 8 and 3 layers then take 0.98 and 1.0 of what was measured.
ELEMENTWISE_BYTES = {"cpu": 2000, "cuda": 0}
# CPU seconds for which a speed is measured: a core that is taken away for a moment must not decide.
MEASURED_S = 0.3

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
    return shape_of(model_network(config), config.model.name)


def model_network(config: TrainingOptions) -> Any:
    """The base model without weights, from its config.

    Raises:
        InputError: the config cannot be loaded, or transformers has no class with a head for words.
    """
    from transformers import AutoConfig

    name = model_path(config.model.name)
    try:
        loaded = AutoConfig.from_pretrained(
            name, revision=config.model.revision, trust_remote_code=config.model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise unreachable_model(config.model.name, error) from None
    return empty_network(loaded, config.model.name, config.model.trust_remote_code)


def empty_network(loaded: Any, name: str, trust_remote_code: bool = False) -> Any:
    """The network of a transformers config, on the meta device.

    Raises:
        InputError: transformers has no class with a head for words.
    """
    import torch

    try:
        with torch.device("meta"):
            return new_network(loaded, trust_remote_code)
    except ValueError:
        raise _no_head(loaded, name) from None


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
    layers = getattr(text, "num_hidden_layers", None)
    each = (getattr(text, "per_layer_config", None) or [text] * layers) if layers else [text]  # BLT counts its parts'
    state = 0
    for layer in each:  # a config that says nothing of attention has no keys and values
        if heads := getattr(layer, "num_attention_heads", None):
            width = getattr(layer, "head_dim", None) or layer.hidden_size // heads
            state += 2 * (getattr(layer, "num_key_value_heads", None) or heads) * width
    return ModelShape(
        outside=sum(weight.numel() for weight in {id(end): end for end in (words, head)}.values()),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=len(each),
        hidden=getattr(text, "hidden_size", None) or words.shape[1],
        vocabulary=len(head),
        state=state // len(each),
    )


def _no_head(loaded: Any, name: str) -> InputError:
    return InputError(f"model {name}: {loaded.model_type} has no lm_head; name a causal language model")


@functools.cache
def matrix_flops(dtype: str) -> float:
    """FLOP per second of a matrix product in `dtype` on this machine, the best of several, measured once.

    The matrices grow until a product takes long enough to measure, 1 ms, and is 512 wide, but not to one that takes a
    second: without bfloat16 instructions, a processor needs minutes for large ones. On a CPU it is the speed of one
    core times the cores, because a thread that waits for one that other work holds up would slow each product down.
    """
    import torch

    device, cores = ("cuda", 1) if torch.cuda.is_available() else ("cpu", torch.get_num_threads())
    size, seconds = 64, 0.0
    with one_thread() if device == "cpu" else contextlib.nullcontext():
        while (seconds < 0.001 or size < 512) and size < 8192 and 8 * seconds < MEASURED_S:
            size *= 2
            a = torch.randn(size, size, device=device, dtype=getattr(torch, dtype))
            product = functools.partial(lambda a: (a @ a)[-1, -1].item(), a)  # waits for the device
            seconds = least_seconds(product, 0.02)
        seconds = min(seconds, least_seconds(product, MEASURED_S))
    return cores * 2 * size**3 / seconds


@functools.cache
def copy_speed() -> float:
    """Bytes per second that this machine reads from the memory of its GPU, else of its processor, and writes there.

    On a CPU it is the speed of one core times the cores, of which eight are taken to use up what the memory gives.
    """
    import torch

    device, cores = ("cuda", 1) if torch.cuda.is_available() else ("cpu", min(8, torch.get_num_threads()))
    values = torch.zeros(1 << 23, device=device)
    copied = torch.empty_like(values)
    with one_thread() if device == "cpu" else contextlib.nullcontext():
        return cores * 2 * values.nbytes / least_seconds(lambda: copied.copy_(values)[-1].item(), MEASURED_S)


def trained_tokens(lengths: Sequence[int], arguments: Any) -> float:
    """The tokens that a process computes, padding included.

    Args:
        lengths: of the rows of an epoch, in tokens.
        arguments: the trainer's.
    """
    import torch
    from transformers.trainer_pt_utils import get_length_grouped_indices

    batch = arguments.per_device_train_batch_size
    random = torch.Generator().manual_seed(0)
    if arguments.train_sampling_strategy == "group_by_length":
        order = get_length_grouped_indices(
            list(lengths), batch * arguments.gradient_accumulation_steps, generator=random
        )
    else:
        order = torch.randperm(len(lengths), generator=random).tolist()
    batches = [[lengths[place] for place in order[first : first + batch]] for first in range(0, len(order), batch)]
    tokens = [len(rows) * max(rows) for rows in batches]
    steps = len(batches) * arguments.num_train_epochs / arguments.world_size
    if arguments.max_steps > 0:
        steps = arguments.max_steps * arguments.gradient_accumulation_steps
        if steps < len(tokens):
            return float(sum(tokens[:steps]))  # rows that are grouped by length begin with long ones
    return steps * sum(tokens) / len(tokens)


def pass_seconds(shape: ModelShape, tokens: float, kind: str, flops: float, bandwidth: float) -> float:
    """The seconds of a forward pass over tokens; backward takes as long with frozen weights, otherwise twice as long.

    Args:
        kind: "cpu" or "cuda".
        flops: per second, of a matrix product.
        bandwidth: bytes per second that are copied.
    """
    products = 2 * shape.parameters / (flops * STEP_EFFICIENCY[kind])
    return tokens * (products + ELEMENTWISE_BYTES[kind] * shape.layers * shape.hidden / bandwidth)


def rows_of_step(arguments: Any) -> int:
    """The rows of an optimizer's step, of all processes."""
    return int(arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size)


def times_of(kind: str, rows: int, arguments: Any) -> int:
    """How often a training on so many rows evaluates (`eval`) or writes a checkpoint (`save`)."""
    epoch = math.ceil(rows / rows_of_step(arguments))  # in steps
    steps = arguments.max_steps if arguments.max_steps > 0 else epoch * arguments.num_train_epochs
    every = getattr(arguments, f"{kind}_steps")
    match getattr(arguments, f"{kind}_strategy"):
        case "no":
            return 0
        case "steps":
            return int(1 / every if every < 1 else steps / every)  # below 1: a fraction of all steps
    return int(steps / epoch)


def evaluations(rows: int, arguments: Any) -> int:
    """How often a training on so many rows evaluates."""
    return times_of("eval", rows, arguments) + bool(arguments.eval_on_start)


def passed_tokens(lengths: Sequence[int], arguments: Any, lora: bool, evaluated: Sequence[int] = ()) -> float:
    """The tokens of the passes of a training, each as long as a forward one; backward goes to the hidden states, and to
    the weights if all train.

    Args:
        lengths, evaluated: of the rows to train and evaluate on, in tokens.
    """
    tokens = (2 if lora else 3) * trained_tokens(lengths, arguments)
    if evaluated:
        tokens += evaluations(len(lengths), arguments) * sum(evaluated) / arguments.world_size
    return tokens


def time_words(hours: float | None) -> str:
    """Estimated hours for people: from 0.7 to 1.4 of them, because an estimate that is right within a factor of two
    is as good as it gets."""
    if hours is None:
        return "time not estimated"
    low, high = hours / 2**0.5, hours * 2**0.5
    if high * 60 < 1:
        return "less than a minute"
    if high < 1.5:
        return f"{max(1, round(low * 60))}–{math.ceil(high * 60)} min"
    return f"{low:.1f}–{high:.1f} h" if high < 20 else f"{low:,.0f}–{high:,.0f} h"


def money_words(dollars: float) -> str:
    """Estimated dollars for people, in the same range as `time_words`."""
    low, high = dollars / 2**0.5, dollars * 2**0.5
    return "less than $1" if high < 1 else f"${low:,.0f}–{math.ceil(high):,}"


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
    config: TrainingOptions, shape: ModelShape, arguments: Any, sharding: Sharding | None = None
) -> dict[str, float]:
    """Peak training memory of a process by part, in GiB.

    Full fine-tuning with Adam takes 16 bytes a parameter, spread over the processes as far as `sharding` says: float32
    weights, gradients and two moments. Narrower computation takes 2 more for the copies that autocast or DeepSpeed
    make; if the weights are sharded, only a layer or two and the ends of the model are whole at a time. DDP keeps the
    gradients a second time, in its buckets. torchao's optimizers take 1 or 2 bytes for the moments, and leave weights
    and gradients in bfloat16.

    Activations take about 80 bytes per token, layer and hidden unit without recomputation (measured on a LoRA step of
    SmolLM2-135M under autocast, 8 rows of 512 tokens: 5.5 GiB), and with it the layers' inputs and one layer's
    activations. The objective needs two chunk x vocabulary buffers for any batch; if the head trains, also its float32
    gradient, and the copies of the head that autocast and a fixed transport cost need. A second model, which an
    objective has as its reference, counts as one of the same size.

    Args:
        sharding: None: what the environment says.
    """
    from instruct.objectives.linear import buffer_rows

    sharding = sharding or sharding_of(arguments)
    width = BYTES[compute_dtype(config.model)]
    stored = BYTES.get(weights_dtype(config), width)
    inside = shape.parameters - shape.outside
    if config.lora:
        trained: float = _lora_parameters(config.lora, shape)  # in float32
        own, head = 4, 0
        of_layers = QUANTIZED_BYTES if config.model.quantization else stored
        weights = inside * of_layers + shape.outside * stored + trained * own
        of_ends: float = stored
    else:
        trained, own, head = shape.parameters, stored, shape.vocabulary * shape.hidden
        weights, of_layers, of_ends = trained * own, width, width
    copies = 0.0 if config.lora or sharding.weights or (own == width and not sharding.optimizer) else trained * width
    gradients = trained * own * sharding.part(sharding.gradients)
    if sharding.processes > 1 and not sharding.optimizer:
        gradients *= 2
    moments = trained * MOMENT_BYTES.get(str(getattr(arguments.optim, "value", arguments.optim)), 2 * own)

    tokens = arguments.per_device_train_batch_size * (arguments.max_length or 2048)
    units = tokens * shape.hidden
    inputs = units * shape.layers * (4 if own == 4 and not config.lora and not sharding.optimizer else 2)
    activations = inputs + 80 * units if arguments.gradient_checkpointing else 80 * units * shape.layers
    rows = buffer_rows(shape.vocabulary, width, not arguments.use_cpu, bool(head), arguments.chunk_rows)
    objective = sum(min(tokens, most) for most in rows) * shape.vocabulary * width + head * (4 + 2 * width)
    if sharding.weights:
        # Either the objective runs, next to the last layer, or a layer's backward pass, next to the layer that is
        # gathered meanwhile. A layer's gradients are whole in both dtypes, while they are exchanged.
        layer = inside / shape.layers
        copies = shape.outside * of_ends + layer * of_layers
        exchanged = 0 if config.lora else layer * (width + own) + head * width
        at_objective = objective + (inputs if arguments.gradient_checkpointing else activations)
        if layer * of_layers + exchanged + activations > at_objective:
            copies, gradients, objective = copies + layer * of_layers, gradients + exchanged, 0
        else:
            activations = at_objective - objective
    held = sharding.weights or (sharding.optimizer and not config.lora)
    for system in config.trained.values():
        if kind := OBJECTIVES.get(system.objective):
            reference = getattr(kind(**system.objective_args or {}), "reference", None)
            if reference is not None and not (config.lora and reference in (BASE, SNAPSHOT)):  # a second model
                copies += shape.parameters * stored
                break
    return {
        "weights": (weights * sharding.part(held) + copies) / GIB,
        "gradients and optimizer": (gradients + moments * sharding.part(sharding.optimizer)) / GIB,
        "activations": activations / GIB,
        "objective": objective / GIB,
    }


def checkpoint_gib(config: TrainingOptions, shape: ModelShape) -> float:
    """What a checkpoint takes on the disk: the weights that are trained, and Adam's two moments of each."""
    if config.lora:
        return 3 * 4 * _lora_parameters(config.lora, shape) / GIB
    stored = BYTES.get(weights_dtype(config), BYTES[compute_dtype(config.model)])
    return 3 * stored * shape.parameters / GIB


def disk_gib(config: TrainingOptions, shape: ModelShape) -> float:
    """What a run's checkpoints and final weights take: little for adapters, much for whole models with Adam's state."""
    # A new checkpoint is written before the last one is removed.
    checkpoints = 2 * checkpoint_gib(config, shape)
    if config.lora:
        return len(config.trained) * _lora_parameters(config.lora, shape) * 4 / GIB + checkpoints + 0.1
    return shape.parameters * len(config.trained) * BYTES[compute_dtype(config.model)] / GIB + checkpoints


def _lora_parameters(lora: LoraOptions, shape: ModelShape) -> int:
    """A rank-r pair on each of the seven projections."""
    return shape.layers * 7 * 2 * lora.r * 2 * shape.hidden
