"""What stays as it was before training: the table of a transport cost, and the model under an adapter."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from peft.utils.other import AuxiliaryTrainingWrapper
from torch import nn

from instruct.base.errors import InputError
from instruct.base.networks import INITS_OF_BASE, backbone_of
from instruct.objectives import CosineCost, Energy, EnergyTable, Objective
from instruct.objectives.torch_kernels import Reference
from instruct.objectives.transport import load_cost_table
from instruct.training.head import head_of

FULL_TRAINING = (
    "the objective reads the model before training, which is the one under the adapter, and full training has none; "
    "train with LoRA, or choose another objective"
)


_READS = "the objective reads the model before training; "


def check_base(model: Any, sharded: bool) -> None:
    """Refuse a model that is not the one before training while its adapter is switched off.

    Args:
        model: that trains, maybe a PeftModel.
        sharded: by FSDP or DeepSpeed.

    Raises:
        ValueError: a sharded model; one without an adapter; an adapter without which the model is not the base.
    """
    configs = list(getattr(model, "peft_config", {}).values())
    for is_so, reason in (
        (
            sharded,
            "the objective reads the model before training, which FSDP and DeepSpeed would shard with the one that "
            "trains; train in one process or with DDP",
        ),
        (not hasattr(model, "disable_adapter"), FULL_TRAINING),
        (
            any(weight.requires_grad for weight in model.get_output_embeddings().parameters()),
            f"{_READS}its lm_head must be frozen: remove it from modules_to_save",
        ),
        (
            any(config.is_prompt_learning for config in configs),
            f"{_READS}prompt learning has no adapter to switch off: train one of LoRA",
        ),
        # https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig.bias
        (
            any(getattr(config, "bias", "none") != "none" for config in configs),
            f"{_READS}a trained bias stays when the adapter is switched off: set bias to none",
        ),
        (
            any(getattr(config, "init_lora_weights", True) not in INITS_OF_BASE for config in configs),
            f"{_READS}this init_lora_weights may change the base's weights: set it to true",
        ),
    ):
        if is_so:
            raise ValueError(reason)


@torch.no_grad()
def reference_of(adapted: Any, model: Any, *args: Any, **kwargs: Any) -> Reference:
    """The states and the head of the base for a batch, with the adapter switched off and without dropout.

    Args:
        adapted: the PeftModel; `model` is what it adapts.
    """
    with adapted.disable_adapter():
        trains = model.training
        model.eval()
        states = backbone_of(model)(*args, **kwargs).last_hidden_state.flatten(0, 1)
        head = head_of(model)
        bias = None if head.bias is None else head.bias.detach()
        head = replace(head, weight=head.weight.detach(), bias=bias)
        model.train(trains)
    return Reference(states, head)


def original_table(
    head: nn.Module, sharded_on: torch.device | None = None, narrow: torch.dtype | None = None
) -> torch.Tensor:
    """The head's weight before training, (vocab, hidden), copied only if training would change it.

    PEFT keeps the original module next to the one that it trains, so that a resumed adapter uses the table of its base
    model, not its own.

    Args:
        sharded_on: this process's device if FSDP or DeepSpeed will shard the weights, which needs a whole copy.
        narrow: the dtype of a copy; None: the head's own.
    """
    weight = (head.original_module if isinstance(head, AuxiliaryTrainingWrapper) else head).weight
    if sharded_on is not None:
        # FSDP's cpu_ram_efficient_loading reads the weights on the main process alone.
        return broadcast(weight.detach().to(sharded_on, narrow, copy=True))
    return weight.detach().to(narrow or weight.dtype, copy=True) if weight.requires_grad else weight.detach()


def gathered(module: nn.Module) -> Any:
    """A context in which the weights are whole: DeepSpeed ZeRO-3 shards a model while loading it."""
    shards = [parameter for parameter in module.parameters() if hasattr(parameter, "ds_id")]
    if not shards:
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(shards)


def make_cost(
    choice: str,
    head: nn.Module,
    sharded_on: torch.device | None = None,
    narrow: torch.dtype | None = None,
    objective: Objective | None = None,
) -> CosineCost | EnergyTable | None:
    """The cost that `EMOConfig.transport_cost` selects; None: 1 - cosine of the rows of a frozen head, as it is.

    For the objective Energy, a table in place of a cost.

    Args:
        choice: fixed, or a path: see EMOConfig.
        head: the model's head before training, on its device.
        sharded_on: this process's device if FSDP or DeepSpeed will shard the head; None: it stays whole. A frozen head
            is gathered for each forward and then serves as the table.
        narrow: the dtype of autocast, if it is on: a copy of a trained head need not be wider, and a frozen head is
            cast for each forward and then serves as the table.
        objective: the one that the cost is for; None: EMO.

    Raises:
        InputError: the table cannot be read or has a different vocabulary.
    """
    is_energy = isinstance(objective, Energy)
    rebuilt_each_forward = sharded_on is not None or head.weight.dtype != (narrow or head.weight.dtype)
    if choice == "fixed" and rebuilt_each_forward and not head.weight.requires_grad and not is_energy:
        return None
    device = head.weight.device if sharded_on is None else sharded_on
    try:
        with gathered(head):
            if choice == "fixed":
                # An energy's projected rows need no copy of the head.
                table = original_table(head, sharded_on, None if is_energy else narrow)
            else:
                table = load_cost_table(choice).to(device)
            vocabulary = head.weight.shape[0]
            if isinstance(objective, Energy):
                return EnergyTable(table, objective.dim, vocabulary)
            return CosineCost(table, vocabulary)
    except ValueError as error:
        raise InputError(f"transport_cost {choice}: {error}") from None


class TableRecord:
    """The checksum of a transport cost's table, which a checkpoint stores instead of a copy.

    A fixed cost is created again when a trainer is constructed, so resuming is correct only if the trainer is
    constructed with the model that training began with. Constructed with a checkpoint of a trained head, it would
    silently use a different cost.
    """

    FILE = "transport_cost.json"

    def __init__(self, cost: CosineCost | EnergyTable | None) -> None:
        self.checksum = None if cost is None else cost.checksum

    def save(self, checkpoint: str) -> None:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        (Path(checkpoint) / self.FILE).write_text(json.dumps({"table_checksum": self.checksum}) + "\n")

    def check(self, checkpoint: str) -> None:
        """Raises:
        InputError: the checkpoint was trained with a different table.
        """
        file = Path(checkpoint) / self.FILE
        if file.is_file() and json.loads(file.read_text())["table_checksum"] != self.checksum:
            raise InputError(
                f"{checkpoint}: trained with a different transport cost; construct the trainer with the model that "
                "training began with (not with a checkpoint of it) and the same transport_cost"
            )
