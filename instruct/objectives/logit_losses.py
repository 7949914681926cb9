"""From a chunk's logits to the gradient of a loss that is a function of them, by autograd."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from instruct.objectives.objective import FLOAT16_SIZE, LogitLoss
from instruct.objectives.torch_kernels import Head, TorchWeigher

# Numbers in a block's logits on a GPU: autograd keeps several tensors of this size.
BLOCK_NUMBERS = 2**25


@dataclass(frozen=True)
class Reference:
    """What a frozen model has for the same tokens: states, (tokens, hidden), and its head, without gradients."""

    states: Tensor
    head: Head

    def logits(self, place: slice, like: Tensor) -> Tensor:
        """Those of some tokens, as wide as `like` and in its dtype; a padded vocabulary is cut."""
        product = self.states[place] @ self.head.weight.T
        return self.head.cap_(product.to(like.dtype))[:, : like.shape[1]]

    def ordered(self, order: Tensor) -> Self:
        """The same, of these tokens in this order."""
        return dataclasses.replace(self, states=self.states.index_select(0, order))

    def on_device(self, like: Tensor) -> Self:
        """The same in the dtype and on the device of the model's own states."""
        bias = None if self.head.bias is None else self.head.bias.to(like.device)
        head = dataclasses.replace(self.head, weight=self.head.weight.to(like), bias=bias)
        return dataclasses.replace(self, states=self.states.to(like), head=head)


@dataclass(frozen=True)
class TopReference:
    """A frozen model's likeliest continuations of each token; the other tokens share the rest of its mass evenly.

    Attributes:
        ids: (tokens, k) int64, different tokens of the vocabulary.
        logs: (tokens, k) float32, their log-probabilities.
    """

    ids: Tensor
    logs: Tensor

    def logits(self, place: slice, like: Tensor) -> Tensor:
        """Log-probabilities of the whole vocabulary, as wide as `like` and in its dtype."""
        logs = self.logs[place].to(like.dtype)
        left = max(1, like.shape[1] - logs.shape[1])
        rest = torch.log1p(-logs.exp().sum(dim=-1).clamp(max=1 - 1e-6)) - math.log(left)
        return rest[:, None].repeat(1, like.shape[1]).scatter_(1, self.ids[place], logs)

    def ordered(self, order: Tensor) -> Self:
        """The same, of these tokens in this order."""
        return dataclasses.replace(self, ids=self.ids.index_select(0, order), logs=self.logs.index_select(0, order))

    def on_device(self, like: Tensor) -> Self:
        """The same on the device of the model's own states."""
        return dataclasses.replace(self, ids=self.ids.to(like.device), logs=self.logs.to(like.device))


AnyReference = Reference | TopReference


class LogitWeigher(TorchWeigher):
    """TorchWeigher for a LogitLoss, on a CPU and on a GPU. `values`: (tokens,), each token's loss."""

    def __init__(
        self, head: Head, loss: LogitLoss, like: Tensor, tokens: int, wants_grad: bool, reference: AnyReference | None
    ) -> None:
        super().__init__(head, loss, like, tokens, None, 0, wants_grad)
        self.loss, self.reference = loss, reference
        self.size = max(1, min(self.size, BLOCK_NUMBERS // like.shape[1]))
        self.values = torch.empty_like(self.statistics.ce)

    def _weigh_block_(self, product: Tensor, target: Tensor, cost: Tensor | None, place: slice) -> None:
        found, _ = self._leave_out_targets(product, target, place)
        self._store(found, place)
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
