"""The energy score between tokens: a relative of EMO's transport cost whose optimum is the true distribution.

EMO's cost, sum_j q_j C(j, y), is linear in q: by itself it is least if q is all on one token, so any share of it
sharpens. The energy score (Gneiting and Raftery, "Strictly Proper Scoring Rules", 2007) subtracts half of q's own
spread, 1/2 sum_ij q_i q_j C(i, j), and is proper. With C the halved squared distance of embeddings e (1 - cosine for
unit rows) it is

    energy_t = 1/2 ||e_y - sum_j q_j e_j||^2

    d energy / d z_k = q_k (r_k - sum_j q_j r_j)        r_k = e_k . (sum_j q_j e_j - e_y)

It is no transport cost of single tokens (see transport.py), because it is not linear in q. Compared with cross-entropy
it takes two more products, of tokens x vocabulary x width of the embeddings.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from instruct.objectives.torch_kernels import LossParts, TorchWeigher
from instruct.objectives.transport import EnergyTable


class EnergyWeigher(TorchWeigher):
    """TorchWeigher with the energy in place of the transport cost, on a CPU and on a GPU."""

    def __init__(self, work: LossParts, like: Tensor) -> None:
        super().__init__(work, like)
        assert isinstance(work.cost, EnergyTable)
        self.embeddings = work.cost.embeddings.to(self.q)
        self.statistics = replace(self.statistics, cost=torch.empty_like(self.statistics.ce))

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        statistics, others = self._leave_out_targets(product, target, place)
        q, spare = self.q[: len(product)], self.spare[: len(product)]
        own = self.embeddings[target]
        # sum_j q_j e_j - e_y from the other tokens alone: for a confident token, the difference would cancel.
        offset = torch.addcmul(torch.mm(q, self.embeddings), own, others[:, None], value=-1)
        square = offset.square().sum(dim=-1)
        statistics = replace(statistics, cost=square / 2)
        self._store(statistics, place)
        if self.wants_grad:
            # |r_j - sum_k q_k r_k| is at most twice the offset's length, for unit rows.
            weights = self._weights(statistics, others, 2 * others * square.sqrt(), place)
            a, b = weights["a"], weights["b"]
            # With r as above, sum_j q_j r_j = r_y + ||offset||^2.
            mean = (offset * own).sum(dim=-1) + square
            torch.mm(offset, self.embeddings.T, out=spare)
            q.mul_(spare.mul_(b[:, None]).add_((a - b * mean)[:, None]))
            q.scatter_(1, target[:, None], -(a * others + b * statistics.q_target * square)[:, None])
            self._write_gradient_(product)
