"""Goldfish: a pseudo-random share of the tokens stays out of the loss, so that no passage is learnt by heart.

Hans et al., "Be like a Goldfish, Don't Memorize!" (NeurIPS 2024). It is a mask and no objective: set labels to -100
where it is True, before the response tokens are counted, and it goes with every objective.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

TABLE_SIZE = 1_000_003
SEED = 2971215073
# The product of more token ids is too often a multiple of 2**64: it wraps to 0, and such windows all hash alike.
LARGEST_CONTEXT = 32


@functools.cache
def _table() -> Tensor:
    return torch.rand(TABLE_SIZE, generator=torch.Generator().manual_seed(SEED))


def goldfish_mask(input_ids: Tensor, k: int, context: int, position_ids: Tensor | None = None) -> Tensor:
    """Which tokens are dropped from the loss: about one in `k`, by a hash of the `context` tokens that end there.

    The authors' code (github.com/ahans30/goldfish-loss, lit_gpt/utils.py, strategy "hash-table", with the table as
    drawn on a CPU): the product of the last `context` token ids, the token's own among them, picks a number from a
    fixed random table, and the token is dropped where that is below 1 / k. A passage loses the same tokens in every
    epoch and wherever it stands, so what is dropped is not learnt from another copy. A token is dropped only if
    `context` tokens of its row precede it.

    Two traits of that hash are kept: it does not see the order of the window's tokens, and a window with token id 0
    has key 0, so that it is always dropped for k up to 4 and never beyond.

    Args:
        input_ids: (rows, length) int64; padding, if any, on the right.
        k: one token in `k` is dropped; 2 or more. The authors' runs have 3 to 128.
        context: the width of the hashed window, 1 to 32. The authors' configurations have 13, their function 4.
        position_ids: (rows, length), where several rows are packed into one: it restarts at 0 where one begins.

    Returns:
        (rows, length) bool, on the device of `input_ids`, True where the token is dropped from the loss.

    Raises:
        ValueError: `k` or `context` is out of range.
    """
    if k < 2:
        raise ValueError(f"goldfish k is {k}; one token in k is dropped, so k must be 2 or more")
    if not 1 <= context <= LARGEST_CONTEXT:
        raise ValueError(f"goldfish context is {context}; the hashed window has 1 to {LARGEST_CONTEXT} tokens")
    dropped = torch.zeros_like(input_ids, dtype=torch.bool)
    if input_ids.shape[1] <= context:
        return dropped
    # The first window that counts ends at `context`: that token is the first with `context` tokens before it.
    key = input_ids[:, 1:].unfold(1, context, 1).prod(dim=-1) % TABLE_SIZE
    dropped[:, context:] = _table().to(key.device)[key] < 1 / k
    if position_ids is not None:
        dropped &= position_ids >= context
    return dropped
