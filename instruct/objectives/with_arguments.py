"""The objectives whose arguments a config gives as `objective_args`, each with its source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from instruct.objectives.built_in import weighted_cross_entropy
from instruct.objectives.objective import BASE, LogitLoss, Objective, TokenStatistics, Weighting


@dataclass(frozen=True)
class Focal:
    """(1 - q_y)^gamma * ce (Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017): likely tokens count less.

    a is the derivative of that with respect to ce, (1 - q_y)^gamma + gamma q_y (1 - q_y)^(gamma - 1) ce, so that the
    gradient is the loss's own. Gamma 0 is cross-entropy.

    Raises:
        ValueError: a negative `gamma`.
    """

    gamma: float = 2.0

    needs = ()

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf:
            raise ValueError(f"gamma is {self.gamma}; it must be a number of at least 0")

    def weigh(self, token: TokenStatistics) -> Weighting:
        q, others = token.q_target, -torch.expm1(-token.ce)  # 1 - q_y, which would be rounded for a confident token
        # At others 0 and gamma below 1, the second part is 0 * infinity; its limit is 0.
        slope = others.clamp(min=torch.finfo(q.dtype).tiny) ** (self.gamma - 1) * q * token.ce
        weight = others**self.gamma
        return Weighting(a=weight + self.gamma * slope, value=weight * token.ce)


@dataclass(frozen=True)
class ProbabilityPower:
    """(1 - q_y^k) / k: a = q_y^k (Li et al., "Beyond Log Likelihood", 2025, arXiv 2510.00526).

    k near 0 is cross-entropy, k 1 is 1 - q_y, whose gradient is that of DFT.

    Args:
        k: the exponent, above 0. For k < 1 the optimum is the data's distribution at temperature 1 - k; for k >= 1 it
            has all probability on the likeliest token.
        threshold: if set, tokens on the other side of this probability are left out, as in the paper's thresholded
            variants (the divisor still counts them).
        keep: `above` or `below` the threshold.

    Raises:
        ValueError: a value out of range, or an unknown side.
    """

    k: float = 1.0
    threshold: float | None = None
    keep: Literal["above", "below"] = "above"

    needs = ()

    def __post_init__(self) -> None:
        if not 0 < self.k < math.inf:
            raise ValueError(f"k is {self.k}; it must be above 0")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}; it must be a probability between 0 and 1")
        if self.keep not in ("above", "below"):
            raise ValueError(f"unknown side {self.keep!r}; use above or below")

    def weigh(self, token: TokenStatistics) -> Weighting:
        q = token.q_target
        a, value = q**self.k, -torch.expm1(-self.k * token.ce) / self.k
        if self.threshold is None:
            return Weighting(a=a, value=value)
        left_out = q < self.threshold if self.keep == "above" else q > self.threshold
        return Weighting(a=a.masked_fill(left_out, 0), value=value.masked_fill(left_out, 0), clamped=left_out)


@dataclass(frozen=True)
class DEFT:
    """a = q_y^alpha * alpha / (alpha + 1e-6), alpha the sum of q_j^2 (arXiv 2602.11424, github.com/luludus/DEFT).

    alpha is near 1 where the model is sure, which is DFT, and near 0 where it is not, which is cross-entropy. It is
    detached. Their Cayley variant, which takes a mean over the batch, is no function of a token and left out.
    """

    needs = ("squares",)

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.squares is not None
        alpha = token.squares
        scale = alpha / (alpha + 1e-6)
        return Weighting(a=token.q_target**alpha * scale, value=-torch.expm1(-alpha * token.ce) / (alpha + 1e-6))


@dataclass(frozen=True)
class EAFT:
    """Cross-entropy weighted by the model's own entropy: a = (entropy / 3)^alpha (arXiv 2601.02151).

    A token that the model is sure of, right or wrong, counts little. The entropy is exact, in nats; `TopEAFT` has that
    of the authors' code.

    Raises:
        ValueError: a negative `alpha`.
    """

    alpha: float = 1.0

    needs = ("entropy",)

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}; it must be a number of at least 0")

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.entropy is not None
        return weighted_cross_entropy(token, (token.entropy / 3) ** self.alpha)


@dataclass(frozen=True)
class LabelSmoothing:
    """(1 - epsilon) ce + epsilon * uniform: cross-entropy to a target mixed with the uniform distribution.

    Szegedy et al., "Rethinking the Inception Architecture", CVPR 2016; torch's `label_smoothing`. Its optimum is
    (1 - epsilon) p + epsilon / V.

    Raises:
        ValueError: `epsilon` is outside [0, 1].
    """

    epsilon: float = 0.1

    needs = ("uniform",)

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon is {self.epsilon}; it must lie between 0 and 1")

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.uniform is not None
        u = torch.full_like(token.ce, self.epsilon)
        return Weighting(a=1 - u, u=u, value=(1 - self.epsilon) * token.ce + self.epsilon * token.uniform)


@dataclass(frozen=True)
class TopEAFT(LogitLoss):
    """EAFT as published: a = (entropy of the k likeliest tokens, renormalized, / 3)^alpha (arXiv 2601.02151).

    The authors' code is in LLaMA-Factory; axolotl's leaves out the 3.

    Raises:
        ValueError: a negative `alpha`, or a `k` below 1.
    """

    alpha: float = 1.0
    k: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}; it must be a number of at least 0")
        if self.k < 1:
            raise ValueError(f"k is {self.k}; it must be at least 1")

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        logs = logits.detach().topk(min(self.k, logits.shape[-1]), dim=-1).values.log_softmax(dim=-1)
        entropy = -(logs.exp() * logs).sum(dim=-1)
        return (entropy / 3) ** self.alpha * torch.nn.functional.cross_entropy(logits, labels, reduction="none")


@dataclass(frozen=True)
class GEM(LogitLoss):
    """sum over j of c_j (log q_j - log q_y), c = softmax(z / beta) * w (Li et al., ICLR 2025, arXiv 2408.16673).

    c is detached, so that the gradient is c - sum(c) e_y. w is 1 (`linear`, the authors' default, whose optimum is the
    data's distribution at temperature 1 / beta) or sigmoid(0.01 (z_j - z_y)) (`logsigmoid`), as in the authors' code
    (github.com/liziniu/GEM).

    Raises:
        ValueError: `beta` is outside (0, 1], or an unknown `h`.
    """

    beta: float = 0.7
    h: Literal["linear", "logsigmoid"] = "linear"

    def __post_init__(self) -> None:
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta is {self.beta}; it must lie above 0 and be at most 1")
        if self.h not in ("linear", "logsigmoid"):
            raise ValueError(f"unknown h {self.h!r}; use linear or logsigmoid")

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        c = (logits.detach() / self.beta).softmax(dim=-1)
        if self.h == "logsigmoid":
            c = c * torch.sigmoid(0.01 * (logits.detach() - logits.detach().gather(1, labels[:, None])))
        logs = logits.log_softmax(dim=-1)
        return (c * (logs - logs.gather(1, labels[:, None]))).sum(dim=-1)


@dataclass(frozen=True)
class ASFT(LogitLoss):
    """DFT with an anchor: q_y (detached) * ce + weight * KL(base || q) (Zhu et al., 2025, arXiv 2509.23753).

    The gradient to the logits is q_y (q - e_y) + weight (q - base), as in the authors' code, whose `kl_weight` is 0.1.

    Raises:
        ValueError: a negative `weight`.
    """

    weight: float = 0.1
    reference = BASE

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"weight is {self.weight}; it must be a number of at least 0")

    def losses(self, logits: Tensor, labels: Tensor, *reference: Tensor) -> Tensor:
        logs, base = logits.log_softmax(dim=-1), reference[0].log_softmax(dim=-1)
        target = logs.gather(1, labels[:, None])[:, 0]
        return -target.detach().exp() * target + self.weight * (base.exp() * (base - logs)).sum(dim=-1)


@dataclass(frozen=True)
class Distillation(LogitLoss):
    """(1 - weight) * ce + weight * T^2 * KL(teacher || q), both at temperature T (Hinton et al., 2015).

    The teacher answers each batch, with its whole distribution, unless `top_k` is given: then each token's `top_k`
    likeliest continuations are kept in a cache for further epochs, seeds and resumed trainings, and all other tokens
    share the rest of the teacher's mass evenly. `base` as the teacher keeps the model near what it was.

    Raises:
        ValueError: `weight` is outside [0, 1], or `temperature` or `top_k` is not positive.
    """

    teacher: str = BASE
    weight: float = 0.5
    temperature: float = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight is {self.weight}; it must lie between 0 and 1")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}; it must be positive")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be positive")

    @property
    def reference(self) -> str:  # type: ignore[override]
        """The teacher."""
        return self.teacher

    def losses(self, logits: Tensor, labels: Tensor, *reference: Tensor) -> Tensor:
        ce = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        logs, taught = ((z / self.temperature).log_softmax(dim=-1) for z in (logits, reference[0]))
        divergence = (taught.exp() * (taught - logs)).sum(dim=-1)
        return (1 - self.weight) * ce + self.weight * self.temperature**2 * divergence


WITH_ARGUMENTS: dict[str, type[Objective]] = {
    "focal": Focal,
    "power": ProbabilityPower,
    "deft": DEFT,
    "eaft": EAFT,
    "eaft_top": TopEAFT,
    "label_smoothing": LabelSmoothing,
    "gem": GEM,
    "asft": ASFT,
    "distillation": Distillation,
}
