"""Combinations that an objective on hidden states does not support, refused when the trainer is constructed."""

from __future__ import annotations

from typing import Any

import torch
from peft.utils.other import TrainableTokensWrapper
from torch import nn
from trl import SFTConfig

from instruct.base.errors import InputError


def check_arguments(args: SFTConfig) -> None:
    """Refuse arguments with which the objective would be ignored or wrong.

    Raises:
        ValueError: label smoothing, another `loss_type`, Liger's fused loss, activation offloading without a GPU,
            Apple's GPU, or averaging of tokens per process.
    """
    if args.label_smoothing_factor > 0:
        raise ValueError("label_smoothing_factor cannot be combined with a token-level objective; set it to 0")
    if args.loss_type != "nll":
        raise ValueError(
            f"loss_type={args.loss_type!r} would select another loss; drop it and set `objective` (dft is one)"
        )
    if args.use_liger_kernel and (args.liger_kernel_config or {}).get("fused_linear_cross_entropy"):
        raise ValueError(
            "Liger's fused_linear_cross_entropy replaces the model's forward and with it the objective; remove it from "
            "liger_kernel_config (Liger's other kernels may stay)"
        )
    if args.activation_offloading and not torch.accelerator.is_available():
        raise ValueError("activation_offloading needs a GPU, and this machine has none; set it to False")
    if args.world_size > 1 and not args.average_tokens_across_devices:
        raise ValueError("average_tokens_across_devices=False would weight tokens differently on each process; drop it")
    if args.device.type == "mps":
        raise ValueError("Apple's GPU (mps) has no float64, in which the statistics are summed; set use_cpu=True")


def check_columns(dataset: Any, text: str, name: str) -> None:
    """Refuse a data set without the columns that are trained on; TRL would end in a KeyError.

    Args:
        text: the column of plain texts (`dataset_text_field`).
        name: of the data set, for the error.

    Raises:
        InputError: none of the columns that SFTTrainer reads, or prompts without completions.
    """
    columns = list(dataset.column_names or next(iter(dataset), {}))
    if "input_ids" in columns or {"prompt", "completion"} <= set(columns):
        return
    if "prompt" in columns:
        needed = "completion"
    elif {"messages", "conversations", text}.isdisjoint(columns):
        needed = f"messages, prompt and completion, or {text} (dataset_text_field)"
    else:
        return
    raise InputError(f"{name} dataset: its columns are {', '.join(columns)}; rename or add {needed}")


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
