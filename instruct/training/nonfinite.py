"""Reporting a NaN or infinite loss: the step, the rows of the batch, and the first statistic that is not finite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from instruct.base.errors import InstructError
from instruct.objectives import ObjectiveStatistics

# In the order in which a non-finite value propagates.
STATISTICS = ("hidden states", "ce", "cost", "error_norm", "ratio", "value")
SHOWN_ROWS = 3
SHOWN_CHARACTERS = 60


class NonFiniteLossError(InstructError, FloatingPointError):
    """The loss or the gradient is NaN or infinite, and another step would ruin the weights. Exit code 1."""


@dataclass(frozen=True)
class RowInBatch:
    """One row of the data set in a batch: tokens `first` to `end` of the batch's row `row`."""

    row: int
    first: int
    end: int


@dataclass(frozen=True)
class TokenRecord:
    """Each token's values, from which the first that is not finite is found without computing anything again.

    `largest_state`: (rows, length), the largest magnitude in each position's hidden state. `columns` and `order` as in
    ObjectiveResult, for the flattened positions.
    """

    largest_state: Tensor
    columns: Tensor
    order: Tensor | None


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


def find_non_finite(tokens: TokenRecord, documents: Iterable[RowInBatch]) -> tuple[str, list[RowInBatch]]:
    """The first statistic that is not finite, and the documents that have one, in the order of STATISTICS."""
    names = [field.name for field in fields(ObjectiveStatistics)]
    places = tokens.largest_state.numel()
    order = torch.arange(places, device=tokens.columns.device) if tokens.order is None else tokens.order
    values = {"hidden states": tokens.largest_state.flatten()[order]}
    values |= {name: tokens.columns[names.index(name)] for name in STATISTICS[1:]}
    finite, wrong = list(documents), []
    for name, value in values.items():
        flat = torch.zeros(places, dtype=torch.bool, device=order.device)
        flat[order] = ~torch.isfinite(value)
        wrong_at = flat.view_as(tokens.largest_state)
        broken = [document for document in finite if wrong_at[document.row, document.first : document.end].any()]
        finite = [document for document in finite if document not in broken]
        wrong += [(name, document) for document in broken]
    return wrong[0][0] if wrong else "value", [document for _, document in wrong]


def place_in_dataset(dataset: Any, tokens: list[int]) -> str | None:
    """The place of these tokens in a prepared data set: "row 3", or "row 3, document 2" if packed; counted from 0."""
    if not hasattr(dataset, "__len__") or "input_ids" not in (getattr(dataset, "column_names", None) or []):
        return None
    for index, row in enumerate(dataset):
        ids = list(row["input_ids"])
        if ids == tokens:
            return f"row {index}"
        end = 0
        for number, length in enumerate(row.get("seq_lengths") or []):
            if ids[end : end + length] == tokens:
                return f"row {index}, document {number}"
            end += length
    return None


def non_finite_line(
    tokens: TokenRecord, when: str, inputs: dict[str, Any], dataset: Any, tokenizer: Any, model: nn.Module
) -> str:
    """The error message: step, statistic, rows with their first words (control characters escaped), remedy."""
    statistic, documents = find_non_finite(tokens, documents_of(inputs))
    rows = []
    for document in documents[:SHOWN_ROWS]:
        ids = inputs["input_ids"][document.row, document.first : document.end].tolist()
        # The text is data and goes to a terminal: repr() escapes what is not printable.
        words = repr(tokenizer.decode(ids)[:SHOWN_CHARACTERS])
        rows.append(f"{place_in_dataset(dataset, ids) or f'row {document.row} of the batch'}: {words}")
    more = len(documents) - len(rows)
    where = "; ".join(rows) + (f"; and {more} more" if more > 0 else "")
    parameter = None
    for name, weight in model.named_parameters():
        local = weight.to_local() if hasattr(weight, "to_local") else weight  # on this rank
        if local.is_floating_point() and not torch.isfinite(local).all():
            parameter = name
            break
    if parameter is not None:
        remedy = f"parameter {parameter} is not finite either, because of an earlier step; lower learning_rate"
    elif statistic == "hidden states":
        remedy = "the model overflows: check these rows, lower learning_rate, or train in bfloat16 or float32"
    else:
        remedy = "check these rows, or lower learning_rate"
    return f"{when}: the loss is not finite (first: {statistic}) in {where or 'the batch'}; {remedy}"
