"""Goldfish loss: a pseudo-random subset of the tokens is left out of the loss, so that no passage is memorized.

Hans et al., "Be like a Goldfish, Don't Memorize!" (NeurIPS 2024). It is a mask, not an objective, and works with every
objective: set labels to -100 where it is True, before the response tokens are counted.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

TABLE_SIZE = 1_000_003
SEED = 2971215073
# The product of more token ids is too often a multiple of 2**64: it wraps to 0, and all such windows hash alike.
LARGEST_CONTEXT = 32


@functools.cache
def _table() -> Tensor:
    return torch.rand(TABLE_SIZE, generator=torch.Generator().manual_seed(SEED))


def goldfish_mask(input_ids: Tensor, k: int, context: int, position_ids: Tensor | None = None) -> Tensor:
    """Which tokens to drop from the loss: about one in `k`, chosen by a hash of the `context` tokens that end there.

    As in the authors' code (github.com/ahans30/goldfish-loss, lit_gpt/utils.py, strategy "hash-table", with the table
    drawn on a CPU), the product of the last `context` token ids, including the token's own, selects a number from a
    fixed random table; the token is dropped if that number is below 1 / k. A passage loses the same tokens in every
    epoch and in every copy, so they are not learned from another copy. A token is dropped only if `context` tokens of
    its row precede it.

    Two properties of that hash are kept: it ignores the order of the window's tokens, and a window with token id 0 has
    key 0, so its token is always dropped for k up to 4 and never for larger k.

    Args:
        input_ids: (rows, length) int64; padding, if any, on the right.
        k: one token in `k` is dropped; at least 2. The authors' runs use 3 to 128.
        context: length of the hashed window, 1 to 32. The authors' configurations use 13.
        position_ids: (rows, length), for packed rows: restarts at 0 at the start of each document.

    Returns:
        (rows, length) bool, on the device of `input_ids`, True where the token is dropped.

    Raises:
        ValueError: `k` or `context` is out of range.
    """
    if k < 2:
        raise ValueError(f"goldfish k is {k}; one token in k is dropped, so k must be at least 2")
    if not 1 <= context <= LARGEST_CONTEXT:
        raise ValueError(f"goldfish context is {context}; it must be between 1 and {LARGEST_CONTEXT} tokens")
    dropped = torch.zeros_like(input_ids, dtype=torch.bool)
    if input_ids.shape[1] <= context:
        return dropped
    # The first full window ends at `context`, the first token with `context` tokens before it.
    key = input_ids[:, 1:].unfold(1, context, 1).prod(dim=-1) % TABLE_SIZE
    dropped[:, context:] = _table().to(key.device)[key] < 1 / k
    if position_ids is not None:
        dropped &= position_ids >= context
    return dropped
