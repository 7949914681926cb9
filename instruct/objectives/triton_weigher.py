"""The counterpart of torch_kernels.TorchWeigher on a GPU: the launches between linear.py's matrix products.

Between the two Triton kernels, torch.compile turns the objective's own `weigh` into a third one. This module imports
triton, so import it only if the tensors are on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from instruct.objectives.objective import Objective, TokenStatistics
from instruct.objectives.own import made_up_tokens
from instruct.objectives.torch_kernels import LossParts
from instruct.objectives.transport import CosineCost, TransportCost, unit_rows
from instruct.objectives.triton_kernels import CostRows, RawStatistics, logit_gradient_, token_statistics


def weights(objective: Objective, found: TokenStatistics, others: Tensor | None = None) -> Tensor:
    """The gradient's weights by TERMS, without those that are None: (weights, tokens); in float16 also the unit.

    What else `weigh` computes is left out when this is compiled. The rows are chosen from, not stacked, because
    torch.compile writes the parts of a stack in a kernel each if they have no input in common (EMO's a is constant).

    Args:
        others: 1 - q_target, for gradients in float16: the weights are divided by the unit.
    """
    weighting = objective.weigh(found)
    # As in Weighting.terms, which torch.compile does not follow.
    rows = [row for row in (weighting.a, weighting.b, weighting.h, weighting.u) if row is not None]
    if others is not None:
        unit = weighting.float16_unit(others, found.cost, found.entropy)
        rows = [*(row / unit for row in rows), unit]
    number = torch.arange(len(rows), device=found.ce.device)[:, None]
    chosen = rows[-1][None]
    for index, row in enumerate(rows[:-1]):
        chosen = torch.where(number == index, row, chosen)
    return chosen


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one kernel for any number of tokens, compiled at its first call."""
    return torch.compile(function, dynamic=True)


class TritonWeigher:
    """The counterpart of torch_kernels.TorchWeigher: three kernels per chunk, and a product for each `load_costs`."""

    def __init__(self, work: LossParts, like: Tensor) -> None:
        objective, tokens = work.objective, len(work.plan.labels)
        self.head, self.objective, self.wants_grad = work.head, objective, work.wants_grad
        cost = self.cost = cast("TransportCost | None", work.cost)  # EnergyWeigher has the tables of energies
        self.raw = RawStatistics.empty(tokens, like.device, objective.needs)
        self.statistics, self.correct = self.raw.of_tokens, self.raw.correct  # filled by `weigh_`
        in_units = like.dtype == torch.float16 and work.wants_grad
        self.unit = torch.empty(tokens, device=like.device) if in_units else None
        self.terms = list(objective.weigh(made_up_tokens(objective)).terms) if work.wants_grad else []
        self.inverse_norm: Tensor | None = None
        self.buffer: Tensor | None = None
        self.cost_rows: Tensor | None = None
        if cost is not None:
            dtype = cost.table.dtype if isinstance(cost, CosineCost) else like.dtype
            self.buffer = like.new_empty(work.plan.most_labels, like.stride(0), dtype=dtype)[:, : like.shape[1]]
        if isinstance(cost, CosineCost):
            # In the products' dtype: every token's row reads them all.
            missing = like.stride(0) - cost.vocabulary
            self.inverse_norm = torch.nn.functional.pad(cost.inverse_norm.to(like.dtype), (0, missing))

    def load_costs(self, labels: Tensor) -> None:
        assert self.cost is not None
        assert self.buffer is not None
        buffer = self.buffer[: len(labels)]
        if isinstance(self.cost, CosineCost):
            units = compiled(unit_rows)(self.cost.table, self.cost.inverse_norm, labels)
            self.cost_rows = torch.mm(units, self.cost.table.T, out=buffer)
        else:
            self.cost_rows = self.cost.rows(labels, out=buffer)

    def weigh_(self, product: Tensor, target: Tensor, row_of: Tensor | None, tokens: slice) -> None:
        costs = None
        if self.cost_rows is not None and row_of is not None:
            costs = CostRows(self.cost_rows, row_of, self.inverse_norm)
        raw = self.raw.part(tokens)
        token_statistics(product, target, self.head, raw, costs)
        if self.wants_grad:
            others = None if self.unit is None else raw.q_others
            rows = compiled(weights)(self.objective, raw.of_tokens, others)
            if self.unit is not None:
                self.unit[tokens] = rows[-1]
            terms = dict(zip(self.terms, rows, strict=False))  # the unit, if there is one, comes last
            logit_gradient_(product, target, self.head, raw, terms, costs)
