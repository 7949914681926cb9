"""Training on several processes (`accelerate launch`): each trains on one device, the main one decides and writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from instruct.base.errors import InstructError


def from_main(function: Callable[[], Any]) -> Any:
    """The result of calling `function` on the main process only, returned on every process.

    Raises:
        InstructError: what the function raises, on every process; the others would wait for the main one.
    """
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    result, error = None, None
    if PartialState().is_main_process:
        try:
            result = function()
        except InstructError as refusal:
            error = refusal
    result, error = broadcast_object_list([result, error])
    if error:
        raise error
    return result


def save_whole(trainer: Any, folder: Path) -> None:
    """Save the trained weights unsharded. Every process has to call this; the main one writes."""
    if trainer.is_fsdp_enabled:  # sharded weights are for checkpoints
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(folder))


def use_one_device(args: Any, loads_model: bool) -> None:
    """Have TRL load the model onto this process's device, unless `model_init_kwargs` has a `device_map`.

    With several GPUs visible to a single process, TRL would spread the layers over them, of which only one would work
    at a time, and the Trainer would copy a model that is on one of them to the others (torch.nn.DataParallel).

    Args:
        args: changed in place.
        loads_model: whether the trainer is given the model's name and has yet to load it.
    """
    arguments = args.model_init_kwargs or {}
    if loads_model and "device_map" not in arguments:
        args.model_init_kwargs = {**arguments, "device_map": str(args.device) if args.device.type == "cuda" else None}
    args._n_gpu = min(args.n_gpu, 1)
