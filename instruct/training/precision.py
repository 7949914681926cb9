"""The number formats of a training: float32 weights under narrower computation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.models import ModelOptions, compute_dtype

if TYPE_CHECKING:
    from torch import nn

    from instruct.training.emo_config import EMOConfig


def weights_dtype(model: ModelOptions, adapted: bool) -> str:
    """The dtype that the weights are loaded in for training, of an adapter or of the whole model.

    Frozen weights keep theirs. Weights that train are kept in float32, because the updates of a small learning rate are
    lost in bfloat16 and Adam's second moments in float16.
    """
    return compute_dtype(model) if adapted or model.quantization else "float32"


def check_trained_weights(model: nn.Module, args: EMOConfig, sharded: bool, fsdp: bool) -> None:
    """Refuse float16 weights that train, or that gradients pass without loss scaling; warn of bfloat16 ones.

    Quantized weights that FSDP cannot shard are refused, too.

    Args:
        model: as the trainer was given it, with its adapter.
        sharded: whether FSDP2 or DeepSpeed trains it, which keep float32 weights of their own under mixed precision.
        fsdp: whether FSDP2 does.

    Raises:
        ValueError: float16 weights, or quantized ones stored as integers under FSDP. The message names one of them and
            the remedy.
    """
    import torch

    mixed = bool(args.bf16 or args.fp16)
    for name, parameter in model.named_parameters():
        if parameter.dtype == torch.float16 and ((parameter.requires_grad and not (sharded and mixed)) or not mixed):
            raise ValueError(
                f"{name} is in float16, in which gradients and Adam's second moments underflow to 0; load the weights "
                "that train in float32 (model_init_kwargs={'dtype': 'float32'}) and set fp16=True or bf16=True"
            )
        if fsdp and not parameter.is_floating_point():
            raise ValueError(
                f"{name} is quantized and stored as {parameter.dtype}, which FSDP does not shard; set "
                "bnb_4bit_quant_storage=torch.bfloat16 in BitsAndBytesConfig"
            )
    if sharded and mixed:  # it keeps float32 weights of its own
        return
    if any(parameter.requires_grad and parameter.dtype == torch.bfloat16 for parameter in model.parameters()):
        warnings.warn(
            "bfloat16 weights train: small updates of them are rounded away; train float32 weights under autocast "
            "(load with dtype float32, set bf16=True)",
            stacklevel=3,
        )


def keep_adapters_in_float32(model: nn.Module) -> None:
    """Undo TRL's cast of a quantized model's adapter to bfloat16: small updates would be lost in it."""
    import torch

    for name, parameter in model.named_parameters():
        if parameter.requires_grad and "lora_" in name and parameter.dtype == torch.bfloat16:
            parameter.data = parameter.data.float()


def round_saved_weights(folder: Path, dtype: str) -> None:
    """Round the float32 weights of a saved model to `dtype`, once, in its safetensors files and its config."""
    import json

    import torch
    from safetensors.torch import load_file, save_file

    for file in sorted(folder.glob("*.safetensors")):
        weights = {
            name: tensor.to(getattr(torch, dtype)) if tensor.dtype == torch.float32 else tensor
            for name, tensor in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "dtype": dtype}, indent=2) + "\n")
