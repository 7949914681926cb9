"""Combinations that an objective on hidden states does not support, refused when the trainer is constructed."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import torch
from peft.tuners.tuners_utils import _check_lora_target_modules_mamba
from peft.utils.other import TrainableTokensWrapper
from torch import nn
from trl import SFTConfig

from instruct.base.errors import InputError, one_line
from instruct.base.output import warn
from instruct.training.head import evaluating
from instruct.training.processes import from_main
from instruct.training.trained import reached_by_text

_PICTURES = {"image", "images", "video", "videos", "pixel_values"}  # columns
_PROBE = 16  # tokens of each of the rows that are packed to see whether a model keeps them apart


def check_arguments(args: SFTConfig) -> None:
    """Refuse arguments with which the objective would be ignored or wrong on this machine.

    Raises:
        ValueError: activation offloading without a GPU, Apple's GPU, or averaging of tokens per process.
    """
    if args.activation_offloading and not torch.accelerator.is_available():
        raise ValueError("activation_offloading needs a GPU, and this machine has none; set it to False")
    if args.world_size > 1 and not args.average_tokens_across_devices:
        raise ValueError("average_tokens_across_devices=False would weight tokens differently on each process; drop it")
    if args.device.type == "mps":
        raise ValueError("Apple's GPU (mps) has no float64, in which the statistics are summed; set use_cpu=True")


def leave_layers_out(peft_config: Any, network: Any, dataset: Any) -> list[str]:
    """Take the layers out of `all-linear` that text does not reach, and those that PEFT has no adapter for.

    Mamba's `out_proj` is computed inside a kernel; Llama 4's routers are linear layers that return two tensors.

    Args:
        peft_config: changed in place; None: no adapter.
        network: that gets the adapter, with or without its weights.
        dataset: the training rows; with pictures, the layers that see get adapters, too.

    Returns:
        A line for each reason, with the names of those layers.
    """
    if getattr(peft_config, "target_modules", None) != "all-linear" or peft_config.exclude_modules:
        return []
    linear = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    refused = {name.rpartition(".")[2] for name, module in linear.items() if not _returns_a_tensor(module)}
    for name in ("out_proj", "conv1d"):
        try:
            _check_lora_target_modules_mamba(peft_config, network, name)
        except ValueError:
            refused.add(name)
    unseen: set[str] = set()
    if not _PICTURES.intersection(getattr(dataset, "column_names", None) or next(iter(dataset or ()), {})):
        reached = reached_by_text(network)
        unseen = {".".join(name.split(".")[:2]) for name, module in linear.items() if id(module) not in reached}
    patterns = [rf"(.*\.)?{re.escape(name)}" for name in sorted(refused)]
    patterns += [rf"{re.escape(name)}(\..*)?" for name in sorted(unseen)]
    peft_config.exclude_modules = "|".join(patterns) or None
    reasons = ((refused, "PEFT has no adapter for them"), (unseen, "the rows have no pictures"))
    of = network.config.model_type
    return [f"LoRA: {' and '.join(sorted(names))} of {of} stay frozen: {reason}" for names, reason in reasons if names]


@torch.no_grad()
def _returns_a_tensor(layer: nn.Linear) -> bool:
    """Whether a linear layer of transformers, which may have a forward of its own (Falcon), has the usual outcome."""
    if type(layer).forward is nn.Linear.forward or not type(layer).__module__.startswith("transformers.models."):
        return True
    try:
        return isinstance(layer(layer.weight.new_zeros(1, layer.in_features)), torch.Tensor)
    except RuntimeError:  # DeepSeek V4's takes groups of states
        return False


def check_dataset(dataset: Any, args: SFTConfig) -> None:
    """Refuse rows that give no step; the Trainer would end in an error about its sampler, or in none.

    Raises:
        ValueError: no data set of `datasets`, no rows, or fewer than a batch of which the last is dropped.
    """
    if isinstance(dataset, list | tuple):
        raise ValueError("train_dataset is a list; give datasets.Dataset.from_list(rows)")
    if not hasattr(dataset, "__len__"):
        return
    batch = args.per_device_train_batch_size * args.world_size
    if not len(dataset):
        raise ValueError("train_dataset has no rows; check where they come from")
    if args.dataloader_drop_last and len(dataset) < batch and not args.packing:
        raise ValueError(
            f"train_dataset has {len(dataset)} rows, fewer than a batch of {batch}, and dataloader_drop_last drops "
            "them all; lower per_device_train_batch_size, or leave dataloader_drop_last out"
        )


@torch.no_grad()
def check_packing(
    model: Any, collator: Any, narrow: torch.dtype | None = None, loaded_on_main_only: bool = False
) -> None:
    """Refuse to pack rows for a model whose layers do not keep them apart.

    The second of two packed rows has to have the same logits whatever the first one says. Layers that carry a state
    from token to token (Mamba, Gated DeltaNet, short convolutions), and attention that does not read position ids, let
    the rows of a batch see each other, and their losses fall for nothing.

    Args:
        model: the causal language model, unwrapped.
        collator: the trainer's, which packs a batch's rows.
        narrow: the dtype that training computes in, if the weights have another.
        loaded_on_main_only: as in `check_logits`.

    Raises:
        InputError: the logits differ.
    """
    leak = functools.partial(_leak, model, collator, narrow)
    problem = from_main(leak) if loaded_on_main_only else leak()
    if problem:
        raise InputError(problem)


def _leak(model: Any, collator: Any, narrow: torch.dtype | None) -> str | None:
    if any(weight.is_meta or hasattr(weight, "ds_id") for weight in model.parameters()):
        return None  # sharded weights: no forward is computed before training
    vocabulary, device = model.config.get_text_config().vocab_size, model.get_input_embeddings().weight.device
    logits = []
    try:
        for first in (3, 5):
            rows = [[factor * place % vocabulary for place in range(1, _PROBE + 1)] for factor in (first, 7)]
            batch = collator([{"input_ids": ids, "labels": ids} for ids in rows])
            tensors = {name: value.to(device) for name, value in batch.items() if isinstance(value, torch.Tensor)}
            tensors.pop("labels")
            if tensors["input_ids"].numel() != 2 * _PROBE or len(tensors["input_ids"]) != 1:
                return None  # this collator packs nothing
            autocast = torch.autocast(device.type, narrow) if narrow else contextlib.nullcontext()
            with evaluating(model), autocast:
                logits.append(model(**tensors, use_cache=False).logits[0, _PROBE:].float())
    except (RuntimeError, NotImplementedError) as error:  # a kernel that runs on a GPU alone, before the model is there
        warn(f"{type(model).__name__}: whether packed rows stay apart could not be tried ({one_line(error, 100)})")
        return None
    # Rows of equal length take the same sums; only experts, who get other tokens of the first row, sum otherwise.
    moved, largest = float((logits[0] - logits[1]).abs().max()), float(logits[0].abs().max())
    if moved <= 4 * torch.finfo(narrow or model.dtype).eps * largest:
        return None
    return (
        f"{type(model).__name__} does not keep packed rows apart: a row's logits change by {moved:.2g} with the row "
        "before it; set packing and padding_free to false"
    )


def check_head(head: nn.Module, sharded: bool) -> None:
    """Refuse a head that cannot be gathered after FSDP or DeepSpeed has sharded it.

    Raises:
        ValueError: PEFT's `trainable_token_indices`, which PEFT does not support with sharding.
    """
    if sharded and isinstance(head, TrainableTokensWrapper):
        raise ValueError(
            "trainable_token_indices does not work with FSDP or DeepSpeed; use DDP, or train the whole head "
            "(modules_to_save=['lm_head'])"
        )


def check_parallelism(config: Any) -> None:
    """Refuse parallelism that splits a row's tokens or the head's vocabulary; data parallelism and FSDP are fine.

    Args:
        config: accelerate's ParallelismConfig, or None.

    Raises:
        ValueError: context, sequence or tensor parallelism.
    """
    for kind in ("context", "sequence", "tensor"):
        size, name = f"{kind[0]}p_size", f"{kind} parallelism"
        if getattr(config, size, 1) > 1:
            raise ValueError(
                f"{name} ({size}={getattr(config, size)}) splits rows or the head, which the objective needs whole; "
                f"set {size} to 1 and use FSDP2 or DeepSpeed ZeRO-3 (dp_shard_size) instead"
            )
