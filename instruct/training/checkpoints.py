"""The checkpoints of a training: which one it goes on with, and what belongs to it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.files import write_atomically


def last_complete_checkpoint(folder: Path, processes: int = 1) -> str | None:
    """The newest complete checkpoint that `processes` processes wrote; newer ones that are not are removed.

    With a different number of processes a step takes different rows, and a sharded checkpoint cannot be read at all.
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True)
    for checkpoint in checkpoints:
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())  # the Trainer writes it last
            if (len(list(checkpoint.glob("rng_state_*.pth"))) or 1) == processes:  # one process: rng_state.pth
                return str(checkpoint)
        except (OSError, ValueError):
            pass
        shutil.rmtree(checkpoint, ignore_errors=True)
    return None


def find_best_checkpoint(checkpoint: Path) -> None:
    """Make a checkpoint name the best one where it is now, if the run was moved; the Trainer would ignore it.

    Raises:
        InputError: the best checkpoint is gone.
    """
    file = checkpoint / "trainer_state.json"
    state = json.loads(file.read_text())
    best = state.get("best_model_checkpoint")
    if best is None or Path(best).is_dir():
        return
    moved = checkpoint.parent / Path(best).name
    if not moved.is_dir():
        raise InputError(
            f"{moved}: the best checkpoint so far is gone; restore it, or delete {checkpoint.parent} to train from the "
            "start"
        )
    write_atomically(file, json.dumps({**state, "best_model_checkpoint": str(moved)}, indent=2) + "\n")
