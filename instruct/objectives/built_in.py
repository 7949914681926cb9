"""The objectives whose arguments a config has by name, each with its source: a token's statistics to weights.

`Energy` has the energy score in place of the transport cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from instruct.objectives.objective import TokenStatistics, Weighting

# Added to denominators, as in the authors' released code.
EPSILON = 1e-10

EMOVariant = Literal["paper", "official", "pypi"]
Emphasis = Literal["mle", "emo"]
TaiLrVariant = Literal["paper", "official"]


@dataclass(frozen=True)
class MLE:
    """Cross-entropy (EMO paper, Eq. 3): a = 1, b = 0."""

    needs = ()

    def weigh(self, token: TokenStatistics) -> Weighting:
        return Weighting(a=torch.ones_like(token.ce), value=token.ce)


@dataclass(frozen=True)
class EMO:
    """Earth Mover Distance Optimization (Ren et al., ICLR 2024).

    Args:
        variant: how cross-entropy and cost are balanced for each token.
            `paper`: Eq. 18, ratio ce / cost.
            `official`: the authors' instruction-tuning code, ratio ce / (cost + q_y): the target's own probability
            enters the value of the ratio but not the gradient.
            `pypi`: the authors' package EMOLoss 0.0.3, ratio min(ce / cost, 3).
        emphasis: `mle` scales the cost up to the cross-entropy (Eq. 18; mode 1 of EMOLoss); `emo` scales the
            cross-entropy down to the cost (mode 2, the authors' choice for continual pre-training).

    Raises:
        ValueError: an unknown variant or emphasis.
    """

    variant: EMOVariant = "official"
    emphasis: Emphasis = "mle"

    needs = ("cost",)

    def __post_init__(self) -> None:
        if self.variant not in ("paper", "official", "pypi"):
            raise ValueError(f"unknown EMO variant {self.variant!r}; use paper, official or pypi")
        if self.emphasis not in ("mle", "emo"):
            raise ValueError(f"unknown EMO emphasis {self.emphasis!r}; use mle or emo")

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.cost is not None
        cost = token.cost + token.q_target if self.variant == "official" else token.cost
        if self.emphasis == "emo":
            a = cost / (token.ce + EPSILON)
            return Weighting(a=a, b=torch.ones_like(cost), value=a * token.ce + cost, ratio=a)
        ratio = token.ce / (cost + EPSILON)
        clamped = None
        if self.variant == "pypi":
            clamped = ratio > 3
            ratio = ratio.clamp(max=3)
        half = torch.full_like(cost, 0.5)
        return Weighting(a=half, b=half * ratio, value=half * (token.ce + ratio * cost), ratio=ratio, clamped=clamped)


@dataclass(frozen=True)
class Energy:
    """Cross-entropy and the energy score, with constant weights: 1/2 ce + 1/2 weight * energy (see energy.py).

    Both are proper scores, and so is the sum, because its weights do not depend on the token: unlike EMO's, its optimum
    is the true distribution. The statistic `cost` is the energy.

    Args:
        weight: of the energy, relative to that of cross-entropy.
        dim: the width that the table's unit rows are projected to.

    Raises:
        ValueError: a negative weight, or a `dim` below 1.
    """

    weight: float = 10.0
    dim: int = 128

    needs = ("cost",)

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"energy_weight is {self.weight}; it must be a number of at least 0")
        if self.dim < 1:
            raise ValueError(f"energy_dim is {self.dim}; it must be at least 1")

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.cost is not None
        half = torch.full_like(token.ce, 0.5)
        b = half * self.weight
        return Weighting(a=half, b=b, value=half * token.ce + b * token.cost)


@dataclass(frozen=True)
class MixCE:
    """Forward mixed with approximated reverse cross-entropy (Zhang et al., ACL 2023; EMO paper, Eq. 17).

    a = gamma + (1 - gamma) q_y: the likelier the model finds a token, the more it counts. Gamma 1 is cross-entropy.

    Raises:
        ValueError: `gamma`, the weight of forward cross-entropy, is outside [0, 1].
    """

    gamma: float = 0.8

    needs = ()

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    def weigh(self, token: TokenStatistics) -> Weighting:
        return weighted_cross_entropy(token, self.gamma + (1 - self.gamma) * token.q_target)


@dataclass(frozen=True)
class TaiLr:
    """Token-level total variation distance (Ji et al., "Tailoring Language Generation Models under TVD", ICLR 2023).

    Args:
        gamma: the proxy's mixing coefficient; its direction depends on the variant.
        variant: `paper`: a = q_y / (gamma + (1 - gamma) q_y), EMO paper, Eq. 16, and TaiLr's own criterion
            (github.com/thu-coai/TaiLr, fairseq/criterions/tailr.py) without its floor on a (`--density-min-weight`, 0
            by default). Gamma 0 is cross-entropy, gamma 1 the total variation distance's a = q_y.
            `official`: a = gamma + (1 - gamma) * clamp(q_y / ((1 - gamma) + gamma q_y), 0.2, 1), the baseline
            of the EMO authors (github.com/DRSY/EMO, language_modeling/gpt2.py, mode "tvd"): the weight is mixed with
            cross-entropy and floored at 0.2, and gamma is reversed, so that gamma 1 is cross-entropy.

    Raises:
        ValueError: `gamma` is outside [0, 1], or an unknown variant.
    """

    gamma: float = 0.8
    variant: TaiLrVariant = "paper"

    needs = ()

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)
        if self.variant not in ("paper", "official"):
            raise ValueError(f"unknown TaiLr variant {self.variant!r}; use paper or official")

    def weigh(self, token: TokenStatistics) -> Weighting:
        q = token.q_target
        gamma = self.gamma if self.variant == "paper" else 1 - self.gamma
        # At gamma 0, a probability that underflowed would give 0 / 0.
        ratio = q / (gamma + (1 - gamma) * q).clamp(min=torch.finfo(q.dtype).tiny)
        if self.variant == "official":
            ratio = self.gamma + (1 - self.gamma) * ratio.clamp(0.2, 1)
        return weighted_cross_entropy(token, ratio)


@dataclass(frozen=True)
class DFT:
    """Dynamic fine-tuning: a = q_y (Wu et al., "On the Generalization of SFT", 2025; TRL's `loss_type="dft"`).

    This cancels the factor 1 / q_y in the gradient of cross-entropy, so that unlikely tokens no longer dominate.
    """

    needs = ()

    def weigh(self, token: TokenStatistics) -> Weighting:
        return weighted_cross_entropy(token, token.q_target)


@dataclass(frozen=True)
class ErrorNormTruncation:
    """Cross-entropy without the tokens on which the model is confidently wrong (Li et al., ICLR 2024).

    a = 1 where ||q - onehot(y)||_2 <= threshold, else 0 (ENT-Threshold: github.com/tianjianl/error_norm_truncation).
    The norm is large only if the target is unlikely and the probability is concentrated on few other tokens: an
    uncertain model keeps the token, and a model that is sure of something else treats it as noise. As in the authors'
    code, the loss is still divided by all response tokens, including the truncated ones, which the statistic `clamped`
    counts. Their code can delay truncation, for models trained from scratch; pretrained models do not need that.

    Args:
        threshold: in (0, sqrt 2). The authors publish no default. Ours, 1.3, truncates a target of probability near 0
            if the model gives another token 0.83 or more, since 1.3 = sqrt(1 + 0.83^2).

    Raises:
        ValueError: `threshold` is outside (0, sqrt 2) and would truncate every token or none.
    """

    threshold: float = 1.3

    needs = ("error_norm",)

    def __post_init__(self) -> None:
        if not 0 < self.threshold < math.sqrt(2):
            raise ValueError(f"threshold is {self.threshold}; an error norm lies between 0 and sqrt(2) = 1.414")

    def weigh(self, token: TokenStatistics) -> Weighting:
        assert token.error_norm is not None
        truncated = token.error_norm > self.threshold
        a = (~truncated).to(token.ce.dtype)
        return Weighting(a=a, value=a * token.ce, clamped=truncated)


def _check_gamma(gamma: float) -> None:
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma is {gamma}; it must lie between 0 and 1")


def weighted_cross_entropy(token: TokenStatistics, a: Tensor) -> Weighting:
    """a times cross-entropy."""
    return Weighting(a=a, value=a * token.ce)
