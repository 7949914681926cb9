"""Training with an objective on a truth that is known: its loss in expectation, and where Adam ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from instruct.objectives.built_in import Energy
from instruct.objectives.logit_losses import losses_of
from instruct.objectives.objective import TERMS, LogitLoss, Objective, TokenStatistics
from instruct.objectives.transport import CosineCost, EnergyTable

STEPS, RATE = 3000, 0.3


class Expectation:
    """An objective's loss, in expectation over the next token instead of over samples.

    The weights are the objective's own; the terms of all (context, token) are a few products of tables, through which
    autograd goes with the weights held constant.

    Args:
        vectors: (vocabulary, width), the tokens' embeddings, for costs and energies.
    """

    def __init__(self, objective: Objective, vectors: Tensor) -> None:
        self.objective = objective
        self.embeddings = self.costs = None
        if isinstance(objective, Energy):
            self.embeddings = EnergyTable(vectors, objective.dim).embeddings
        elif "cost" in objective.needs:
            cost = CosineCost(vectors)
            self.costs = cost.rows(torch.arange(cost.vocabulary)).fill_diagonal_(0)

    def loss(self, logits: Tensor, shares: Tensor) -> Tensor:
        """The loss summed over all (context, token), with their `shares`; both (contexts, vocabulary)."""
        if isinstance(self.objective, LogitLoss):
            count = logits.shape[1]
            labels = torch.arange(count, device=logits.device).repeat(len(logits))
            return (shares.flatten() * losses_of(self.objective, logits.repeat_interleave(count, dim=0), labels)).sum()
        logs = torch.log_softmax(logits, dim=-1)
        q = logs.exp()
        optional: dict[str, Callable[[], Tensor]] = {
            "cost": lambda: self._cost(q),
            "error_norm": lambda: (q.square().sum(dim=-1, keepdim=True) - 2 * q + 1).clamp(min=0).sqrt(),
            "entropy": lambda: -(q * logs).sum(dim=-1, keepdim=True).expand_as(q),
            "squares": lambda: q.square().sum(dim=-1, keepdim=True).expand_as(q),
            "uniform": lambda: -logs.mean(dim=-1, keepdim=True).expand_as(q),
        }
        terms = {"ce": -logs, **{name: optional[name]() for name in self.objective.needs}}
        statistics = {name: term.detach() for name, term in terms.items()}
        weights = self.objective.weigh(TokenStatistics(q_target=q.detach(), **statistics)).terms
        return torch.stack([(shares * weight * terms[TERMS[name]]).sum() for name, weight in weights.items()]).sum()

    def _cost(self, q: Tensor) -> Tensor:
        """The expected cost, or the energy, of every token as the label."""
        if self.embeddings is None:
            assert self.costs is not None
            return q @ self.costs
        distances = torch.cdist(q @ self.embeddings, self.embeddings, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.square() / 2


def descent(
    expectation: Expectation, shares: Tensor, start: Tensor, steps: int = STEPS, rate: float = RATE
) -> Iterator[Tensor]:
    """The logits after each step of Adam from `start`; the tensor is the same."""
    logits = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        expectation.loss(logits, shares).backward()
        optimizer.step()
        schedule.step()
        yield logits.detach()


def descend(expectation: Expectation, shares: Tensor, start: Tensor) -> Tensor:
    """The log-probabilities at which Adam ends from the logits `start`."""
    *_, logits = descent(expectation, shares, start)
    return torch.log_softmax(logits, dim=-1)
