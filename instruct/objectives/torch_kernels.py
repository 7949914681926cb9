"""The work between linear.py's matrix products, in torch: from a chunk's logits to its statistics and gradient.

On a CPU, a chunk is processed in blocks of rows that stay in the cache, because every operation is a pass over them.

EnergyWeigher has the energy score in place of EMO's transport cost. The cost, sum_j q_j C(j, y), is linear in q: by
itself it is least if q is all on one token, so any share of it sharpens. The energy score (Gneiting and Raftery,
"Strictly Proper Scoring Rules", 2007) subtracts half of q's own spread, 1/2 sum_ij q_i q_j C(i, j), and is proper. With
C the halved squared distance of embeddings e (1 - cosine for unit rows) it is

    energy_t = 1/2 ||e_y - sum_j q_j e_j||^2

    d energy / d z_k = q_k (r_k - sum_j q_j r_j)        r_k = e_k . (sum_j q_j e_j - e_y)

It is no transport cost of single tokens (see transport.py), because it is not linear in q. Compared with cross-entropy
it takes two more products, of tokens x vocabulary x width of the embeddings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from instruct.objectives.objective import (
    FLOAT16_SIZE,
    OF_REFERENCE,
    OPTIONAL,
    TERMS,
    Objective,
    TokenStatistics,
)
from instruct.objectives.plan import TokenPlan, whole_rows
from instruct.objectives.transport import CosineCost, EnergyTable

# Numbers in a block of rows on a CPU, which needs two float32 buffers of this size.
BLOCK_NUMBERS = 2**20
# Below this probability of the target, cross-entropy is computed from the logits: float32 would soon round it to 0.
TINY = 1e-30


@dataclass(frozen=True)
class Head:
    """The language-model head: z = softcap * tanh(logit_scale * (states @ weight.T + bias) / softcap)."""

    weight: Tensor
    bias: Tensor | None = None
    logit_scale: float = 1.0
    softcap: float | None = None

    def cap_(self, product: Tensor) -> Tensor:
        """`states @ weight.T`, in place, as z."""
        if self.bias is not None:
            product += self.bias
        if self.logit_scale != 1.0:
            product *= self.logit_scale
        if self.softcap is not None:
            product.div_(self.softcap).tanh_().mul_(self.softcap)
        return product

    def slope_(self, z: Tensor) -> Tensor:
        """z, in place, as d z / d (states @ weight.T)."""
        if self.softcap is None:
            return z.fill_(self.logit_scale)
        return z.div_(self.softcap).square_().neg_().add_(1).mul_(self.logit_scale)


@dataclass(frozen=True)
class Reference:
    """What the model before training has for the same tokens: states, (tokens, hidden), and its head; no gradients."""

    states: Tensor
    head: Head

    def logits(self, place: slice, like: Tensor) -> Tensor:
        """Those of some tokens, in the dtype of `like`."""
        product = self.states[place] @ self.head.weight.T
        return self.head.cap_(product.to(like.dtype))

    def on_device(self, like: Tensor) -> Reference:
        """The same in the dtype and on the device of the model's own states."""
        bias = None if self.head.bias is None else self.head.bias.to(like.device)
        head = replace(self.head, weight=self.head.weight.to(like), bias=bias)
        return replace(self, states=self.states.to(like), head=head)


def reference_statistics(
    reference: Reference, labels: Tensor, needs: Collection[str], like: Tensor, rows: int
) -> dict[str, Tensor]:
    """The statistics of OF_REFERENCE among `needs`, each (tokens,) in the dtype of `like`, some rows at a time.

    Args:
        like: (any, vocab), on the device of the model's own states.
    """
    found = {name: like.new_empty(len(labels)) for name in OF_REFERENCE if name in needs}
    for start in range(0, len(labels) if found else 0, max(1, rows)):
        place = slice(start, start + rows)
        logs = reference.logits(place, like).log_softmax(dim=-1)
        ce = -logs.gather(1, labels[place, None])[:, 0]
        known = {"ref_ce": ce, "ref_q_target": torch.exp(-ce)}
        if "ref_entropy" in found:
            known["ref_entropy"] = torch.special.entr(logs.exp()).sum(dim=-1)
        for name, values in found.items():
            values[place] = known[name]
    return found


@dataclass(frozen=True)
class LossParts:
    """What a loss is made of, beside the states.

    Attributes:
        cost: the transport cost or the table of energies, if the objective needs one.
        reference: what the model before training has for the same tokens, if the objective takes it.
        wants_grad: whether to form the gradient; otherwise the logits of a chunk are not modified.
        of_reference: the statistics of that model which the objective needs, each (tokens,).
        weights: (tokens,), what each token's loss is multiplied by; None: 1.
    """

    head: Head
    objective: Objective
    plan: TokenPlan
    cost: CosineCost | EnergyTable | None
    reference: Reference | None
    wants_grad: bool
    of_reference: dict[str, Tensor] = field(default_factory=dict)
    weights: Tensor | None = None


class TorchWeigher:
    """Turns `states @ weight.T` into statistics and, in place, into its own gradient, one chunk of tokens at a time.

    Args:
        like: a (tokens, vocab) tensor of the chunks' dtype and device, as large as the largest chunk.

    Attributes:
        statistics, correct: of all tokens, and whether each was predicted correctly; filled by `weigh_`.
        unit: (tokens,) float32, what each token's gradient has been divided by; None: nothing, unless in float16.
    """

    def __init__(self, work: LossParts, like: Tensor) -> None:
        self.head, self.wants_grad = work.head, work.wants_grad
        self.objective: Any = work.objective
        self.cost: Any = work.cost
        rows, vocabulary = like.shape
        self.size = max(1, min(rows, BLOCK_NUMBERS // vocabulary if like.device.type == "cpu" else rows))
        wide = torch.promote_types(like.dtype, torch.float32)
        # Allocated once: fresh memory for each pass costs more than the pass.
        self.q = like.new_empty(self.size, vocabulary, dtype=wide)
        self.spare = torch.empty_like(self.q)
        self.gathered: Any = None
        self.buffer: Any = None
        self.cost_rows: Any = None
        if work.plan.distinct is not None:  # a table of energies has no rows of costs
            self.gathered = like.new_empty(self.size, vocabulary)
            self.buffer = like.new_empty(whole_rows(work.plan.most_labels), vocabulary)
        needed = [name for name in OPTIONAL if name in work.objective.needs]
        self.information: Any = torch.empty_like(self.q) if "entropy" in needed else None
        tokens = len(work.plan.labels)
        ce, q_target, *others = like.new_empty((2 + len(needed), tokens), dtype=wide)
        self.of_reference = work.of_reference
        self.statistics = TokenStatistics(ce, q_target, **dict(zip(needed, others, strict=True)), **self.of_reference)
        self.correct = like.new_empty(tokens, dtype=torch.bool)
        self.unit = like.new_empty(tokens, dtype=wide) if like.dtype == torch.float16 and work.wants_grad else None

    def load_costs(self, labels: Tensor) -> None:
        """Computes the cost rows of these labels for the chunks that follow."""
        labels = torch.cat([labels, labels[:1].expand(whole_rows(len(labels)) - len(labels))])
        self.cost_rows = self.cost.rows(labels, out=self.buffer[: len(labels)]).to(self.buffer.dtype)

    def weigh_(self, product: Tensor, target: Tensor, row_of: Tensor | None, tokens: slice) -> None:
        """The chunk's tokens, block by block.

        Args:
            product: (tokens, vocab), states @ weight.T.
            target: (tokens,) int64.
            row_of: (tokens,) int64, each token's row among the labels given to `load_costs`; None without a cost.
            tokens: the chunk's place among all tokens.
        """
        for first in range(0, len(product), self.size):
            block = slice(first, first + self.size)
            rows = None
            if row_of is not None:
                rows = torch.index_select(self.cost_rows, 0, row_of[block], out=self.gathered[: len(product[block])])
            place = slice(tokens.start + first, min(tokens.start + first + self.size, tokens.stop))
            self._weigh_block_(product[block], target[block], rows, place)

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        statistics, others = self._leave_out_targets(product, target, place)
        q, spare = self.q[: len(product)], self.spare[: len(product)]
        statistics = self._optional_statistics(statistics, others, product, target)
        if cost is not None:
            spare.copy_(cost).mul_(q)
            statistics = replace(statistics, cost=spare.sum(dim=-1))
        self._store(statistics, place)
        if self.wants_grad:
            # d ce / d z = q - onehot, d cost / d z = q * (C - cost), d entropy / d z = -q * (log q + entropy) and
            # d uniform / d z = q - 1 / V; computed in the wide dtype and cast at the end.
            weights = self._weights(statistics, others, statistics.cost, place)
            a, b, h, u = (weights.get(name) for name in TERMS)
            assert a is not None
            at_target, of_q = -a * others, a
            if b is not None:
                at_target -= b * statistics.q_target * statistics.cost
                of_q = of_q - b * statistics.cost
            if h is not None:
                at_target += h * statistics.q_target * (statistics.ce - statistics.entropy)
                of_q = of_q - h * statistics.entropy
            if u is not None:
                at_target += u * (statistics.q_target - 1 / q.shape[1])
                of_q = of_q + u
            q.mul_(of_q[:, None])
            if b is not None:
                q.addcmul_(spare, b[:, None])
            if h is not None:
                q.addcmul_(self.information[: len(q)], h[:, None])
            if u is not None:
                q.sub_(u[:, None] / q.shape[1])
            q.scatter_(1, target[:, None], at_target[:, None])
            self._write_gradient_(product)

    def _optional_statistics(
        self, known: TokenStatistics, others: Tensor, product: Tensor, target: Tensor
    ) -> TokenStatistics:
        """The statistics with those that the objective needs, but for the cost; `self.spare` is overwritten."""
        q, needs = self.q[: len(product)], self.objective.needs
        norm = torch.linalg.vector_norm(q, dim=-1) if "error_norm" in needs or "squares" in needs else None
        if norm is not None and "error_norm" in needs:
            known = replace(known, error_norm=norm.hypot(others))
        if norm is not None and "squares" in needs:
            known = replace(known, squares=norm.square() + known.q_target.square())
        if self.information is not None:
            information = torch.special.entr(q, out=self.information[: len(q)])
            known = replace(known, entropy=information.sum(dim=-1) + known.q_target * known.ce)
        if "uniform" in needs:
            z = self.head.cap_(self.spare[: len(q)].copy_(product))
            known = replace(known, uniform=known.ce + z.gather(1, target[:, None])[:, 0] - z.mean(dim=-1))
        return known

    def _weights(
        self, statistics: TokenStatistics, others: Tensor, spread: Tensor | None, place: slice
    ) -> dict[str, Tensor]:
        """The weights that are not None, by TERMS, in float16 divided by each token's unit."""
        of_reference = {name: values[place] for name, values in self.of_reference.items()}
        weighting = self.objective.weigh(replace(statistics, **of_reference))
        weights = weighting.terms
        if self.unit is not None:
            unit = self.unit[place] = weighting.float16_unit(others, spread, statistics.entropy)
            weights = {name: weight / unit for name, weight in weights.items()}
        return weights

    def _leave_out_targets(self, product: Tensor, target: Tensor, place: slice) -> tuple[TokenStatistics, Tensor]:
        """The block's cross-entropy and q_target, and the other tokens' probability; `self.q` is q without the targets.

        The target is left out of every sum: for a confident token, cross-entropy and cost depend on the others alone,
        which 1 - q_y would round away.
        """
        head, q, at = self.head, self.q[: len(product)], target[:, None]
        torch.softmax(head.cap_(q.copy_(product)), dim=-1, out=q)
        q_target = q.gather(1, at)[:, 0]
        q.scatter_(1, at, 0.0)
        others = q.sum(dim=-1)
        ce = torch.log1p(others / q_target)
        hopeless = q_target < TINY
        if hopeless.any():
            z = head.cap_(product[hopeless].to(q.dtype))
            ce[hopeless] = z.logsumexp(dim=-1) - z.gather(1, at[hopeless])[:, 0]
        best = q.amax(dim=-1)
        correct = q_target > best
        tied = q_target == best
        if tied.any():
            correct[tied] = head.cap_(product[tied].to(q.dtype)).argmax(dim=-1) == target[tied]
        self.correct[place] = correct
        return TokenStatistics(ce, q_target), others

    def _store(self, statistics: TokenStatistics, place: slice) -> None:
        for all_tokens, own in zip(vars(self.statistics).values(), vars(statistics).values(), strict=True):
            if own is not None:
                all_tokens[place] = own

    def _write_gradient_(self, product: Tensor) -> None:
        """`product`, overwritten with its gradient: `self.q`, times the slope of what stands between the two."""
        head, q = self.head, self.q[: len(product)]
        if head.softcap is not None or head.logit_scale != 1.0:
            q.mul_(head.slope_(head.cap_(self.spare[: len(product)].copy_(product))))
        product.copy_(q)


class EnergyWeigher(TorchWeigher):
    """TorchWeigher with the energy in place of the transport cost, on a CPU and on a GPU."""

    def __init__(self, work: LossParts, like: Tensor) -> None:
        super().__init__(work, like)
        self.embeddings = self.cost.embeddings.to(self.q)

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


# Numbers in a block's logits on a GPU: autograd keeps several tensors of this size.
LOGIT_NUMBERS = 2**25


class LogitWeigher(TorchWeigher):
    """TorchWeigher for a LogitLoss, on a CPU and on a GPU. `values`: (tokens,), each token's loss."""

    def __init__(self, work: LossParts, like: Tensor) -> None:
        super().__init__(work, like)
        self.reference = work.reference
        self.size = max(1, min(self.size, LOGIT_NUMBERS // like.shape[1]))
        self.values = torch.empty_like(self.statistics.ce)

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        statistics, _ = self._leave_out_targets(product, target, place)
        self._store(statistics, place)
        logits = self.head.cap_(product.to(self.q.dtype, copy=True))
        reference = None if self.reference is None else self.reference.logits(place, logits)
        with torch.enable_grad():
            losses = self.objective.losses(logits.requires_grad_(self.wants_grad), target, reference)
        self.values[place] = losses.detach()
        if not self.wants_grad:
            return
        (gradient,) = torch.autograd.grad(losses, logits, torch.ones_like(losses))
        if self.unit is not None:
            unit = self.unit[place] = gradient.abs().amax(dim=-1).clamp(min=1e-30) / FLOAT16_SIZE
            gradient /= unit[:, None]
        self.q[: len(product)].copy_(gradient)
        self._write_gradient_(product)
