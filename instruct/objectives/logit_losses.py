"""The objectives that are functions of the logits, see LogitLoss, each with its source."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from instruct.objectives.arguments import require, require_at_least_0, require_choice, require_share

Factor = Literal["linear", "logsigmoid"]


def focal_slope(ce: Tensor, gamma: float) -> Tensor:
    """(1 - q_y)^gamma + gamma q_y (1 - q_y)^(gamma - 1) ce: the derivative of (1 - q_y)^gamma * ce by ce."""
    others = -torch.expm1(-ce)  # 1 - q_y, which would be rounded for a confident token
    # At others 0 and gamma below 1, the second part is 0 * infinity; its limit is 0.
    part = others.clamp(min=torch.finfo(ce.dtype).tiny) ** (gamma - 1) * torch.exp(-ce) * ce
    return others**gamma + gamma * part


def eaft_top(logits: Tensor, labels: Tensor, alpha: float = 1.0, k: int = 20) -> Tensor:
    """EAFT as published: a = (entropy of the k likeliest tokens, renormalized, / 3)^alpha (arXiv 2601.02151).

    The authors' code is in LLaMA-Factory; axolotl's leaves out the 3.
    """
    require_at_least_0("alpha", alpha)
    require(k >= 1, f"k is {k}; it must be at least 1")
    logs = logits.detach().topk(min(k, logits.shape[-1]), dim=-1).values.log_softmax(dim=-1)
    entropy = -(logs.exp() * logs).sum(dim=-1)
    return (entropy / 3) ** alpha * cross_entropy(logits, labels, reduction="none")


def gem(logits: Tensor, labels: Tensor, beta: float = 0.7, h: Factor = "linear") -> Tensor:
    """sum over j of c_j (log q_j - log q_y), c = softmax(z / beta) * w (Li et al., ICLR 2025, arXiv 2408.16673).

    c is detached, so that the gradient is c - sum(c) e_y. w is 1 (`linear`, the authors' default, whose optimum is the
    data's distribution at temperature 1 / beta) or sigmoid(0.01 (z_j - z_y)) (`logsigmoid`), as in the authors' code
    (github.com/liziniu/GEM). `beta` is at most 1.
    """
    require(0 < beta <= 1, f"beta is {beta}; it must lie above 0 and be at most 1")
    require_choice("h", h, Factor)
    c = (logits.detach() / beta).softmax(dim=-1)
    if h == "logsigmoid":
        c = c * torch.sigmoid(0.01 * (logits.detach() - logits.detach().gather(1, labels[:, None])))
    logs = logits.log_softmax(dim=-1)
    return (c * (logs - logs.gather(1, labels[:, None]))).sum(dim=-1)


def asft(logits: Tensor, labels: Tensor, reference: Tensor, weight: float = 0.1) -> Tensor:
    """DFT with an anchor: q_y (detached) * ce + weight * KL(base || q) (Zhu et al., 2025, arXiv 2509.23753).

    The gradient to the logits is q_y (q - e_y) + weight (q - base), as in the authors' code, whose `kl_weight` is 0.1.
    """
    require_at_least_0("weight", weight)
    logs, base = logits.log_softmax(dim=-1), reference.log_softmax(dim=-1)
    target = logs.gather(1, labels[:, None])[:, 0]
    return -target.detach().exp() * target + weight * (base.exp() * (base - logs)).sum(dim=-1)


def gift(logits: Tensor, labels: Tensor, reference: Tensor, beta: float = 20.0) -> Tensor:
    """Cross-entropy to softmax(log p_base + beta * onehot(y)) ("Gibbs Initialization with Finite Temperature",
    github.com/zzy1127/GIFT, whose `beta` is 20).

    The target has p_base(y) e^beta / (1 + p_base(y) (e^beta - 1)) on y: with beta 20 at least .9979 wherever p_base(y)
    is 1e-6 or more, so that little of the base is left. Beta 0 is distillation from the base.
    """
    require_at_least_0("beta", beta)
    raised = torch.full((len(labels), 1), beta, dtype=logits.dtype, device=logits.device)
    target = reference.log_softmax(dim=-1).scatter_add(1, labels[:, None], raised).softmax(dim=-1)
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)


def target_sft(logits: Tensor, labels: Tensor, reference: Tensor, eta: float = 0.5) -> Tensor:
    """Cross-entropy to q_y onehot(y) + (1 - q_y) r, detached, with r proportional to q^(1 - eta) p_base^eta.

    Target-SFT (Xie et al., 2026, arXiv 2606.11189; the equations of txie1.github.io/Target-SFT): a label is imitated as
    far as the model trusts it, and the rest of the mass goes where the model and the base agree. With eta 0, and where
    training begins, this is DFT. The page gives no value for `eta`, the base's share in r; 0.5 is ours.
    """
    require_share("eta", eta)
    logs = logits.log_softmax(dim=-1)
    known, taught = logs.detach(), reference.log_softmax(dim=-1)
    trust = known.gather(1, labels[:, None]).exp()
    target = (1 - trust) * ((1 - eta) * known + eta * taught).softmax(dim=-1)
    return -(target.scatter_add(1, labels[:, None], trust) * logs).sum(dim=-1)


def tofu(logits: Tensor, labels: Tensor, gamma: float = 3.0, beta: float = 0.8) -> Tensor:
    """beta * f * cross-entropy of softmax(z / beta), f = (1 - q_y)^gamma - gamma q_y (1 - q_y)^(gamma - 1) log q_y.

    Tempered focal loss (Klypa and Cherednichenko, 2026, arXiv 2605.00195; github.com/rsklypa/TOFU, train/tofu_loss.py,
    with its defaults). f, detached, is `Focal`'s weight: likely tokens count less. The gradient to the logits is
    f (softmax(z / beta) - e_y), so that with gamma 0 the optimum is the data's distribution at temperature 1 / beta.
    """
    require_at_least_0("gamma", gamma)
    require(0 < beta < math.inf, f"beta is {beta}; it must be positive")
    ce, tempered = (cross_entropy(z, labels, reduction="none") for z in (logits, logits / beta))
    return beta * focal_slope(ce.detach(), gamma) * tempered


def brier(logits: Tensor, labels: Tensor) -> Tensor:
    """sum q_j^2 - 2 q_y + 1 = ||q - onehot(y)||^2, the Brier score: proper and bounded (arXiv 2405.18906)."""
    q = logits.softmax(dim=-1)
    return q.square().sum(dim=-1) - 2 * q.gather(1, labels[:, None])[:, 0] + 1


def spherical(logits: Tensor, labels: Tensor) -> Tensor:
    """1 - q_y / ||q||, the spherical score: proper and bounded (arXiv 2405.18906)."""
    # q_y / ||q|| = exp(log q_y - 1/2 log sum q_j^2), which does not underflow.
    logs = logits.log_softmax(dim=-1)
    return 1 - torch.exp(logs.gather(1, labels[:, None])[:, 0] - torch.logsumexp(2 * logs, dim=-1) / 2)
