"""A NaN or infinite loss, and the documents of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instruct.base.errors import InstructError


class NonFiniteLossError(InstructError, FloatingPointError):
    """The loss or the gradient is NaN or infinite, and another step would ruin the weights. Exit code 1."""


@dataclass(frozen=True)
class RowInBatch:
    """One row of the data set in a batch: tokens `first` to `end` of the batch's row `row`."""

    row: int
    first: int
    end: int


def documents_of(inputs: dict[str, Any]) -> list[RowInBatch]:
    """The documents of a batch: its rows without padding, or the documents of packed rows, from `position_ids`."""
    rows, length = inputs["input_ids"].shape
    positions = inputs.get("position_ids")
    documents = []
    for row in range(rows):
        if positions is None:
            mask = inputs.get("attention_mask")
            documents.append(RowInBatch(row, 0, length if mask is None else int(mask[row].sum())))
            continue
        starts = (positions[row] == 0).nonzero().flatten().tolist()
        documents += [RowInBatch(row, *ends) for ends in zip(starts, [*starts[1:], length], strict=True)]
    return documents
