"""The objectives, each with its source: a token's statistics to weights; logit_losses.py has functions of the logits.

`Energy` has the energy score in place of the transport cost. A config names one of OBJECTIVES.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from instruct.objectives.arguments import require, require_at_least_0, require_choice, require_share
from instruct.objectives.logit_losses import (
    asft,
    brier,
    eaft_top,
    focal_slope,
    gem,
    gift,
    spherical,
    target_sft,
    tofu,
)
from instruct.objectives.objective import BASE, LogitLoss, Objective, TokenStatistics, Weighting

# Added to denominators, as in the authors' released code.
EPSILON = 1e-10

EMOVariant = Literal["paper", "official"]
Emphasis = Literal["mle", "emo"]
TaiLrVariant = Literal["paper", "official"]
Side = Literal["above", "below"]


def weighted_cross_entropy(token: TokenStatistics, a: Tensor) -> Weighting:
    """a times cross-entropy."""
    return Weighting(a=a, value=a * token.ce)


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
        emphasis: `mle` scales the cost up to the cross-entropy (Eq. 18); `emo` scales the cross-entropy down to the
            cost (mode 2 of the authors' package EMOLoss, their choice for continual pre-training).

    Raises:
        ValueError: an unknown variant or emphasis.
    """

    variant: EMOVariant = "official"
    emphasis: Emphasis = "mle"

    needs = ("cost",)

    def __post_init__(self) -> None:
        require_choice("EMO variant", self.variant, EMOVariant)
        require_choice("EMO emphasis", self.emphasis, Emphasis)

    def weigh(self, token: TokenStatistics) -> Weighting:
        cost = token.cost + token.q_target if self.variant == "official" else token.cost
        if self.emphasis == "emo":
            a = cost / (token.ce + EPSILON)
            return Weighting(a=a, b=torch.ones_like(cost), value=a * token.ce + cost, ratio=a)
        ratio = token.ce / (cost + EPSILON)
        half = torch.full_like(cost, 0.5)
        return Weighting(a=half, b=half * ratio, value=half * (token.ce + ratio * cost), ratio=ratio)


@dataclass(frozen=True)
class Energy:
    """Cross-entropy and the energy score, with constant weights: 1/2 ce + 1/2 weight * energy (see torch_kernels.py).

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
        require_at_least_0("weight", self.weight)
        require(self.dim >= 1, f"dim is {self.dim}; it must be at least 1")

    def weigh(self, token: TokenStatistics) -> Weighting:
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
        require_share("gamma", self.gamma)

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
        require_share("gamma", self.gamma)
        require_choice("TaiLr variant", self.variant, TaiLrVariant)

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
        inside = 0 < self.threshold < math.sqrt(2)
        require(inside, f"threshold is {self.threshold}; an error norm lies between 0 and sqrt(2) = 1.414")

    def weigh(self, token: TokenStatistics) -> Weighting:
        truncated = token.error_norm > self.threshold
        a = (~truncated).to(token.ce.dtype)
        return Weighting(a=a, value=a * token.ce, clamped=truncated)


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
        require_at_least_0("gamma", self.gamma)

    def weigh(self, token: TokenStatistics) -> Weighting:
        value = (-torch.expm1(-token.ce)) ** self.gamma * token.ce
        return Weighting(a=focal_slope(token.ce, self.gamma), value=value)


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
    keep: Side = "above"

    needs = ()

    def __post_init__(self) -> None:
        require(0 < self.k < math.inf, f"k is {self.k}; it must be above 0")
        inside = self.threshold is None or 0 < self.threshold < 1
        require(inside, f"threshold is {self.threshold}; it must be a probability between 0 and 1")
        require_choice("side", self.keep, Side)

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
        alpha = token.squares
        scale = alpha / (alpha + 1e-6)
        return Weighting(a=token.q_target**alpha * scale, value=-torch.expm1(-alpha * token.ce) / (alpha + 1e-6))


@dataclass(frozen=True)
class EAFT:
    """Cross-entropy weighted by the model's own entropy: a = (entropy / 3)^alpha (arXiv 2601.02151).

    A token that the model is sure of, right or wrong, counts little. The entropy is exact, in nats; `eaft_top` has that
    of the authors' code.

    Raises:
        ValueError: a negative `alpha`.
    """

    alpha: float = 1.0

    needs = ("entropy",)

    def __post_init__(self) -> None:
        require_at_least_0("alpha", self.alpha)

    def weigh(self, token: TokenStatistics) -> Weighting:
        return weighted_cross_entropy(token, (token.entropy / 3) ** self.alpha)


@dataclass(frozen=True)
class IDFT:
    """a = q_y^g, g = exp(-(log q_y + entropy)), at least `least` and at most `most`: In-Distribution Finetuning.

    Zhang et al., 2026 (arXiv 2602.12222), as in the authors' code and its run, which has no warm-up
    (github.com/zhangmiaosen2000/Towards-On-Policy-SFT, IDFT/verl/trainer/fsdp_polylog_trainer.py). log q_y + entropy
    is 0 on average for tokens that the model draws itself, and then a = q_y, as in DFT; a token less likely than that
    counts less, one that is likelier more. g is detached, as every weight is.

    Raises:
        ValueError: `least` is negative or above `most`, or `most` is not finite.
    """

    least: float = 0.1
    most: float = 2.0

    needs = ("entropy",)

    def __post_init__(self) -> None:
        inside = 0 <= self.least <= self.most < math.inf
        require(inside, f"least is {self.least} and most {self.most}; they must be numbers, 0 <= least <= most")

    def weigh(self, token: TokenStatistics) -> Weighting:
        power = torch.exp(token.ce - token.entropy).clamp(self.least, self.most)
        return weighted_cross_entropy(token, token.q_target**power)


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
        require_share("epsilon", self.epsilon)

    def weigh(self, token: TokenStatistics) -> Weighting:
        u = torch.full_like(token.ce, self.epsilon)
        return Weighting(a=1 - u, u=u, value=(1 - self.epsilon) * token.ce + self.epsilon * token.uniform)


@dataclass(frozen=True)
class Frozen:
    """Cross-entropy weighted by another objective's rule, read from the base: a = a(p_base), not a(q).

    Such a weight does not depend on what training has done to the model ("PriFT", Wang et al., 2026, arXiv 2606.09396:
    any reweighting rule with the pretrained model's probabilities; the rule `dft` is its PriFT-prob).

    Args:
        rule: an objective of this module that weighs cross-entropy alone, by ce, q_target or entropy.
        args: its arguments.

    Raises:
        ValueError: an unknown rule, or one that needs more.
    """

    rule: str = "dft"
    args: Mapping[str, Any] = field(default_factory=dict)

    reference = BASE

    def __post_init__(self) -> None:
        rules = [name for name, kind in OBJECTIVES.items() if kind in _WEIGHS_CROSS_ENTROPY]
        require(self.rule in rules, f"unknown rule {self.rule!r}; use one of {', '.join(rules)}")
        self._weighs  # noqa: B018  its arguments are checked now

    @functools.cached_property
    def _weighs(self) -> Objective:
        return OBJECTIVES[self.rule](**self.args)

    @property
    def needs(self) -> tuple[str, ...]:
        """Of the reference alone."""
        return ("ref_ce", "ref_q_target", *(f"ref_{name}" for name in self._weighs.needs))

    def weigh(self, token: TokenStatistics) -> Weighting:
        weighting = self._weighs.weigh(TokenStatistics(token.ref_ce, token.ref_q_target, entropy=token.ref_entropy))
        return Weighting(a=weighting.a, value=weighting.a * token.ce, clamped=weighting.clamped)


_WEIGHS_CROSS_ENTROPY = (MixCE, TaiLr, DFT, Focal, ProbabilityPower, EAFT, IDFT)


OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "mle": MLE,
    "emo": EMO,
    "energy": Energy,
    "mixce": MixCE,
    "tailr": TaiLr,
    "dft": DFT,
    "ent": ErrorNormTruncation,
    "focal": Focal,
    "power": ProbabilityPower,
    "deft": DEFT,
    "eaft": EAFT,
    "eaft_top": functools.partial(LogitLoss, eaft_top),
    "idft": IDFT,
    "label_smoothing": LabelSmoothing,
    "gem": functools.partial(LogitLoss, gem),
    "asft": functools.partial(LogitLoss, asft),
    "frozen": Frozen,
    "gift": functools.partial(LogitLoss, gift),
    "target_sft": functools.partial(LogitLoss, target_sft),
    "tofu": functools.partial(LogitLoss, tofu),
    "brier": functools.partial(LogitLoss, brier),
    "spherical": functools.partial(LogitLoss, spherical),
}
