"""The goldfish objective as a collator, which masks the dropped tokens before a batch is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
