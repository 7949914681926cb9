"""Which tokens are computed together: the trained ones, sorted by label, in chunks that share cost rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# The label of a token without loss, as in torch and transformers.
IGNORED = -100
# On a CPU, the number of rows of a product is a multiple of this: oneDNN keeps about 0.6 MB for each number of rows it
# has seen. On a GPU, the number of rows in a chunk is: tiles of a product have 128 rows.
CPU_ROWS, GPU_ROWS = 32, 128


def whole_rows(count: int, multiple: int = CPU_ROWS) -> int:
    """`count`, rounded up to a multiple."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True)
class Group:
    """Chunks that share cost rows.

    `labels`: their part of TokenPlan.distinct. `chunks`: each chunk's part of the plan's tokens.
    """

    labels: slice
    chunks: list[slice]


@dataclass(frozen=True)
class TokenPlan:
    """The tokens that are trained, in the order in which they are computed.

    Attributes:
        order: (tokens,) int64, their places in the labels; None if these are all places in their own order.
        labels: (tokens,) int64.
        row_of: (tokens,) int64, each token's row among the cost rows of its group; None without a cost.
        distinct: the labels of all groups' cost rows; None without a cost.
        groups: all chunks. Without a cost there is one group.
    """

    order: Tensor | None
    labels: Tensor
    row_of: Tensor | None
    distinct: Tensor | None
    groups: list[Group]

    @property
    def most_labels(self) -> int:
        """The number of cost rows in the largest group."""
        return max((group.labels.stop - group.labels.start for group in self.groups), default=0)


def plan_tokens(
    labels: Tensor, vocabulary: int, size: int, multiple: int, most_labels: int, has_cost: bool, device: torch.device
) -> TokenPlan:
    """The plan, made on the CPU: labels on a GPU are first copied to it, which waits for the GPU.

    With a cost, tokens are sorted by label, so that a cost row is computed once for all tokens of a group that share
    it, and a product computes the rows of several chunks, because larger products are faster.

    Args:
        labels: (places,) int64, each in [0, vocabulary) or IGNORED.
        size: tokens in a chunk, at most.
        multiple: of this many tokens, if a chunk is smaller and not the last.
        most_labels: cost rows in a group, at most; not below `size`.
        device: where the plan's tensors are used.

    Raises:
        ValueError: a label outside the vocabulary.
    """
    labels = labels.cpu()
    kept = labels != IGNORED
    outside = kept & ((labels < 0) | (labels >= vocabulary))
    if outside.any():
        place = int(outside.nonzero()[0])
        raise ValueError(
            f"label {int(labels[place])} at position {place} is not a token of the vocabulary of {vocabulary}; "
            f"use {IGNORED} for a position without loss"
        )
    order = None if kept.all() else kept.nonzero()[:, 0]
    if order is not None:
        labels = labels[order]
    chunks: list[slice] = []
    if count := len(labels):  # as few slices as possible, of about equal size: a small last one would be slow
        size = min(size, whole_rows(-(-count // -(-count // size)), multiple))
        chunks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    row_of, distinct = None, None
    groups = [Group(slice(0, 0), chunks)] if chunks else []
    if has_cost:
        labels, by_label = labels.sort(stable=True)
        order = by_label if order is None else order[by_label]
        distinct, row_of = labels.unique_consecutive(return_inverse=True)
        groups = []
        for chunk in chunks:
            first, end = int(row_of[chunk.start]), int(row_of[chunk.stop - 1]) + 1
            if groups and end - groups[-1].labels.start <= most_labels:
                before = groups.pop()
                groups.append(Group(slice(before.labels.start, end), [*before.chunks, chunk]))
            else:
                groups.append(Group(slice(first, end), [chunk]))
        for group in groups:  # rows count in each group from 0
            row_of[group.chunks[0].start : group.chunks[-1].stop] -= group.labels.start
    order, labels, row_of, distinct = _moved([order, labels, row_of, distinct], device)
    return TokenPlan(order, labels, row_of, distinct, groups)


def _moved(parts: list[Tensor | None], device: torch.device) -> list[Any]:
    """The parts on the device, in one copy that the host does not wait for."""
    if device.type == "cpu":
        return parts
    present = [part for part in parts if part is not None]
    joined = torch.cat(present)
    if device.type == "cuda":
        joined = joined.pin_memory()
    moved = iter(joined.to(device, non_blocking=True).split([len(part) for part in present]))
    return [None if part is None else next(moved) for part in parts]
