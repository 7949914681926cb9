"""The order of the rows as a function of the seed and the epoch, for a training that is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler


class SeededByEpoch(Sampler[int]):
    """A sampler that draws with a generator of its own, seeded with the seed + the epoch.

    The Trainer's would draw with torch's, whose state at the beginning of an epoch no checkpoint has.
    """

    def __init__(self, sampler: Any, seed: int) -> None:
        self._sampler, self._seed, self._epoch = sampler, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        self._sampler.generator = torch.Generator().manual_seed(self._seed + self._epoch)
        return iter(self._sampler)


def set_epoch(loader: Any, epoch: int) -> None:
    """Tell the samplers of a loader which epoch begins.

    The Trainer does, too, but on several processes it misses a sampler of batches (batch_rebalance) where a resumed
    training skips some.
    """
    part = loader
    while part is not None:
        if part is not loader and hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
        batches = getattr(part, "batch_sampler", None)
        part = getattr(part, "sampler", None) if batches is None else batches
