"""What an objective costs beside cross-entropy: tensor operations and the bytes that they move, counted on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from instruct.objectives.built_in import MLE
from instruct.objectives.linear import linear_objective_loss
from instruct.objectives.objective import Objective


@dataclass(frozen=True)
class Cost:
    """What the loss and its gradient take, relative to cross-entropy by the same path, counted on the CPU.

    Attributes:
        operations: tensor operations but views: on a GPU, launches, where nothing is fused.
        bytes: that these operations read and write.
    """

    operations: float
    bytes: float


def cost(objective: Objective) -> Cost:
    """Counts of the loss of 256 tokens over a vocabulary of 8,192, with its gradient, relative to cross-entropy's."""
    ours, theirs = _moved(objective), _moved(MLE())
    return Cost(ours.operations / theirs.operations, ours.bytes / theirs.bytes)


def _moved(objective: Objective) -> _Moved:
    generator = torch.Generator().manual_seed(3)
    head = torch.randn(8192, 64, generator=generator) / 8
    states = torch.randn(256, head.shape[1], generator=generator).requires_grad_()
    labels = torch.randint(0, len(head), (len(states),), generator=generator)
    with _Moved() as moved:
        loss, _ = linear_objective_loss(states, head, labels, objective)
        loss.backward()
    return moved


class _Moved(TorchDispatchMode):
    """Counts operations and the bytes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if not (function.is_view or "empty" in str(function) or "detach" in str(function)):
            self.operations += 1
            tensors = [each for each in tree_leaves((args, kwargs, made)) if isinstance(each, Tensor)]
            self.bytes += sum(each.numel() * each.element_size() for each in tensors)
        return made
