"""The number formats of a training: float32 weights under narrower computation, or stochastic rounding."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError
from instruct.base.models import compute_dtype
from instruct.training.options import TrainingOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from instruct.training.emo_config import EMOConfig

# torchao's AdamW, by the Trainer's names. With bf16_stochastic_round in optim_args, an update smaller than half the
# distance to the next bfloat16 number still moves a weight, with the probability that makes it right on average.
STOCHASTIC_OPTIMIZERS = ("adamw_torch_8bit", "adamw_torch_4bit")
REMEDY = (
    "train float32 weights under autocast (load with dtype float32, set bf16=True) or set optim='adamw_torch_8bit' and "
    "optim_args='bf16_stochastic_round=True' (pip install torchao)"
)
# Of the weights: a smaller share that cannot move is not worth a warning.
WARN_FROM = 0.05


def weights_dtype(config: TrainingOptions) -> str:
    """The dtype that the weights are loaded in for training.

    Frozen weights keep theirs. Weights that train are kept in float32, because the updates of a small learning rate are
    lost in bfloat16 and Adam's second moments in float16, unless the optimizer rounds bfloat16 at random.
    """
    dtype = compute_dtype(config.model)
    if config.lora or config.model.quantization:
        return dtype
    if dtype == "bfloat16" and rounds_stochastically(config.train.get("optim"), config.train.get("optim_args")):
        return dtype
    return "float32"


def rounds_stochastically(optimizer: Any, arguments: str | None) -> bool:
    """Whether `optim` and `optim_args` name an optimizer that rounds bfloat16 weights stochastically."""
    options = dict(item.strip().partition("=")[::2] for item in (arguments or "").split(","))
    name = getattr(optimizer, "value", optimizer)
    return name in STOCHASTIC_OPTIMIZERS and options.get("bf16_stochastic_round", "").lower() in ("true", "1")


def check_optimizer(options: dict[str, Any]) -> None:
    """Refuse an optimizer of torchao if it is not installed, before the weights are read.

    Args:
        options: the `train` section.

    Raises:
        InputError: it is not.
    """
    if options.get("optim") in STOCHASTIC_OPTIMIZERS and not importlib.util.find_spec("torchao"):
        raise InputError(f"train.optim: {options['optim']} needs torchao, which is missing; run `pip install torchao`")


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
    narrow = [p for p in model.parameters() if p.requires_grad and p.dtype == torch.bfloat16]
    if not narrow or (sharded and mixed) or rounds_stochastically(args.optim, args.optim_args):
        return
    share = unmoved_share(narrow, args.learning_rate, args.adam_beta1)
    if args.learning_rate > 0 and share >= WARN_FROM:
        warnings.warn(
            f"about {share:.0%} of the trained bfloat16 weights will not move at learning_rate {args.learning_rate:g}: "
            f"they are rounded back after each step; {REMEDY}",
            stacklevel=3,
        )


def unmoved_share(
    parameters: Iterable[torch.Tensor], learning_rate: float, beta1: float = 0.9, steps: int = 400
) -> float:
    """The share of bfloat16 weights that Adam will not move in `steps` steps, estimated from their values.

    A weight is rounded back if the update is smaller than half the distance to the next number, 2^(e - 9) for a weight
    in [2^(e - 1), 2^e). Of each tensor, up to 65,536 evenly spaced weights are read.

    If the gradients are noise, the first moment is an autoregressive Gaussian process whose standard deviation is
    sqrt((1 - beta1) / (1 + beta1)) of the second moment's root; `steps` of it are worth about steps (1 - beta1) / 2
    independent ones, and the largest of n normal numbers is about sqrt(2 ln n).
    """
    import torch

    independent = max(steps * (1 - beta1) / 2, 2.0)
    update = learning_rate * math.sqrt((1 - beta1) / (1 + beta1) * 2 * math.log(independent))
    unmoved, count = 0.0, 0
    for parameter in parameters:
        values = parameter.detach().flatten()
        sample = values[:: max(1, values.numel() // 65536)].float()
        exponent = torch.frexp(sample).exponent
        unmoved += values.numel() * float((torch.ldexp(torch.ones_like(sample), exponent - 9) >= update).float().mean())
        count += values.numel()
    return unmoved / max(count, 1)


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
