"""From a chunk's logits to the gradient of a loss that is a function of them, by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from instruct.objectives.objective import FLOAT16_SIZE, LogitLoss
from instruct.objectives.torch_kernels import LossParts, TorchWeigher

# Numbers in a block's logits on a GPU: autograd keeps several tensors of this size.
BLOCK_NUMBERS = 2**25


class LogitWeigher(TorchWeigher):
    """TorchWeigher for a LogitLoss, on a CPU and on a GPU. `values`: (tokens,), each token's loss."""

    def __init__(self, work: LossParts, like: Tensor) -> None:
        super().__init__(work, like)
        assert isinstance(work.objective, LogitLoss)
        self.loss, self.reference = work.objective, work.reference
        self.size = max(1, min(self.size, BLOCK_NUMBERS // like.shape[1]))
        self.values = torch.empty_like(self.statistics.ce)

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        statistics, _ = self._leave_out_targets(product, target, place)
        self._store(statistics, place)
        logits = self.head.cap_(product.to(self.q.dtype, copy=True))
        reference = () if self.reference is None else (self.reference.logits(place, logits),)
        with torch.enable_grad():
            losses = losses_of(self.loss, logits.requires_grad_(self.wants_grad), target, *reference)
        self.values[place] = losses.detach()
        if not self.wants_grad:
            return
        (gradient,) = torch.autograd.grad(losses, logits, torch.ones_like(losses))
        if self.unit is not None:
            unit = self.unit[place] = gradient.abs().amax(dim=-1).clamp(min=1e-30) / FLOAT16_SIZE
            gradient /= unit[:, None]
        self.q[: len(product)].copy_(gradient)
        self._write_gradient_(product)


def losses_of(loss: LogitLoss, logits: Tensor, labels: Tensor, *reference: Tensor) -> Tensor:
    """The losses; a loss that takes a reference and has none has the model itself, as when training begins."""
    if not loss.reference:
        return loss.losses(logits, labels)
    return loss.losses(logits, labels, *(reference or (logits.detach(),)))
