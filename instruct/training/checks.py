"""What an objective on hidden states cannot be combined with: refused when the trainer is made, with the remedy."""

from __future__ import annotations

from typing import Any

import torch
from peft.utils.other import TrainableTokensWrapper
from torch import nn
from trl import SFTConfig


def check_arguments(args: SFTConfig) -> None:
    """Refuse arguments under which the objective would be ignored or wrong.

    Raises:
        ValueError: label smoothing, another `loss_type`, Liger's fused loss, a parallelism that splits a row or the
            head, activation offloading without a GPU, or tokens that are averaged on each process by itself.
    """
    if args.label_smoothing_factor > 0:
        raise ValueError("label_smoothing_factor has no place in a token-level objective; set it to 0")
    if args.loss_type != "nll":
        raise ValueError(
            f"loss_type={args.loss_type!r} names another loss; leave it out and choose by `objective` (dft is one)"
        )
    if args.use_liger_kernel and (args.liger_kernel_config or {}).get("fused_linear_cross_entropy"):
        raise ValueError(
            "Liger's fused_linear_cross_entropy replaces the model's forward, and the objective with it; take it out "
            "of liger_kernel_config (Liger's other kernels may stay)"
        )
    if args.activation_offloading and torch.accelerator.current_accelerator() is None:
        raise ValueError("activation_offloading moves activations off a GPU, and there is none; set it to False")
    if args.world_size > 1 and not args.average_tokens_across_devices:
        raise ValueError(
            "average_tokens_across_devices=False gives a token the more weight the fewer its process has; leave it out"
        )
    check_parallelism(args.parallelism_config)


def check_head(head: nn.Module, sharded: bool) -> None:
    """Refuse a head that cannot be gathered where FSDP or DeepSpeed shards it.

    Raises:
        ValueError: PEFT's `trainable_token_indices`, which PEFT itself does not support there.
    """
    if sharded and isinstance(head, TrainableTokensWrapper):
        raise ValueError(
            "trainable_token_indices does not go with FSDP or DeepSpeed; train on DDP, or the head whole "
            "(modules_to_save=['lm_head'])"
        )


def check_parallelism(config: Any) -> None:
    """Refuse what splits a row's tokens or the head's vocabulary over ranks; data parallelism and FSDP pass.

    Args:
        config: accelerate's ParallelismConfig, or None.

    Raises:
        ValueError: context, sequence or tensor parallelism.
    """
    if config is None:
        return
    for size, name in [
        ("cp_size", "context parallelism"),
        ("sp_size", "sequence parallelism"),
        ("tp_size", "tensor parallelism"),
    ]:
        if getattr(config, size, 1) > 1:
            raise ValueError(
                f"{name} ({size}={getattr(config, size)}) splits what the objective needs whole, each row with its "
                f"labels and the head; set {size} to 1 and use FSDP2 or DeepSpeed ZeRO-3 (dp_shard_size) instead"
            )
