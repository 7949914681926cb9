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


@functools.cache
def _table() -> Tensor:
    return torch.rand(TABLE_SIZE, generator=torch.Generator().manual_seed(SEED))


def goldfish_mask(input_ids: Tensor, k: int, context: int, position_ids: Tensor | None = None) -> Tensor:
    """Which tokens are dropped from the loss: one in `k`, chosen by a hash of the `context` tokens that end there.

    The authors' code (github.com/ahans30/goldfish-loss, lit_gpt/utils.py, strategy "hash-table"; its table as drawn on
    the CPU): the product of the last `context` token ids, the token itself among them, picks a number from a fixed
    random table, and the token is dropped where that is below 1 / k. (The paper's formula hashes the `context` tokens
    before it instead.) The same passage loses the same tokens in every epoch and wherever it stands, so what is
    dropped is never learnt from another copy. No token is dropped that has fewer than `context` tokens before it in its
    row.

    Args:
        input_ids: (rows, length) int64; padding, if any, on the right.
        k: one token in `k` is dropped, 2 or more; the paper's runs use 3 or 4.
        context: the length of the hashed window, 1 or more; the paper's runs use 13.
        position_ids: (rows, length), for rows that hold several packed ones: it restarts at 0 where one begins.

    Returns:
        (rows, length) bool, on the device of `input_ids`, True where the token is dropped from the loss.

    Raises:
        ValueError: `k` is below 2 or `context` below 1.
    """
    if k < 2:
        raise ValueError(f"goldfish k is {k}; one token in k is dropped, so k must be at least 2")
    if context < 1:
        raise ValueError(f"goldfish context is {context}; the hashed window must be at least 1 token")
    dropped = torch.zeros_like(input_ids, dtype=torch.bool)
    if input_ids.shape[1] <= context:
        return dropped
    # The first window that counts ends at `context`: that token is the first with `context` tokens before it.
    key = input_ids[:, 1:].unfold(1, context, 1).prod(dim=-1) % TABLE_SIZE
    dropped[:, context:] = _table().to(key.device)[key] < 1 / k
    if position_ids is not None:
        dropped &= position_ids >= context
    return dropped
