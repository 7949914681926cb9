"""Collators around the training collator: one masks what goldfish drops, one keeps the labels on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from instruct.objectives import goldfish_mask


@dataclass
class GoldfishCollator:
    """`collator`, with the labels of the dropped tokens set to -100.

    It wraps the training collator, so that the Trainer counts the remaining tokens; evaluation drops none. The
    documents of a packed row are told apart by their `position_ids`.
    """

    collator: Callable[[list[dict[str, Any]]], dict[str, Any]]
    k: int
    context: int

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = self.collator(rows)
        dropped = goldfish_mask(batch["input_ids"], self.k, self.context, batch.get("position_ids"))
        batch["labels"] = batch["labels"].masked_fill(dropped, -100)
        return batch


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
