"""Several processes that train one model (`accelerate launch`): all train, the main one decides and writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def from_main(function: Callable[[], Any]) -> Any:
    """What `function()` returns on the main process, on every process; the others wait and do not call it."""
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    return broadcast_object_list([function() if PartialState().is_main_process else None])[0]


def save_whole(trainer: Any, folder: Path) -> None:
    """Save the trained weights as one process would; every process has to call it, the main one writes."""
    if trainer.is_fsdp_enabled:  # shards are for checkpoints
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(folder))
