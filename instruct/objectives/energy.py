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

import functools
from dataclasses import replace

import torch
from torch import Tensor

from instruct.objectives.objective import Objective
from instruct.objectives.torch_kernels import Head, TorchWeigher
from instruct.objectives.transport import CosineCost

PROJECTION_SEED = 0
# Rows of a table that are normalized and projected at a time, in float32.
ROWS = 8192


class EnergyTable:
    """The unit rows of a table, projected to `dim` dimensions: the embeddings between which energy is measured.

    The projection is a random one (Johnson and Lindenstrauss, 1984): orthonormal columns from a fixed seed, scaled so
    that squared distances keep their expectation. The weight of the energy therefore means the same for every `dim`,
    and energy stays proper, since the score is proper for any embeddings. A principal component analysis would shrink
    every distance: for SmolLM2's head and 128 dimensions to 41 % of its square on average, and less evenly
    (correlation with the exact distances .90, of the random projection .92).

    Args:
        table: (tokens, width), as for CosineCost: not copied, rows of norm 0 stay 0.
        dim: the width of the embeddings. At the table's own width or more, they are its unit rows.
        vocabulary: the number of rows of the head, as for CosineCost: tokens missing in the table are 0.

    Attributes:
        embeddings: (vocabulary, dim), float32, or float64 for a table of float64.
        checksum: of the table, see CosineCost.

    Raises:
        ValueError: as CosineCost, or `dim` is below 1.
    """

    def __init__(self, table: Tensor, dim: int, vocabulary: int | None = None) -> None:
        if dim < 1:
            raise ValueError(f"energy_dim is {dim}; it must be at least 1")
        source = CosineCost(table, vocabulary)
        wide = torch.promote_types(source.table.dtype, torch.float32)
        width = source.table.shape[1]
        projected = []
        for rows, inverse in zip(source.table.split(ROWS), source.inverse_norm.split(ROWS), strict=True):
            units = rows.to(wide) * inverse[:, None]
            projected.append(units if dim >= width else units @ projection(width, dim).to(units))
        self.embeddings = torch.cat(projected)
        self.checksum = source.checksum

    @property
    def vocabulary(self) -> int:
        return len(self.embeddings)


@functools.cache
def projection(width: int, dim: int) -> Tensor:
    """(width, dim) float64: random orthogonal columns of length sqrt(width / dim), the same on every machine."""
    generator = torch.Generator().manual_seed(PROJECTION_SEED)
    columns, _ = torch.linalg.qr(torch.randn(width, dim, generator=generator, dtype=torch.float64))
    return columns * (width / dim) ** 0.5


class EnergyWeigher(TorchWeigher):
    """TorchWeigher with the energy in place of the transport cost, on a CPU and on a GPU."""

    def __init__(
        self, head: Head, objective: Objective, like: Tensor, tokens: int, table: EnergyTable, wants_grad: bool
    ) -> None:
        super().__init__(head, objective, like, tokens, None, 0, wants_grad)
        self.embeddings = table.embeddings.to(self.q)
        self.statistics = replace(self.statistics, cost=torch.empty_like(self.statistics.ce))

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        found, others = self._leave_out_targets(product, target, place)
        q, spare = self.q[: len(product)], self.spare[: len(product)]
        own = self.embeddings[target]
        # sum_j q_j e_j - e_y from the other tokens alone: for a confident token, the difference would cancel.
        offset = torch.addcmul(torch.mm(q, self.embeddings), own, others[:, None], value=-1)
        square = offset.square().sum(dim=-1)
        found = replace(found, cost=square / 2)
        self._store(found, place)
        if self.wants_grad:
            # |r_j - sum_k q_k r_k| is at most twice the offset's length, for unit rows.
            weights = self._weights(found, others, 2 * others * square.sqrt(), place)
            a, b = weights["a"], weights["b"]
            # With r as above, sum_j q_j r_j = r_y + ||offset||^2.
            mean = (offset * own).sum(dim=-1) + square
            torch.mm(offset, self.embeddings.T, out=spare)
            q.mul_(spare.mul_(b[:, None]).add_((a - b * mean)[:, None]))
            q.scatter_(1, target[:, None], -(a * others + b * found.q_target * square)[:, None])
            self._write_gradient_(product)
