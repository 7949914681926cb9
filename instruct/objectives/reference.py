"""The objectives again, dense and in float64, straight from the equations: the oracle that the tests hold to.

Nothing here is shared with linear.py, and autograd forms the gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from instruct.objectives.objective import EMO, MLE, MixCE, Objective, TaiLr


def reference_token_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    objective: Objective,
    cost_table: Tensor | None = None,
    bias: Tensor | None = None,
    logit_scale: float = 1.0,
    softcap: float | None = None,
) -> Tensor:
    """The loss of each token, (tokens,) float64, differentiable. Arguments as in `linear_objective_loss`."""
    logits = hidden.double() @ weight.double().T
    if bias is not None:
        logits = logits + bias.double()
    logits = logits * logit_scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    log_q = torch.log_softmax(logits, dim=-1)
    ce = -log_q.gather(1, labels[:, None])[:, 0]
    q_target = torch.exp(-ce)
    if isinstance(objective, MLE):
        return ce
    if isinstance(objective, MixCE):
        return (objective.gamma + (1 - objective.gamma) * q_target).detach() * ce
    if isinstance(objective, TaiLr):
        return (q_target / (objective.gamma + (1 - objective.gamma) * q_target)).detach() * ce
    assert isinstance(objective, EMO)
    table = (weight if cost_table is None else cost_table).detach().double()
    norm = table.norm(dim=1, keepdim=True)
    unit = torch.where(norm > 0, table / norm.clamp(min=1e-300), torch.zeros_like(table))
    transport = 1 - unit[labels] @ unit.T
    transport = transport.scatter(1, labels[:, None], 0.0)
    cost = (log_q.exp() * transport).sum(dim=-1)
    if objective.variant == "official":
        cost = cost + q_target.detach()
    if objective.emphasis == "emo":
        return (cost / ce).detach() * ce + cost
    ratio = (ce / cost).detach()
    if objective.variant == "pypi":
        ratio = ratio.clamp(max=3)
    return 0.5 * (ce + ratio * cost)
