"""From hidden states and the language-model head to a loss, without holding a tokens x vocabulary matrix.

A token's weights (a, b) are known once its vocabulary row has been read, so the gradient is formed in the same pass,
and backward only scales what forward stored. For each chunk of tokens, a pass computes three matrix products (logits;
cost rows of the chunk's distinct labels; gradient to the hidden states; a fourth if the head trains). Between them it
runs a loop over blocks of rows small enough for the processor's cache, or three kernels on a GPU.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from instruct.objectives.built_in import Energy
from instruct.objectives.objective import FLOAT16_SIZE, LogitLoss, Objective, Weighting
from instruct.objectives.plan import CPU_ROWS, GPU_ROWS, plan_tokens, whole_rows
from instruct.objectives.torch_kernels import (
    EnergyWeigher,
    Head,
    LogitWeigher,
    LossParts,
    Reference,
    TorchWeigher,
    reference_statistics,
)
from instruct.objectives.transport import CosineCost, EnergyTable

if TYPE_CHECKING:
    from instruct.objectives.triton_kernels import TritonWeigher

# Without Triton: size of each of the two buffers that are as wide as the vocabulary, logits and cost rows of a chunk.
CHUNK_BYTES = 64 * 2**20
# On a CPU, more rows use more memory without making the products faster (benchmarks/README.md).
CPU_CHUNK_ROWS = 256
# On a GPU, the gradient to the states has (rows / 128) x (hidden / 128) tiles, which must fill some 132 multiprocessors
# (docs/performance.md). If the head trains, each chunk reads and writes the whole gradient to it.
GPU_CHUNK_ROWS, GPU_CHUNK_ROWS_TRAINING_HEAD = 1024, 2048
# On a GPU, rows as wide as the vocabulary start at a multiple of this many numbers, so that every load is whole.
GPU_STRIDE = 64
# The smallest sum of weights that divides a loss.
LEAST_ITEMS = 1e-30


@dataclass(frozen=True)
class ObjectiveStatistics:
    """Sums over tokens, float64 scalars: add them over micro-batches and ranks, then divide by `tokens`.

    Where tokens have weights, all are weighted sums, and `tokens` is the sum of the weights.
    """

    tokens: Tensor
    value: Tensor
    ce: Tensor
    cost: Tensor
    error_norm: Tensor
    entropy: Tensor
    ratio: Tensor
    clamped: Tensor
    correct: Tensor


def linear_objective_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    objective: Objective,
    cost: CosineCost | EnergyTable | None = None,
    bias: Tensor | None = None,
    logit_scale: float = 1.0,
    softcap: float | None = None,
    num_items: Tensor | int | None = None,
    chunk_rows: int | None = None,
    reference: Reference | None = None,
    token_weights: Tensor | None = None,
) -> tuple[Tensor, ObjectiveStatistics]:
    """The objective's loss over response tokens, and its statistics.

    It computes in the dtype of `hidden`, also under autocast.

    Args:
        hidden: (tokens, hidden), the states that predict `labels`; float32, bfloat16 or float16 (float64 for tests).
        weight: (vocab, hidden), the language-model head; cast to the dtype of `hidden`.
        labels: (tokens,) int64, the target of each state; -100 for a token without loss, which costs nothing. On a GPU,
            labels that are still on the CPU are faster: the order of computation is planned on the CPU, which otherwise
            waits until the GPU has finished what it was given before.
        objective: MLE(), EMO(...), MixCE(...) or another member of the family.
        cost: the transport cost or, for Energy, the table; None: 1 - cosine of the current head's rows, or the table
            made of them, detached.
        bias: (vocab,), the head's bias (Phi).
        logit_scale: multiplies the logits (Cohere, Granite).
        softcap: caps the logits at softcap * tanh(logits / softcap) (Gemma 2), after the scale.
        num_items: the divisor of the summed loss; None: the number of tokens with loss, or the sum of their weights.
        chunk_rows: tokens whose logits are in memory at a time, at most. None: on a GPU 1,024, or 2,048 if the head
            trains; on a CPU 256, or as many as fit into CHUNK_BYTES.
        reference: what the model before training has for the same tokens, for an objective that takes its logits or
            statistics; None: those of the model itself.
        token_weights: (tokens,) float32, what each token's loss is multiplied by; finite, and above 0 where a label is
            not -100. None: 1.

    Returns:
        The loss, a float32 scalar differentiable in `hidden`, `weight` and `bias`, and the statistics as sums. Apart
        from the gradients, it needs memory for the states with loss, and for any number of tokens at most two buffers
        of (chunk_rows, vocab) in the dtype of `hidden`: logits and, if the objective has a cost, cost rows.

    Raises:
        ValueError: the shapes do not match, the cost and the head differ in their vocabulary, Energy is given a
            transport cost, a label is outside the vocabulary, or `chunk_rows` is not positive.
    """
    if hidden.ndim != 2 or labels.shape != hidden.shape[:1] or weight.shape[1:] != hidden.shape[1:]:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, labels {tuple(labels.shape)} and weight {tuple(weight.shape)} must be "
            "(tokens, hidden), (tokens,) and (vocab, hidden)"
        )
    vocabulary = len(weight)
    if cost is not None and cost.vocabulary != vocabulary:
        raise ValueError(f"the cost table has {cost.vocabulary} rows, the head {vocabulary}; they must be equal")
    if isinstance(objective, Energy) and not (cost is None or isinstance(cost, EnergyTable)):
        raise ValueError(f"Energy is measured in an EnergyTable, not in a {type(cost).__name__}; pass one as the cost")
    if token_weights is not None and token_weights.shape != labels.shape:
        raise ValueError(f"token_weights {tuple(token_weights.shape)} must be (tokens,), as labels are")
    if chunk_rows is not None and chunk_rows < 1:
        raise ValueError(f"chunk_rows is {chunk_rows}; it must be at least 1")
    # Inside forward(), autograd reports that a Parameter needs a gradient even under no_grad.
    wants_grad = torch.is_grad_enabled()
    triton = _uses_triton(hidden)
    head_trains = wants_grad and weight.requires_grad
    chunk_rows, most_labels = buffer_rows(vocabulary, hidden.element_size(), triton, head_trains, chunk_rows)
    multiple = GPU_ROWS if triton else CPU_ROWS
    has_rows = "cost" in objective.needs and not isinstance(objective, Energy) and not isinstance(cost, EnergyTable)
    plan = plan_tokens(labels, vocabulary, chunk_rows, multiple, most_labels, has_rows, hidden.device)
    if token_weights is not None:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        token_weights = token_weights.to(hidden.device, wide)
        if plan.order is not None:
            token_weights = token_weights[plan.order]
    head = Head(weight, bias, logit_scale, softcap)
    work = LossParts(head, objective, plan, cost, reference, wants_grad, weights=token_weights)
    # Autocast would change the dtype of products that write into given memory.
    with torch.autocast(hidden.device.type, enabled=False):
        sum_loss, sums = _LinearObjective.apply(hidden, weight, bias, work)
    if num_items is None:
        num_items = len(plan.labels) if token_weights is None else token_weights.sum()
    # A number is not moved to the GPU: the host would wait for the copy. Without tokens the sum is 0, whatever divides.
    if isinstance(num_items, Tensor):
        divisor: Tensor | int = num_items.to(sum_loss.dtype).clamp(min=LEAST_ITEMS)
    else:
        divisor = max(num_items, 1)
    return sum_loss / divisor, ObjectiveStatistics(*sums.unbind())


class _LinearObjective(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, work: LossParts
    ) -> tuple[Tensor, Tensor]:
        plan, objective, cost, reference = work.plan, work.objective, work.cost, work.reference
        needs_hidden, needs_weight, needs_bias = (work.wants_grad and needed for needed in ctx.needs_input_grad[:3])
        wide = torch.promote_types(hidden.dtype, torch.float32)
        # Under autocast the states may be bf16 and the head float32: cast once, outside the loop.
        head = replace(work.head, weight=weight.to(hidden.dtype))
        if "cost" not in objective.needs:
            cost = None
        elif cost is None:  # that between the head's rows
            cost = CosineCost(head.weight)
            if isinstance(objective, Energy):
                cost = EnergyTable(head.weight, objective.dim)
        states = hidden if plan.order is None else hidden.index_select(0, plan.order)
        grad_states = None
        if needs_hidden:
            # A chunk's own copy of the states is not read again, so that its gradient can take their place.
            grad_states = states if plan.order is not None else hidden.new_empty(hidden.shape)
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if needs_bias and bias is not None else None

        # (rows of the largest chunk, vocab), in the dtype of `hidden`.
        rows = max((chunk.stop - chunk.start for group in plan.groups for chunk in group.chunks), default=0)
        if _uses_triton(hidden):
            products = hidden.new_empty(rows, whole_rows(len(weight), GPU_STRIDE))[:, : len(weight)]
        else:
            products = hidden.new_empty(whole_rows(rows), len(weight))
        needs_any = needs_hidden or needs_weight or needs_bias
        if reference is not None and plan.order is not None:
            reference = replace(reference, states=reference.states.index_select(0, plan.order))
        seen = reference or Reference(states, head)  # without one: the model itself, as when training begins
        like = hidden.new_empty(0, len(weight), dtype=wide)
        of_reference = reference_statistics(seen, plan.labels, objective.needs, like, rows)
        parts = replace(
            work, head=head, cost=cost, reference=reference, wants_grad=needs_any, of_reference=of_reference
        )
        weigher = _weigher(parts, products)

        def scale_of(tokens: slice) -> Tensor | None:
            """What the gradients of these tokens are still to be multiplied by, apart from what all are."""
            scales = [whole[tokens] for whole in (weigher.unit, work.weights) if whole is not None]
            return math.prod(scales[1:], start=scales[0]) if scales else None

        # What the states are multiplied by as they take the scale: it leaves them within float16's range.
        sized_by: float | Tensor = FLOAT16_SIZE
        if work.weights is not None and len(work.weights):
            sized_by = FLOAT16_SIZE / work.weights.max()
        for group in plan.groups:
            if plan.distinct is not None:
                weigher.load_costs(plan.distinct[group.labels])
            for chunk in group.chunks:
                own = _padded(states[chunk])
                product = torch.mm(own, head.weight.T, out=products[: len(own)])
                count = chunk.stop - chunk.start
                row_of = None if plan.row_of is None else plan.row_of[chunk]
                weigher.weigh_(product[:count], plan.labels[chunk], row_of, chunk)
                # The product has been overwritten with the gradient to itself.
                if len(own) > count:
                    product[count:] = 0
                unit = scale_of(chunk)
                if grad_weight is not None:
                    # The states take the scale; in float16, below 1e-7 or so, a token's share gets rough.
                    sized = own
                    if unit is not None:
                        sized = _padded((states[chunk] * unit[:, None] * sized_by).to(own.dtype))
                    _add_product_(grad_weight, product, sized)
                if grad_bias is not None:
                    summands = product if unit is None else product[:count] * unit[:, None]
                    grad_bias += summands.sum(dim=0, dtype=wide)
                if grad_states is not None and len(own) > count:
                    grad_states[chunk] = torch.mm(product, head.weight)[:count]
                elif grad_states is not None:
                    torch.mm(product, head.weight, out=grad_states[chunk])
        scale = scale_of(slice(None))
        if grad_weight is not None and scale is not None:
            grad_weight /= sized_by
        columns = _columns(objective, weigher)
        sums = (columns if work.weights is None else columns * work.weights).sum(dim=1, dtype=torch.float64)
        ctx.save_for_backward(plan.order, grad_states, scale, grad_weight, grad_bias)
        ctx.tokens, ctx.dtypes = len(hidden), (weight.dtype, None if bias is None else bias.dtype)
        ctx.mark_non_differentiable(sums)
        return sums[1].to(wide), sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # The division by the number of items arrives here, so it is computed in float32 rather than in the operands'
        # narrow dtype. The saved gradients are not modified.
        scale = grad_outputs[0]
        if scale.device.type != "cpu":
            # A GPU would round a tensor without dimensions to the other's dtype first; a CPU would copy the other one.
            scale = scale[None]
        order, grad_states, unit, *others = ctx.saved_tensors
        grad_hidden = None
        if grad_states is not None:
            of_states = scale if unit is None else (unit * scale)[:, None]
            if order is None:
                grad_hidden = torch.mul(grad_states, of_states, out=torch.empty_like(grad_states))
            else:
                shape = ctx.tokens, grad_states.shape[1]
                everywhere = len(order) == ctx.tokens
                grad_hidden = grad_states.new_empty(shape) if everywhere else grad_states.new_zeros(shape)
                if unit is not None:
                    of_states = of_states.new_zeros(ctx.tokens, 1).index_copy_(0, order, of_states)
                grad_hidden.index_copy_(0, order, grad_states).mul_(of_states)
        scaled = [
            None if grad is None else torch.mul(grad, scale, out=torch.empty_like(grad, dtype=dtype))
            for grad, dtype in zip(others, ctx.dtypes, strict=True)
        ]
        return (grad_hidden, *scaled, None)


def _uses_triton(hidden: Tensor) -> bool:
    return hidden.is_cuda and hidden.dtype != torch.float64 and importlib.util.find_spec("triton") is not None


def _weigher(work: LossParts, products: Tensor) -> TorchWeigher | TritonWeigher:
    if isinstance(work.objective, LogitLoss):
        return LogitWeigher(work, products)
    if isinstance(work.cost, EnergyTable):
        return EnergyWeigher(work, products)
    if _uses_triton(products):
        from instruct.objectives.triton_kernels import TritonWeigher

        return TritonWeigher(work, products)
    return TorchWeigher(work, products)


def buffer_rows(
    vocabulary: int, element_size: int, triton: bool, head_trains: bool, chunk_rows: int | None = None
) -> tuple[int, int]:
    """The rows of logits and of costs, each as wide as the vocabulary, that are in memory at a time, at most."""
    if triton:
        rows = chunk_rows or (GPU_CHUNK_ROWS_TRAINING_HEAD if head_trains else GPU_CHUNK_ROWS)
        return rows, rows
    affordable = max(CPU_ROWS, CHUNK_BYTES // (vocabulary * element_size) // CPU_ROWS * CPU_ROWS)
    rows = chunk_rows or min(affordable, CPU_CHUNK_ROWS)
    return rows, max(rows, min(2 * rows, affordable))


def _padded(states: Tensor) -> Tensor:
    """The states; without Triton, padded with zeros to a multiple of CPU_ROWS."""
    missing = whole_rows(len(states)) - len(states)
    if not missing or _uses_triton(states):
        return states
    return torch.nn.functional.pad(states, (0, 0, 0, missing))


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left.T @ right, accumulated in the dtype of `total`."""
    if total.dtype == left.dtype:
        total.addmm_(left.T, right)
    elif total.is_cuda:
        torch.addmm(total, left.T, right, out_dtype=total.dtype, out=total)
    else:  # only CUDA has `out_dtype`
        total += torch.mm(left.T, right)


def _columns(objective: Objective, weigher: TorchWeigher | TritonWeigher) -> Tensor:
    """(statistics, tokens): the values to sum, in the order of ObjectiveStatistics."""
    statistics = weigher.statistics
    if isinstance(weigher, LogitWeigher):
        weighting = Weighting(a=statistics.ce, value=weigher.values)
    else:
        weighting = objective.weigh(statistics)
    zero = torch.zeros_like(statistics.ce)
    optional = statistics.cost, statistics.error_norm, statistics.entropy, weighting.ratio, weighting.clamped
    columns = [torch.ones_like(zero), weighting.value, statistics.ce, *optional, weigher.correct]
    return torch.stack([zero if column is None else column.to(zero.dtype) for column in columns])
