"""The work between linear.py's matrix products on a GPU: two Triton kernels over (tokens, vocab) logits, in place.

Between the two, torch.compile turns the objective's own `weigh` into a third one.

Logits are read once for a token's statistics and once more when they are overwritten with their gradient; nothing else
of that size is allocated. A row of logits may be followed by padding up to the row stride: its numbers are never used
and may be overwritten, so that every load and store is whole, whatever the size of the vocabulary.

This module imports triton, so import it only if the tensors are on a GPU. Triton's interpreter (TRITON_INTERPRET=1, set
before triton is imported) runs the kernels on the CPU.

Exponentials are computed as powers of two, as the hardware does: exp(x) = 2^(x log2 e). `peak` is the largest exponent
of a row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from instruct.objectives.objective import OPTIONAL, TERMS, Objective, TokenStatistics, made_up_tokens
from instruct.objectives.plan import whole_rows
from instruct.objectives.torch_kernels import Head, LossParts
from instruct.objectives.transport import unit_rows

LOG2E = tl.constexpr(1.4426950408889634)
# Below every exponent and, unlike -inf, safe to subtract from itself.
FLOOR = tl.constexpr(-1e30)

# Bytes of logits and costs that a program has in flight: two 16-byte loads in each thread, and few enough registers
# (64) for two programs to share a Hopper SM.
STATISTICS_BYTES, STATISTICS_WARPS = 2**14, 16
GRADIENT_BLOCK, GRADIENT_WARPS = 4096, 8


@dataclass(frozen=True)
class RawStatistics:
    """Statistics of some tokens, each (tokens,) float32, except `correct`, which is bool; None if not requested.

    `correct`: the target is the first of the largest logits, as in torch.max. `q_others` = 1 - q_target, never computed
    as a difference. `peak` and `total` give q_j = 2^(z_j log2 e - peak) / total.
    """

    ce: Tensor
    q_target: Tensor
    cost: Tensor | None
    error_norm: Tensor | None
    entropy: Tensor | None
    squares: Tensor | None
    uniform: Tensor | None
    correct: Tensor
    q_others: Tensor
    peak: Tensor
    total: Tensor

    @classmethod
    def empty(cls, tokens: int, device: torch.device, needs: Collection[str]) -> RawStatistics:
        names = ["ce", "q_target", "q_others", "peak", "total", *(name for name in OPTIONAL if name in needs)]
        rows = torch.empty((len(names), tokens), device=device)
        correct = torch.empty(tokens, device=device, dtype=torch.bool)
        return cls(**(dict.fromkeys(OPTIONAL) | dict(zip(names, rows, strict=True))), correct=correct)

    def part(self, place: slice) -> RawStatistics:
        """The statistics of the tokens at this place, in the same memory."""
        return RawStatistics(**{name: None if all_ is None else all_[place] for name, all_ in vars(self).items()})

    @property
    def of_tokens(self) -> TokenStatistics:
        return TokenStatistics(self.ce, self.q_target, **{name: getattr(self, name) for name in OPTIONAL})


class CostRows(NamedTuple):
    """The transport costs of some tokens: max(0, 1 - rows * inverse_norm).

    Args:
        rows: (distinct, vocab), float32, bfloat16 or float16, dot products of each distinct label's unit row with every
            token's row; the (finite) entry at the label is ignored.
        row_of: (tokens,) int64, each token's row.
        inverse_norm: (vocab, or that rounded up to a multiple of GPU_STRIDE), of every token's row.
    """

    rows: Tensor
    row_of: Tensor
    inverse_norm: Tensor


NO_COSTS = (None, None, None)


def token_statistics(
    logits: Tensor, target: Tensor, head: Head, out: RawStatistics, costs: CostRows | None = None
) -> None:
    """Fill the statistics of `out` that are not None, from one pass over the logits.

    Args:
        logits: (tokens, vocab), states @ weight.T; float32, bfloat16 or float16. Rows may be padded: see above.
        target: (tokens,) int64, each in [0, vocab).
        head: whose logits they are.
        costs: for the statistic `cost`.
    """
    tokens, vocabulary = logits.shape
    # The widest load that does not cross rows: 16 bytes if the stride is a multiple of that.
    width, shape = _row_shape(logits, costs, 16 // logits.element_size())
    block = STATISTICS_BYTES // (logits.element_size() * (1 if costs is None else 2))
    with torch.cuda.device_of(logits):
        _statistics_kernel[(tokens,)](
            logits,
            target,
            *(costs or NO_COSTS),
            head.bias,
            *vars(out).values(),  # in the kernel's order
            **shape,
            SCALE=head.logit_scale,
            SOFTCAP=head.softcap,
            LANES=max(1, min(block, triton.next_power_of_2(vocabulary)) // width),
            WIDTH=width,
            num_warps=STATISTICS_WARPS,
            enable_fp_fusion=True,
        )


def logit_gradient_(
    logits: Tensor,
    target: Tensor,
    head: Head,
    statistics: RawStatistics,
    weights: Mapping[str, Tensor],
    costs: CostRows | None = None,
) -> None:
    """Overwrite `logits` with their gradient, d(sum_t loss_t) / d(states @ weight.T), in their own dtype.

    The loss is a_t ce_t + b_t cost_t + h_t entropy_t + u_t uniform_t. The values are computed in float32 and cast at
    the end. Without `b`, `costs` are not read.

    Args:
        logits: (tokens, vocab) as given to `token_statistics`, which filled `statistics`.
        target, head, costs: as given to `token_statistics`.
        weights: (tokens,) float32 each, the objective's, by TERMS.
    """
    a, b, h, u = (weights.get(name) for name in TERMS)
    if b is None:
        costs = None
    tokens, vocabulary = logits.shape
    _, shape = _row_shape(logits, costs, 16 // logits.element_size())
    block = min(GRADIENT_BLOCK, triton.next_power_of_2(vocabulary))
    with torch.cuda.device_of(logits):
        _gradient_kernel[(tokens, triton.cdiv(vocabulary, block))](
            logits,
            target,
            statistics.q_target,
            None if b is None else statistics.cost,
            None if h is None else statistics.ce,
            None if h is None else statistics.entropy,
            statistics.q_others,
            statistics.peak,
            statistics.total,
            *(None if weight is None else weight.contiguous() for weight in (a, b, h, u)),
            *(costs or NO_COSTS),
            head.bias,
            **shape,
            SCALE=head.logit_scale,
            SOFTCAP=head.softcap,
            BLOCK=block,
            num_warps=GRADIENT_WARPS,
            enable_fp_fusion=True,
        )


def _row_shape(logits: Tensor, costs: CostRows | None, width: int) -> tuple[int, dict[str, int]]:
    """The numbers that one load reads, at most `width`, and the kernels' arguments for rows and their padding.

    READABLE is the part of a row, padding included, that whole loads and stores may touch.
    """
    vocabulary, strides = logits.shape[1], [logits.stride(0)]
    if costs is not None:
        strides += [costs.rows.stride(0), len(costs.inverse_norm)]
    width = math.gcd(width, *strides)
    return width, {
        "VOCABULARY": vocabulary,
        "READABLE": whole_rows(vocabulary, width),
        "STRIDE": strides[0],
        "COST_STRIDE": strides[1] if len(strides) > 1 else 0,
    }


@triton.jit
def _capped(
    logits: tl.tensor,
    bias: tl.tensor,
    columns: tl.tensor,
    inside: tl.tensor,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
) -> tl.tensor:
    """float32 softcap * tanh(scale * (logits + bias) / softcap)."""
    z = logits.to(tl.float32)
    if bias is not None:
        z += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    if SCALE != 1.0:
        z *= SCALE
    if SOFTCAP is not None:
        # From exp(-2|x|), which cannot overflow; the hardware's tanh has only 11 bits.
        shrunk = tl.exp2(tl.abs(z) * (-2 * LOG2E / SOFTCAP))
        capped = SOFTCAP * (1 - shrunk) / (1 + shrunk)
        z = tl.where(z < 0, -capped, capped)
    return z


@triton.jit
def _log1p(x: tl.tensor) -> tl.tensor:
    """log(1 + x) for x >= 0, corrected for the rounding of 1 + x; libdevice's does not run in the interpreter."""
    rounded = 1 + x
    return tl.where(rounded == 1, x, tl.log(rounded) * (x / (rounded - 1)))


@triton.jit
def _costs(cost_rows: tl.tensor, inverse_norm: tl.tensor, columns: tl.tensor, readable: tl.tensor) -> tl.tensor:
    """float32 costs, see CostRows."""
    dots = tl.load(cost_rows + columns, mask=readable, other=0.0).to(tl.float32)
    norms = tl.load(inverse_norm + columns, mask=readable, other=0.0).to(tl.float32)
    return tl.maximum(1 - dots * norms, 0.0, propagate_nan=tl.PropagateNan.ALL)


# The alignment of these two depends on the number of tokens and does not matter: one number per row is read.
@triton.jit(do_not_specialize_on_alignment=["target", "row_of"])
def _statistics_kernel(
    logits: tl.tensor,
    target: tl.tensor,
    cost_rows: tl.tensor,
    row_of: tl.tensor,
    inverse_norm: tl.tensor,
    bias: tl.tensor,
    ce: tl.tensor,
    q_target: tl.tensor,
    cost: tl.tensor,
    error_norm: tl.tensor,
    entropy: tl.tensor,
    squares: tl.tensor,
    uniform: tl.tensor,
    correct: tl.tensor,
    q_others: tl.tensor,
    peak: tl.tensor,
    total: tl.tensor,
    VOCABULARY: tl.constexpr,
    READABLE: tl.constexpr,
    STRIDE: tl.constexpr,
    COST_STRIDE: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LANES: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Online softmax of one row. Each lane keeps its own peak and sums, so that threads do not wait in the loop.

    A lane reads WIDTH neighboring columns in one load and rescales its sums once for all of them.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * STRIDE
    if cost_rows is not None:
        cost_rows += tl.load(row_of + row).to(tl.int64) * COST_STRIDE
    y = tl.load(target + row).to(tl.int32)
    at_y = _capped(tl.load(logits + y), bias, y, True, SCALE, SOFTCAP) * LOG2E

    BLOCK: tl.constexpr = LANES * WIDTH
    lane_peak = tl.full([LANES], FLOOR, tl.float32)
    lane_rest = tl.zeros([LANES], tl.float32)
    lane_cost = tl.zeros([LANES], tl.float32)
    lane_square = tl.zeros([LANES], tl.float32)
    # The sums of power * (exponent - lane_peak), and of the exponents.
    lane_information = tl.zeros([LANES], tl.float32)
    lane_exponent = tl.zeros([LANES], tl.float32)
    peak_before_y = tl.max(lane_peak)
    for start in range(0, VOCABULARY, BLOCK):
        columns = start + tl.arange(0, LANES)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        inside = columns < VOCABULARY
        readable = columns < READABLE
        block = tl.load(logits + columns, mask=readable, other=0.0)
        if cost_rows is not None:
            block_cost = _costs(cost_rows, inverse_norm, columns, readable)
        z = _capped(block, bias, columns, inside, SCALE, SOFTCAP)
        # Only a partial last block and the target's block need masks.
        if start + BLOCK > VOCABULARY:
            z = tl.where(inside, z, -float("inf"))
            if cost_rows is not None:  # padding may be NaN
                block_cost = tl.where(inside, block_cost, 0.0)
        if (start <= y) & (y < start + BLOCK):
            before = tl.max(tl.where(columns < y, z, -float("inf"))) * LOG2E
            peak_before_y = tl.maximum(tl.max(lane_peak), before)
            z = tl.where(columns == y, -float("inf"), z)
        if uniform is not None:
            lane_exponent += tl.sum(tl.where(z == -float("inf"), 0.0, z), axis=1) * LOG2E
        new_peak = tl.maximum(lane_peak, tl.max(z, axis=1) * LOG2E)
        shrink = tl.exp2(lane_peak - new_peak)
        if entropy is not None:  # a lane that has read nothing has the sums 0, whatever its peak
            moved = tl.where(lane_rest > 0, (lane_peak - new_peak) * lane_rest, 0.0)
            lane_information = (lane_information + moved) * shrink
        lane_peak = new_peak
        power = tl.exp2(z * LOG2E - lane_peak[:, None])
        lane_rest = lane_rest * shrink + tl.sum(power, axis=1)
        if cost_rows is not None:
            lane_cost = lane_cost * shrink + tl.sum(power * block_cost, axis=1)
        if entropy is not None:
            lower = tl.where(power > 0, z * LOG2E - lane_peak[:, None], 0.0)
            lane_information += tl.sum(power * lower, axis=1)
        if (error_norm is not None) | (squares is not None):
            lane_square = lane_square * (shrink * shrink) + tl.sum(power * power, axis=1)

    peak_others = tl.max(lane_peak)
    row_peak = tl.maximum(peak_others, at_y)
    shrink = tl.exp2(lane_peak - row_peak)
    rest = tl.sum(lane_rest * shrink)
    power_at_y = tl.exp2(at_y - row_peak)
    row_total = rest + power_at_y
    # `rest` excludes the target: for a confident token, cross-entropy depends on the rest alone.
    margin = (at_y - row_peak) / LOG2E
    row_ce = tl.where(margin > -20, _log1p(rest / power_at_y), tl.log(row_total) - margin)
    row_others = rest / row_total
    tl.store(ce + row, row_ce)
    tl.store(q_target + row, power_at_y / row_total)
    tl.store(correct + row, (at_y >= peak_others) & (at_y > peak_before_y))
    tl.store(q_others + row, row_others)
    tl.store(peak + row, row_peak)
    tl.store(total + row, row_total)
    if cost_rows is not None:
        tl.store(cost + row, tl.sum(lane_cost * shrink) / row_total)
    if (error_norm is not None) | (squares is not None):
        square = tl.sum(lane_square * (shrink * shrink)) / (row_total * row_total)
        if error_norm is not None:
            tl.store(error_norm + row, tl.sqrt(square + row_others * row_others))
        if squares is not None:
            q_at_y = power_at_y / row_total
            tl.store(squares + row, square + q_at_y * q_at_y)
    if entropy is not None:
        lower = tl.where(lane_rest > 0, (lane_peak - row_peak) * lane_rest, 0.0)
        information = tl.sum((lane_information + lower) * shrink) / LOG2E
        of_others = row_others * tl.log(row_total) - information / row_total
        tl.store(entropy + row, of_others + power_at_y / row_total * row_ce)
    if uniform is not None:
        mean = (tl.sum(lane_exponent) + at_y) / VOCABULARY
        tl.store(uniform + row, row_ce + (at_y - mean) / LOG2E)


@triton.jit(do_not_specialize_on_alignment=["target", "row_of"])
def _gradient_kernel(
    logits: tl.tensor,
    target: tl.tensor,
    q_target: tl.tensor,
    cost: tl.tensor,
    ce: tl.tensor,
    entropy: tl.tensor,
    q_others: tl.tensor,
    peak: tl.tensor,
    total: tl.tensor,
    a: tl.tensor,
    b: tl.tensor,
    h: tl.tensor,
    u: tl.tensor,
    cost_rows: tl.tensor,
    row_of: tl.tensor,
    inverse_norm: tl.tensor,
    bias: tl.tensor,
    VOCABULARY: tl.constexpr,
    READABLE: tl.constexpr,
    STRIDE: tl.constexpr,
    COST_STRIDE: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Overwrite a block of a row with its gradient, the weighted sum of its terms'.

    d ce / d z = q - onehot, d cost / d z = q * (C - cost), d entropy / d z = -q * (log q + entropy) and
    d uniform / d z = q - 1 / V.
    """
    # Programs of the same columns follow each other: tokens of the same label read the same costs.
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < VOCABULARY
    readable = columns < READABLE
    logits += row * STRIDE
    z = _capped(tl.load(logits + columns, mask=readable, other=0.0), bias, columns, inside, SCALE, SOFTCAP)
    exponent = z * LOG2E - tl.load(peak + row)
    q = tl.exp2(exponent) / tl.load(total + row)
    weight = tl.load(a + row)
    # For a confident target, 1 - q would cancel; the sum of the others does not.
    grad_at_y = -weight * tl.load(q_others + row)
    if b is not None:
        weight_cost = tl.load(b + row)
        row_cost = tl.load(cost + row)
        cost_rows += tl.load(row_of + row).to(tl.int64) * COST_STRIDE
        block_cost = _costs(cost_rows, inverse_norm, columns, readable)
        weight += weight_cost * (block_cost - row_cost)
        grad_at_y -= weight_cost * tl.load(q_target + row) * row_cost
    if h is not None:
        weight_entropy = tl.load(h + row)
        row_entropy = tl.load(entropy + row)
        log_q = exponent / LOG2E - tl.log(tl.load(total + row))
        weight -= weight_entropy * (log_q + row_entropy)
        grad_at_y += weight_entropy * tl.load(q_target + row) * (tl.load(ce + row) - row_entropy)
    grad = q * weight
    if u is not None:
        weight_uniform = tl.load(u + row)
        grad += weight_uniform * (q - 1 / VOCABULARY)
        grad_at_y += weight_uniform * (tl.load(q_target + row) - 1 / VOCABULARY)
    grad = tl.where(columns == tl.load(target + row).to(tl.int32), grad_at_y, grad)
    if SOFTCAP is not None:
        fraction = z / SOFTCAP
        grad *= SCALE * (1 - fraction * fraction)
    elif SCALE != 1.0:
        grad *= SCALE
    tl.store(logits + columns, grad.to(logits.dtype.element_ty), mask=readable)


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
        cost: Any = work.cost  # EnergyWeigher has the tables of energies
        self.cost = cost
        self.raw = RawStatistics.empty(tokens, like.device, objective.needs)
        self.of_reference = work.of_reference
        self.statistics = replace(self.raw.of_tokens, **self.of_reference)  # filled by `weigh_`, as is `correct`
        self.correct = self.raw.correct
        in_units = like.dtype == torch.float16 and work.wants_grad
        self.unit = torch.empty(tokens, device=like.device) if in_units else None
        self.terms = list(objective.weigh(made_up_tokens(objective)).terms) if work.wants_grad else []
        self.inverse_norm: Any = None
        self.buffer: Any = None
        self.cost_rows: Any = None
        if cost is not None:
            rows = like.new_empty(work.plan.most_labels, like.stride(0), dtype=cost.table.dtype)
            self.buffer = rows[:, : like.shape[1]]
            # In the products' dtype: every token's row reads them all.
            missing = like.stride(0) - cost.vocabulary
            self.inverse_norm = torch.nn.functional.pad(cost.inverse_norm.to(like.dtype), (0, missing))

    def load_costs(self, labels: Tensor) -> None:
        units = compiled(unit_rows)(self.cost.table, self.cost.inverse_norm, labels)
        self.cost_rows = torch.mm(units, self.cost.table.T, out=self.buffer[: len(labels)])

    def weigh_(self, product: Tensor, target: Tensor, row_of: Tensor | None, tokens: slice) -> None:
        costs = None
        if row_of is not None:
            costs = CostRows(self.cost_rows, row_of, self.inverse_norm)
        raw = self.raw.part(tokens)
        token_statistics(product, target, self.head, raw, costs)
        if self.wants_grad:
            others = None if self.unit is None else raw.q_others
            of_reference = {name: values[tokens] for name, values in self.of_reference.items()}
            rows = compiled(weights)(self.objective, replace(raw.of_tokens, **of_reference), others)
            if self.unit is not None:
                self.unit[tokens] = rows[-1]
            terms = dict(zip(self.terms, rows, strict=False))  # the unit, if there is one, comes last
            logit_gradient_(product, target, self.head, raw, terms, costs)
