"""Shared by tests against the reference: every member of the family, and gradient tolerances."""

from __future__ import annotations

from torch import Tensor

from instruct.objectives import DFT, EMO, MLE, Energy, ErrorNormTruncation, MixCE, Objective, TaiLr

EMO_VARIANTS: list[Objective] = [
    EMO(variant, emphasis) for variant in ("paper", "official", "pypi") for emphasis in ("mle", "emo")
]
FAMILY: list[Objective] = [
    MLE(),
    *EMO_VARIANTS,
    Energy(8.0),
    MixCE(0.7),
    TaiLr(0.3),
    TaiLr(0.3, "official"),
    DFT(),
    ErrorNormTruncation(1.0),
]


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())
