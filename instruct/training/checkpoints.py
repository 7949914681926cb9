"""The checkpoints of a training: which one it goes on with, what belongs to it, and whether it is whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_utils import rotate_checkpoints

from instruct.base.errors import InputError
from instruct.base.files import changed_file, sha256_of, sync, write_atomically
from instruct.base.output import warn

STATE = "trainer_state.json"
HASHES = "sha256.json"


class RecordHashes(TrainerCallback):
    """Puts the SHA-256 of each of its files into every checkpoint, after all processes have written theirs.

    Only then are older ones removed, of which the Trainer is to keep all.

    Args:
        limit: how many checkpoints are kept beside the best one, as `save_total_limit` says; None: all.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        from accelerate import PartialState

        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            record_hashes(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        if args.should_save:
            rotate_checkpoints(args.output_dir, self.limit, state.best_model_checkpoint, use_mtime=True)


def record_hashes(checkpoint: Path) -> None:
    """Write HASHES, after the files themselves have reached the disk."""
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != HASHES)
    sync(*files)
    hashes = {str(path.relative_to(checkpoint)): sha256_of(path) for path in files}
    write_atomically(checkpoint / HASHES, json.dumps(hashes, indent=1) + "\n")


def last_complete_checkpoint(folder: Path, processes: int = 1) -> str | None:
    """The newest complete checkpoint that `processes` processes wrote; newer ones that are not are removed.

    One without hashes was being written when its process ended. With a different number of processes a step takes
    different rows, and a sharded checkpoint cannot be read at all. One that was complete and is damaged is passed over
    with a warning, if there is an older one.

    Raises:
        InputError: the only complete checkpoint is damaged; it is not removed.
    """
    steps = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*")}
    numbers = {path: int(step) for path, step in steps.items() if step.isdecimal()}  # others are a user's copies
    damaged: dict[Path, str] = {}
    for checkpoint in sorted(numbers, key=numbers.__getitem__, reverse=True):
        wrote = len(list(checkpoint.glob("rng_state_*.pth"))) or 1  # one process writes rng_state.pth
        if not (checkpoint / HASHES).is_file():
            shutil.rmtree(checkpoint, ignore_errors=True)
        elif damage := _damage(checkpoint):
            damaged[checkpoint] = damage
        elif lacks := missing_state(checkpoint):
            warn(
                f"warning   {checkpoint}: has no state of the {lacks} (save_only_model), and training cannot go on "
                "from it; leave save_only_model out to resume"
            )
        elif wrote != processes:
            shutil.rmtree(checkpoint, ignore_errors=True)
        else:
            for other, damage in damaged.items():
                warn(f"warning   {other}: {damage}; training goes on from {checkpoint.name}, before it")
                shutil.rmtree(other, ignore_errors=True)
            return str(checkpoint)
    for checkpoint, damage in damaged.items():
        raise InputError(
            f"{checkpoint}: {damage}, and there is no older checkpoint; restore it, or delete {folder} to train from "
            "the start"
        )
    return None


def missing_state(checkpoint: Path) -> str:
    """What a checkpoint lacks of what training goes on with, as the Trainer, FSDP or DeepSpeed writes it."""
    sharded = any(checkpoint.glob("global_step*"))  # DeepSpeed's, with the optimizer and its schedule
    files = {"optimizer": "optimizer*", "learning rate": "scheduler.pt", "random numbers": "rng_state*.pth"}
    lacks = [name for name, pattern in files.items() if not any(checkpoint.glob(pattern))]
    return ", ".join(name for name in lacks if not sharded or name == "random numbers")


def _damage(checkpoint: Path) -> str:
    """What is wrong with a checkpoint whose files were all written, "" if nothing is."""
    try:
        changed = changed_file(checkpoint, json.loads((checkpoint / HASHES).read_text()))
    except (OSError, ValueError, AttributeError):
        changed = HASHES
    return f"{changed} is damaged" if changed else ""


def find_best_checkpoint(checkpoint: Path) -> None:
    """Make a checkpoint name the best one where it is now, if the run was moved; the Trainer would ignore it.

    Raises:
        InputError: the best checkpoint is gone or damaged.
    """
    file = checkpoint / STATE
    state = json.loads(file.read_text())
    best = state.get("best_model_checkpoint")
    if best is None:
        return
    place = Path(best) if Path(best).is_dir() else checkpoint.parent / Path(best).name
    problem = _damage(place) if place.is_dir() else "is gone"
    if problem:
        raise InputError(
            f"{place}: {problem}, and it is the best checkpoint so far; restore it, or delete {checkpoint.parent} to "
            "train from the start"
        )
    if str(place) != best:
        write_atomically(file, json.dumps({**state, "best_model_checkpoint": str(place)}, indent=2) + "\n")
        record_hashes(checkpoint)
