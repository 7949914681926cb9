"""The cost rows of frequent labels, formed once: a few hundred tokens are a third of the distinct ones in any batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from instruct.objectives.torch_kernels import whole_rows
from instruct.objectives.transport import TransportCost

# Bytes of the rows that are kept.
KEPT_BYTES = 64 * 2**20


class FrequentRows:
    """Another cost, of a table that never changes, with some labels' rows kept.

    What is kept is settled at the start and does not depend on what was asked before, so that a step's result is the
    same after a resume.

    Args:
        cost: the cost, of a table that does not change.
        tokens: token ids of some of the text to come, in any order; the most frequent ones' rows are kept, as many as
            KEPT_BYTES hold.
    """

    def __init__(self, cost: TransportCost, tokens: Iterable[int]) -> None:
        self.cost = cost
        counts = torch.bincount(torch.tensor(list(tokens), dtype=torch.long), minlength=cost.vocabulary)
        counts = counts[: cost.vocabulary]
        some = cost.rows(torch.zeros(1, dtype=torch.long))
        capacity = min(KEPT_BYTES // some.nbytes, int((counts > 0).sum()))
        labels = counts.argsort(descending=True, stable=True)[:capacity]
        self.kept = some.new_empty(capacity, cost.vocabulary)
        for part in torch.arange(capacity).split(256):
            self.kept[part] = cost.rows(labels[part])
        self.place = torch.full((cost.vocabulary,), -1)
        self.place[labels] = torch.arange(capacity)

    @property
    def vocabulary(self) -> int:
        return self.cost.vocabulary

    def rows(self, labels: Tensor, out: Tensor | None = None) -> Tensor:
        """The cost from every token to each label, (labels, vocab), as the cost itself gives it."""
        place = self.place[labels].tolist()
        missing = [index for index, kept in enumerate(place) if kept < 0]
        rows = out
        if rows is None or rows.dtype != self.kept.dtype:
            rows = self.kept.new_empty(len(labels), self.vocabulary)
        # The missing rows are formed in one product at the top and then moved to their places, the last first: another
        # buffer of their size would be most of the memory that the objective takes.
        wanted = missing + missing[:1] * (min(whole_rows(len(missing)), len(labels)) - len(missing))
        self.cost.rows(labels[wanted], out=rows[: len(wanted)])
        for source, index in reversed(list(enumerate(missing))):
            if source != index:
                rows[index] = rows[source]
        for index, kept in enumerate(place):
            if kept >= 0:
                rows[index] = self.kept[kept]
        return rows
