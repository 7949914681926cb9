"""From hidden states and the language-model head to a loss, without ever holding tokens x vocabulary.

A token's weights (a, b) are known as soon as its vocabulary row has been seen, so the gradient is formed in the same
pass, chunk by chunk, and backward only scales what forward has stored: one gradient the size of the hidden states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from instruct.objectives.objective import Objective, TokenStatistics
from instruct.objectives.transport import CosineCost, TransportCost

# float32 numbers in one chunk's vocabulary rows; a handful of such buffers live at a time.
CHUNK_NUMBERS = 2**24


@dataclass(frozen=True)
class ObjectiveStatistics:
    """Sums over tokens, float64 scalars: add them over micro-batches and ranks, and only then divide by `tokens`."""

    tokens: Tensor
    value: Tensor
    ce: Tensor
    cost: Tensor
    ratio: Tensor
    clamped: Tensor
    correct: Tensor


@dataclass(frozen=True)
class _Head:
    weight: Tensor
    bias: Tensor | None
    logit_scale: float
    softcap: float | None

    def logits(self, hidden: Tensor) -> Tensor:
        """(chunk, vocab) float32."""
        logits = torch.mm(hidden, self.weight.T).float()
        if self.bias is not None:
            logits += self.bias
        if self.logit_scale != 1.0:
            logits *= self.logit_scale
        if self.softcap is not None:
            logits = logits.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits

    def slope(self, logits: Tensor) -> Tensor | float | None:
        """d logits / d (hidden x head), from the logits themselves; None where it is 1."""
        if self.softcap is None:
            return None if self.logit_scale == 1.0 else self.logit_scale
        return (logits / self.softcap).square_().neg_().add_(1).mul_(self.logit_scale)


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
        hidden: (tokens, hidden), the states that predict `labels`; response tokens only; float32, bfloat16 or float16.
        weight: (vocab, hidden), the language-model head, same dtype.
        labels: (tokens,) int64, the target of each state.
        objective: MLE(), EMO(...), MixCE(...) or TaiLr(...).
        cost: the transport cost; None: the cosine over the live head, detached.
        bias: (vocab,), the head's bias (Phi).
        logit_scale: multiplies the logits (Cohere, Granite).
        softcap: caps the logits at softcap * tanh(logits / softcap) (Gemma 2), after the scale.
        num_items: what the summed loss is divided by; None: the number of tokens.

    Returns:
        The loss, a float32 scalar that is differentiable in `hidden`, `weight` and `bias`, and the statistics as sums.

    Raises:
        ValueError: the shapes do not fit each other, or the cost table has another vocabulary than the head.
    """
    if hidden.ndim != 2 or labels.shape != hidden.shape[:1] or weight.shape[1:] != hidden.shape[1:]:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, labels {tuple(labels.shape)} and weight {tuple(weight.shape)} must be "
            "(tokens, hidden), (tokens,) and (vocab, hidden)"
        )
    if objective.needs_cost and cost is None:
        cost = CosineCost(weight)
    if cost is not None and cost.vocabulary != weight.shape[0]:
        raise ValueError(f"the cost table has {cost.vocabulary} rows, the head {weight.shape[0]}: one a token")
    if num_items is None:
        num_items = max(labels.numel(), 1)
    # Autograd reports that a Parameter needs a gradient even under no_grad.
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
        # Under autocast the states may be bf16 and the head float32: cast once, outside the loop.
        head = _Head(weight.to(hidden.dtype), bias, logit_scale, softcap)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=torch.float32) if needs_bias and bias is not None else None
        sums = torch.zeros(7, dtype=torch.float64, device=hidden.device)

        # Sorted by label, a cost row is computed once for all tokens that share it.
        order = labels.argsort() if objective.needs_cost else torch.arange(len(labels), device=labels.device)
        for index in order.split(max(1, CHUNK_NUMBERS // weight.shape[0])):
            states, target = hidden[index], labels[index]
            logits = head.logits(states)
            top, best = logits.max(dim=-1)
            margin = logits.gather(1, target[:, None])[:, 0] - top
            slope = head.slope(logits)
            # The target is taken out of the sum: for a confident token, the rest is all there is to cross-entropy,
            # and logsumexp - logit would round it away.
            q = logits.sub_(top[:, None]).exp_()
            at_target = q.gather(1, target[:, None])[:, 0]
            rest = q.scatter_(1, target[:, None], 0.0).sum(dim=-1)
            total = rest + at_target
            ce = torch.where(margin > -20, torch.log1p(rest / at_target), total.log() - margin)
            q_target = at_target / total
            q.div_(total[:, None])
            token_cost = rows = None
            if cost is not None and objective.needs_cost:
                distinct, inverse = target.unique_consecutive(return_inverse=True)
                rows = cost.rows(distinct)[inverse]
                token_cost = torch.linalg.vecdot(q, rows)
            weighting = objective.weigh(TokenStatistics(ce, q_target, token_cost))
            zero = ce.new_zeros(())
            sums += torch.stack(
                [
                    zero + len(target),
                    weighting.value.double().sum(),
                    ce.double().sum(),
                    zero if token_cost is None else token_cost.double().sum(),
                    zero if weighting.ratio is None else weighting.ratio.double().sum(),
                    zero if weighting.clamped is None else weighting.clamped.sum(),
                    (best == target).sum(),
                ]
            )
            if not (needs_hidden or needs_weight or needs_bias):
                continue
            # d ce / d z = q - onehot, d cost / d z = q * (C - cost); formed in float32, in place, and cast last.
            if rows is not None and weighting.b is not None and token_cost is not None:
                grad = rows.sub_(token_cost[:, None]).mul_(weighting.b[:, None]).add_(weighting.a[:, None]).mul_(q)
            else:
                grad = q.mul_(weighting.a[:, None])
            # q - 1 of a confident target would cancel; -expm1 of its cross-entropy does not.
            grad_target = weighting.a * torch.expm1(-ce)
            if weighting.b is not None and token_cost is not None:
                grad_target -= weighting.b * q_target * token_cost
            grad.scatter_(1, target[:, None], grad_target[:, None])
            if slope is not None:
                grad *= slope
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
            grad = grad.to(hidden.dtype)
            if grad_hidden is not None:
                grad_hidden[index] = torch.mm(grad, head.weight)
            if grad_weight is not None:
                grad_weight += torch.mm(grad.T, states)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(sums)
        return sums[1].float(), sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # The division by the number of items reaches us here: in float32, after the operands' narrow dtype.
        scale = grad_outputs[0].float()
        scaled = [
            None if grad is None else (grad.float() * scale).to(dtype)
            for grad, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None, None, None, None)
