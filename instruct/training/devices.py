"""One device for each process."""

from __future__ import annotations

from trl import SFTConfig


def use_one_device(args: SFTConfig, loads_model: bool) -> None:
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
