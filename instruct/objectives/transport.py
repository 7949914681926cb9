"""What it costs to move probability from one token to another: 1 - cosine of their embeddings (EMO paper, Eq. 13)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class TransportCost(Protocol):
    """What it costs to move probability to a label from every other token of the vocabulary."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the cost knows: the head's rows."""
        ...

    def rows(self, labels: Tensor) -> Tensor:
        """The cost from every token to each label, (labels, vocab), any floating dtype; a new tensor, the caller's.

        The entry at the label itself is never used: it may be anything finite.
        """
        ...


class CosineCost:
    """Cosine transport cost over a table of token embeddings, one row a vocabulary entry.

    The table itself is kept, not a normalised copy: beside it stands one float32 number a row. A row of norm 0
    (vocabulary padding) has cosine 0, so cost 1, with every other token; a token costs 0 against itself.

    Args:
        table: (vocab, width), any floating dtype; used as it is and never changed.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table.detach()
        norm = torch.linalg.vector_norm(self.table, dim=1, dtype=torch.float32)
        self.inverse_norm = torch.where(norm > 0, 1 / norm, torch.zeros_like(norm))

    @property
    def vocabulary(self) -> int:
        return self.table.shape[0]

    def rows(self, labels: Tensor) -> Tensor:
        """The cost from every token to each label: (labels, vocab) float32, in [0, 2], 0 at the label itself."""
        unit = self.table[labels].float() * self.inverse_norm[labels, None]
        cosine = torch.mm(unit.to(self.table.dtype), self.table.T).float()
        cost = cosine.mul_(self.inverse_norm).neg_().add_(1).clamp_(0, 2)
        return cost.scatter_(1, labels[:, None], 0.0)
