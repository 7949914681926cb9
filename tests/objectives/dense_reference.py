"""The objectives, dense and in float64, straight from the equations: the reference for the tests.

It shares no code with objectives/linear.py or with the objectives' weights, and autograd forms the gradients.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

from instruct.objectives.built_in import (
    DEFT,
    DFT,
    EAFT,
    EMO,
    IDFT,
    MLE,
    OBJECTIVES,
    Energy,
    ErrorNormTruncation,
    Focal,
    Frozen,
    LabelSmoothing,
    MixCE,
    ProbabilityPower,
    TaiLr,
)
from instruct.objectives.objective import LogitLoss, Objective

# What the authors' code has where nothing is given.
DEFAULTS = {
    "eaft_top": {"alpha": 1.0, "k": 20},
    "gem": {"beta": 0.7, "h": "linear"},
    "asft": {"weight": 0.1},
    "gift": {"beta": 20.0},
    "target_sft": {"eta": 0.5},
    "tofu": {"gamma": 3.0, "beta": 0.8},
}


def reference_token_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    objective: Objective,
    cost_table: Tensor | None = None,
    bias: Tensor | None = None,
    logit_scale: float = 1.0,
    softcap: float | None = None,
    base: Tensor | None = None,
) -> Tensor:
    """The loss of each token, (tokens,) float64, differentiable. Arguments as in `linear_objective_loss`.

    Args:
        cost_table: (vocab, width), the embeddings of the cosine cost or, as they are, of the energy; None: the head's
            rows, whose unit rows are those of the energy.
        base: (tokens, vocab), the logits of a reference model; None: the reference is the model itself.
    """
    logits = hidden.double() @ weight.double().T
    if bias is not None:
        logits = logits + bias.double()
    logits = logits * logit_scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    log_q = torch.log_softmax(logits, dim=-1)
    ce = -log_q.gather(1, labels[:, None])[:, 0]
    q_target = torch.exp(-ce).detach()
    name = objective.function.__name__ if isinstance(objective, LogitLoss) else None
    given = SimpleNamespace(**DEFAULTS.get(name, {}) | getattr(objective, "arguments", {}))
    if isinstance(objective, MLE):
        return ce
    if isinstance(objective, MixCE):
        return objective.gamma * ce + (1 - objective.gamma) * q_target * ce
    if isinstance(objective, TaiLr) and objective.variant == "paper":
        return q_target / (objective.gamma + (1 - objective.gamma) * q_target) * ce
    if isinstance(objective, TaiLr):
        mixing_ratio = objective.gamma
        floored = torch.clamp(q_target / ((1 - mixing_ratio) + mixing_ratio * q_target), min=0.2, max=1.0)
        return mixing_ratio * ce + (1 - mixing_ratio) * floored * ce
    if isinstance(objective, DFT):
        return q_target * ce
    if isinstance(objective, ErrorNormTruncation):
        onehot = torch.nn.functional.one_hot(labels, len(weight))
        error_norm = torch.linalg.vector_norm(log_q.exp() - onehot, dim=-1)
        return ce.masked_fill(error_norm > objective.threshold, 0.0)
    if isinstance(objective, Focal):
        return (1 - torch.exp(-ce)) ** objective.gamma * ce
    if isinstance(objective, ProbabilityPower):
        loss = (1 - torch.exp(-ce) ** objective.k) / objective.k
        if objective.threshold is None:
            return loss
        above = q_target >= objective.threshold
        return loss * (above if objective.keep == "above" else ~above | (q_target == objective.threshold))
    if isinstance(objective, DEFT):
        alpha = log_q.exp().square().sum(dim=-1).detach()
        return (1 - torch.exp(-ce) ** alpha) / (alpha + 1e-6)
    if isinstance(objective, EAFT):
        entropy = -(log_q.exp() * log_q).sum(dim=-1).detach()
        return (entropy / 3) ** objective.alpha * ce
    if isinstance(objective, IDFT):  # phi_t, gamma_raw and the loss of fsdp_polylog_trainer.py
        phi = -ce - (log_q.exp() * log_q).sum(dim=-1)
        return (q_target ** torch.exp(-phi).clamp(objective.least, objective.most)).detach() * ce
    if name == "eaft_top":
        likeliest = logits.detach().sort(dim=-1, descending=True).values[:, : given.k]
        top = torch.softmax(likeliest, dim=-1)
        return (torch.special.entr(top).sum(dim=-1) / 3) ** given.alpha * ce
    if name == "gem":
        c = torch.softmax(logits.detach() / given.beta, dim=-1)
        if given.h == "logsigmoid":
            c = c / (1 + torch.exp(0.01 * (logits.detach().gather(1, labels[:, None]) - logits.detach())))
        return -(c * (-ce[:, None] - log_q)).sum(dim=-1)
    log_base = log_q.detach() if base is None else torch.log_softmax(base.double(), dim=-1)
    if name == "asft":
        divergence = torch.nn.functional.kl_div(log_q, log_base, reduction="none", log_target=True).sum(dim=-1)
        return q_target * ce + given.weight * divergence
    if isinstance(objective, Frozen):  # the rule's weight of the reference's cross-entropy
        own = log_base, torch.eye(len(weight), dtype=torch.float64), labels
        of_base = reference_token_loss(*own, OBJECTIVES[objective.rule](**objective.args))
        return of_base / reference_token_loss(*own, MLE()) * ce
    onehot = torch.nn.functional.one_hot(labels, len(weight))
    if name == "gift":
        tilted = log_base.exp() * torch.exp(given.beta * onehot)
        return -(tilted / tilted.sum(dim=-1, keepdim=True) * log_q).sum(dim=-1)
    if name == "target_sft":
        guided = torch.softmax((1 - given.eta) * log_q.detach() + given.eta * log_base, dim=-1)
        return q_target * ce - (1 - q_target) * (guided * log_q).sum(dim=-1)
    if name == "tofu":  # tofu_loss.py
        p, gamma = q_target, given.gamma
        term = (1 - p) ** gamma - gamma * p * (1 - p) ** (gamma - 1) * torch.log(p)
        return -term * torch.log_softmax(logits / given.beta, dim=-1).gather(1, labels[:, None])[:, 0] * given.beta
    if name == "brier":
        return (log_q.exp() - onehot).square().sum(dim=-1)
    if name == "spherical":
        return 1 - torch.exp(-ce) / torch.linalg.vector_norm(log_q.exp(), dim=-1)
    if isinstance(objective, LabelSmoothing):
        return torch.nn.functional.cross_entropy(logits, labels, reduction="none", label_smoothing=objective.epsilon)
    if isinstance(objective, Energy):
        q, matrix = log_q.exp(), dense_distance(dense_unit_rows(weight) if cost_table is None else cost_table)
        energy = (q * matrix[labels]).sum(dim=-1) - (q @ matrix * q).sum(dim=-1) / 2
        return ce / 2 + objective.weight * energy / 2
    assert isinstance(objective, EMO)
    transport = dense_cosine_cost(weight if cost_table is None else cost_table)[labels].scatter(1, labels[:, None], 0.0)
    cost = (log_q.exp() * transport).sum(dim=-1)
    if objective.variant == "official":
        cost = cost + q_target
    if objective.emphasis == "emo":
        return (cost / ce).detach() * ce + cost
    ratio = (ce / cost).detach()
    return 0.5 * (ce + ratio * cost)


def dense_cosine_cost(table: Tensor) -> Tensor:
    """1 - cosine of every two rows, (rows, rows) float64; a row of norm 0 has cosine 0 to every row."""
    unit = dense_unit_rows(table)
    return 1 - unit @ unit.T


def dense_unit_rows(table: Tensor) -> Tensor:
    """The rows divided by their norms, float64; a row of norm 0 stays 0."""
    table = table.detach().double()
    norm = table.norm(dim=1, keepdim=True)
    return torch.where(norm > 0, table / norm.clamp(min=1e-300), torch.zeros_like(table))


def dense_distance(embeddings: Tensor) -> Tensor:
    """Half the squared distance of every two rows, (rows, rows) float64."""
    embeddings = embeddings.detach().double()
    return (embeddings[:, None] - embeddings[None, :]).square().sum(dim=-1) / 2
