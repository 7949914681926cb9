"""From hidden states to a loss and their gradient, in this project and in others; bfloat16 examples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from benchmarks.harness import response_labels
from instruct.objectives import EMO, MLE, CosineCost, Objective, linear_objective_loss


class Example:
    """Hidden states (tokens, hidden) that require a gradient, a head (vocabulary, hidden), labels of real responses.

    Each step uses the labels of the next of `batches`.
    """

    def __init__(self, tokens: int, vocabulary: int, hidden: int, device: str, batches: int = 1) -> None:
        torch.manual_seed(0)
        self.hidden = torch.randn(tokens, hidden, device=device).bfloat16().requires_grad_()
        # Of a size that gives logits of standard deviation 3, as a pretrained model's are.
        self.weight = torch.randn(vocabulary, hidden, device=device).mul_(3 / hidden**0.5).bfloat16()
        labels, self.source = response_labels(tokens * batches, vocabulary)
        self.batches = labels.to(device).split(tokens)
        # As the trainer keeps them, for this project's loss alone.
        self.host_batches = labels.split(tokens)
        self.labels, self.host_labels = self.batches[0], self.host_batches[0]

    def step(self, loss: Callable[[Example], torch.Tensor]) -> Callable[[], None]:
        """A function that computes the loss and its gradients, and discards them."""

        batches = itertools.cycle(zip(self.batches, self.host_batches, strict=True))

        def run() -> None:
            self.labels, self.host_labels = next(batches)
            loss(self).backward()
            self.hidden.grad = None

        return run


def ours(objective: Objective, example: Example, chunk_rows: int | None = None) -> Callable[[Example], torch.Tensor]:
    """This project's fused loss."""
    cost = CosineCost(example.weight) if "cost" in objective.needs else None
    return lambda e: linear_objective_loss(
        e.hidden, e.weight, e.host_labels, objective, cost=cost, chunk_rows=chunk_rows
    )[0]


def torch_cross_entropy(example: Example) -> torch.Tensor:
    """Cross-entropy over all logits in bfloat16."""
    return functional.cross_entropy(example.hidden @ example.weight.T, example.labels)


def upcast_cross_entropy(example: Example) -> torch.Tensor:
    """Cross-entropy over all logits in float32, as in transformers' own loss."""
    return functional.cross_entropy((example.hidden @ example.weight.T).float(), example.labels)


def authors_emo(example: Example) -> torch.Tensor:
    """EMOLoss 0.0.3, the authors' package. It shifts the labels, so one label is added."""
    from emo import EMOLoss

    logits = (torch.cat([example.hidden, example.hidden[-1:]]) @ example.weight.T)[None]
    labels = torch.cat([example.labels[:1], example.labels])[None]
    return EMOLoss(logits, labels, example.weight.detach())


def liger_cross_entropy(example: Example) -> torch.Tensor:
    """Liger's fused linear cross-entropy (CUDA)."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    return LigerFusedLinearCrossEntropyLoss()(example.weight, example.hidden, example.labels)


def cut_cross_entropy(example: Example) -> torch.Tensor:
    """Apple's cut-cross-entropy (CUDA), with its defaults: it leaves out gradients below bfloat16's resolution."""
    from cut_cross_entropy import linear_cross_entropy

    return linear_cross_entropy(example.hidden, example.weight, example.labels)


LOSSES: dict[str, Callable[[Example], torch.Tensor]] = {
    "torch_bf16": torch_cross_entropy,
    "torch_float32": upcast_cross_entropy,
    "emoloss": authors_emo,
    "liger": liger_cross_entropy,
    "cut": cut_cross_entropy,
}


def on_this_machine(gpu: bool) -> list[str]:
    """The names of the contenders that can run here."""
    names = ["emo", "mle", "emoloss", "torch_bf16", "torch_float32"]
    return [*names, "emo_2048", "liger", "cut"] if gpu else names


def loss_of(name: str, example: Example) -> Callable[[Example], torch.Tensor]:
    """The loss of the contender `name`. EMO uses the variant that the authors' package computes, and clamps."""
    if name in LOSSES:
        return LOSSES[name]
    if name == "emo_2048":  # the chunks of a head that trains
        return ours(EMO("paper"), example, chunk_rows=2048)
    return ours(EMO("paper") if name == "emo" else MLE(), example)


def contenders(example: Example, only: Sequence[str] | None = None) -> dict[str, Callable[[], None]]:
    """Every contender that this machine can run, by name, each as one loss with its gradients."""
    return {name: example.step(loss_of(name, example)) for name in only or on_this_machine(example.hidden.is_cuda)}
