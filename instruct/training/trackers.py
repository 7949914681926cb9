"""Trackers, by TRL's `report_to`: checked before training starts, one run per system."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from instruct.base.cards import nearest
from instruct.base.errors import InputError, one_line


def check_trackers(names: list[str]) -> None:
    """Refuse a tracker that cannot be used.

    Raises:
        InputError: transformers has no tracker of this name, or its package is not installed.
    """
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            shown = one_line(name, 40)
            raise InputError(
                f"train.report_to: unknown tracker {shown!r}{nearest(name, INTEGRATION_TO_CALLBACK)}; "
                "use tensorboard, wandb, trackio, another of transformers, or none"
            )
        try:
            INTEGRATION_TO_CALLBACK[name]()  # as the Trainer will; only the callback knows which package it needs
        except (RuntimeError, ImportError) as error:
            raise InputError(
                f"train.report_to: {name} cannot be used ({one_line(error, 160)}); or use tensorboard"
            ) from None


@contextlib.contextmanager
def run_of_its_own(trainer: Any) -> Iterator[None]:
    """Ends the run of Weights & Biases that a training began; the next system's values would go on in it.

    It also ends the line of a progress bar that an error left open, so that the error gets its own line.
    """
    try:
        yield
    finally:
        for callback in trainer.callback_handler.callbacks:
            if getattr(callback, "training_bar", None) is not None:
                callback.training_bar.close()
        wandb = sys.modules.get("wandb")
        if getattr(wandb, "run", None) is not None:
            wandb.finish()  # type: ignore[union-attr]
