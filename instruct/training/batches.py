"""Batches of a training: what collators add to them, and an order of the rows that a resumed training repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler

from instruct.data.token_weights import split_labels
from instruct.objectives.plan import IGNORED


@dataclass
class WeightsCollator:
    """`collator`, with the weights in the labels as `token_weights`.

    Attributes:
        always: also if all are 1, because the batches of several processes are put together.
    """

    collator: Callable[[list[dict[str, Any]]], dict[str, Any]]
    always: bool = False

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = self.collator(rows)
        batch["labels"], weights = split_labels(batch["labels"])
        if self.always or bool((weights != 1).any()):
            batch["token_weights"] = weights
        return batch


def sum_of_weights(batch: Mapping[str, Any]) -> Tensor:
    """The weights of the tokens of a batch that have a loss, added up: a float64 scalar."""
    has_loss = batch["labels"][:, 1:] != IGNORED
    weights = batch.get("token_weights")
    return has_loss.sum().double() if weights is None else (weights[:, 1:].double() * has_loss).sum()


@dataclass(frozen=True)
class HostLabels:
    """A batch's labels on the CPU. It is no tensor, so that nothing moves it to the GPU with the rest of the batch."""

    labels: Tensor


@dataclass
class HostLabelsCollator:
    """`collator`, with the labels a second time as `host_labels`.

    The order in which the loss is computed depends on the labels. It is planned on the CPU, which would otherwise wait
    for the GPU in order to read them.
    """

    collator: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = self.collator(rows)
        batch["host_labels"] = HostLabels(batch["labels"])
        return batch


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
