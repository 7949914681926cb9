"""From hidden states and the language-model head to a loss, without holding a tokens x vocabulary matrix.

A token's weights (a, b) are known once its vocabulary row has been read, so the gradient is formed in the same pass,
and backward only scales what forward stored. For each chunk of tokens, a pass computes three matrix products (logits;
cost rows of the chunk's distinct labels; gradient to the hidden states; a fourth if the head trains). Between them it
runs a loop over blocks of rows small enough for the processor's cache, or two Triton kernels on a GPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from instruct.objectives.objective import Objective
from instruct.objectives.torch_kernels import ROWS, Head, TorchWeigher, WeighedTokens, whole_rows
from instruct.objectives.transport import CosineCost, TransportCost

if TYPE_CHECKING:
    from instruct.objectives.triton_kernels import TritonWeigher

# Size of each of the two buffers that are as wide as the vocabulary: a chunk's logits and its labels' cost rows.
CHUNK_BYTES = 64 * 2**20
# On a CPU, more rows use more memory without making the products faster (benchmarks/README.md).
CPU_CHUNK_ROWS = 256


@dataclass(frozen=True)
class ObjectiveStatistics:
    """Sums over tokens, float64 scalars: add them over micro-batches and ranks, then divide by `tokens`."""

    tokens: Tensor
    value: Tensor
    ce: Tensor
    cost: Tensor
    error_norm: Tensor
    ratio: Tensor
    clamped: Tensor
    correct: Tensor


def linear_objective_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    objective: Objective,
    cost: TransportCost | None = None,
    bias: Tensor | None = None,
    logit_scale: float = 1.0,
    softcap: float | None = None,
    num_items: Tensor | int | None = None,
) -> tuple[Tensor, ObjectiveStatistics]:
    """The objective's loss over response tokens, and its statistics.

    Args:
        hidden: (tokens, hidden), the states that predict `labels`, of response tokens only; float32, bfloat16 or
            float16 (float64 for tests).
        weight: (vocab, hidden), the language-model head; cast to the dtype of `hidden`.
        labels: (tokens,) int64, the target of each state.
        objective: MLE(), EMO(...), MixCE(...) or another member of the family.
        cost: the transport cost; None: 1 - cosine of the current head's rows, detached.
        bias: (vocab,), the head's bias (Phi).
        logit_scale: multiplies the logits (Cohere, Granite).
        softcap: caps the logits at softcap * tanh(logits / softcap) (Gemma 2), after the scale.
        num_items: the divisor of the summed loss; None: the number of tokens.

    Returns:
        The loss, a float32 scalar differentiable in `hidden`, `weight` and `bias`, and the statistics as sums. Apart
        from the gradients, it needs at most 2 x CHUNK_BYTES of memory for any number of tokens.

    Raises:
        ValueError: the shapes do not match, or the cost and the head differ in their vocabulary.
    """
    if hidden.ndim != 2 or labels.shape != hidden.shape[:1] or weight.shape[1:] != hidden.shape[1:]:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, labels {tuple(labels.shape)} and weight {tuple(weight.shape)} must be "
            "(tokens, hidden), (tokens,) and (vocab, hidden)"
        )
    if cost is not None and cost.vocabulary != weight.shape[0]:
        raise ValueError(f"the cost table has {cost.vocabulary} rows, the head {weight.shape[0]}; they must be equal")
    if num_items is None:
        num_items = max(labels.numel(), 1)
    # Inside forward(), autograd reports that a Parameter needs a gradient even under no_grad.
    wants_grad = torch.is_grad_enabled()
    sum_loss, sums = _LinearObjective.apply(
        hidden, weight, bias, labels, objective, cost, logit_scale, softcap, wants_grad
    )
    loss = sum_loss / torch.as_tensor(num_items, device=sum_loss.device).clamp(min=1)
    return loss, ObjectiveStatistics(*sums.unbind())


class _LinearObjective(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        objective: Objective,
        cost: TransportCost | None,
        logit_scale: float,
        softcap: float | None,
        wants_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        needs_hidden = wants_grad and ctx.needs_input_grad[0]
        needs_weight = wants_grad and ctx.needs_input_grad[1]
        needs_bias = wants_grad and bias is not None and ctx.needs_input_grad[2]
        wide = torch.promote_types(hidden.dtype, torch.float32)
        # Under autocast the states may be bf16 and the head float32: cast once, outside the loop.
        head = Head(weight.to(hidden.dtype), bias, logit_scale, softcap)
        if not objective.needs_cost:
            cost = None
        elif cost is None:
            cost = CosineCost(head.weight)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if needs_bias and bias is not None else None
        needs_any = needs_hidden or needs_weight or needs_bias

        size = _chunk_rows(hidden.new_empty(0, len(weight)))
        products = hidden.new_empty(whole_rows(min(size, len(labels))), len(weight))
        weigher = _weigher_class(hidden)(head, objective, products, cost is not None, needs_any)
        columns = hidden.new_empty(len(fields(ObjectiveStatistics)), len(labels), dtype=wide)
        for index, cost_rows, row_of in _chunks(labels, cost, size, products):
            states = hidden[_padded(index)]
            product = torch.mm(states, head.weight.T, out=products[: len(states)])
            weighed = weigher.weigh_(product[: len(index)], labels[index], cost_rows, row_of)
            columns[:, index] = torch.cat([_columns(tokens) for tokens in weighed], dim=1)
            # The product has been overwritten with the gradient to itself.
            product[len(index) :] = 0
            if grad_hidden is not None:
                grad_hidden[index] = torch.mm(product, head.weight)[: len(index)]
            if grad_weight is not None:
                grad_weight += torch.mm(product.T, states)
            if grad_bias is not None:
                grad_bias += product.sum(dim=0, dtype=wide)
        sums = columns.sum(dim=1, dtype=torch.float64)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(sums)
        return sums[1].to(wide), sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # The division by the number of items arrives here, so it is computed in float32 rather than in the operands'
        # narrow dtype. The saved gradients are not modified.
        scale = grad_outputs[0]
        scaled = [
            None if grad is None else torch.mul(grad, scale, out=torch.empty_like(grad, dtype=dtype))
            for grad, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None, None, None, None)


def _affordable_rows(like: Tensor) -> int:
    """The number of rows of the width and dtype of `like`, (rows, vocab), that fit into CHUNK_BYTES."""
    return max(ROWS, CHUNK_BYTES // (like.shape[1] * like.element_size()) // ROWS * ROWS)


def _chunk_rows(like: Tensor) -> int:
    """Rows of a chunk: as many as fit; on a CPU no more than make its products faster."""
    affordable = _affordable_rows(like)
    return min(affordable, CPU_CHUNK_ROWS) if like.device.type == "cpu" else affordable


def _weigher_class(hidden: Tensor) -> type[TorchWeigher] | type[TritonWeigher]:
    if hidden.is_cuda and hidden.dtype != torch.float64 and importlib.util.find_spec("triton"):
        from instruct.objectives.triton_kernels import TritonWeigher

        return TritonWeigher
    return TorchWeigher


def _chunks(
    labels: Tensor, cost: TransportCost | None, size: int, like: Tensor
) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """Indices of at most `size` tokens, the cost rows of their labels and each token's row there, if there is a cost.

    Tokens are sorted by label, so that a cost row is computed once for all tokens that share it. Cost rows are computed
    for a group of labels at a time, because larger products are faster.
    """
    if cost is None:
        for index in _split(torch.arange(len(labels), device=labels.device), size):
            yield index, None, None
        return
    order = labels.argsort(stable=True)
    distinct, row_of, counts = labels[order].unique_consecutive(return_inverse=True, return_counts=True)
    ends = [0, *counts.cumsum(0).tolist()]
    # Twice the chunk's size if memory allows, because each group of labels ends with a chunk that is not full.
    most = max(size, min(2 * size, _affordable_rows(like)))
    buffer = like.new_empty(whole_rows(min(most, len(distinct))), cost.vocabulary)
    first = 0
    for group in _split(distinct, most):
        wanted = _padded(group)
        rows = cost.rows(wanted, out=buffer[: len(wanted)]).to(like.dtype)
        tokens = slice(ends[first], ends[first + len(group)])
        for index, row in zip(_split(order[tokens], size), _split(row_of[tokens] - first, size), strict=True):
            yield index, rows, row
        first += len(group)


def _split(items: Tensor, size: int) -> tuple[Tensor, ...]:
    """As few parts of at most `size` as possible, of about equal size: a small last part would be slow."""
    if not len(items):
        return ()
    parts = -(-len(items) // size)
    return items.split(min(size, whole_rows(-(-len(items) // parts))))


def _padded(items: Tensor) -> Tensor:
    """The items, padded with the first one up to `whole_rows`."""
    return torch.cat([items, items[:1].expand(whole_rows(len(items)) - len(items))])


def _columns(tokens: WeighedTokens) -> Tensor:
    """(statistics, tokens): the values to sum, in the order of ObjectiveStatistics."""
    found, weighting = tokens.statistics, tokens.weighting
    zero = torch.zeros_like(found.ce)
    return torch.stack(
        [
            torch.ones_like(found.ce),
            weighting.value,
            found.ce,
            zero if found.cost is None else found.cost,
            zero if found.error_norm is None else found.error_norm,
            zero if weighting.ratio is None else weighting.ratio,
            zero if weighting.clamped is None else weighting.clamped.to(zero.dtype),
            tokens.correct.to(zero.dtype),
        ]
    )
