"""Shared by tests against the reference: every member of the family, and gradient tolerances."""

from __future__ import annotations

import torch
from torch import Tensor

from instruct.objectives import (
    DEFT,
    DFT,
    EAFT,
    EMO,
    IDFT,
    MLE,
    Energy,
    ErrorNormTruncation,
    Focal,
    Frozen,
    LabelSmoothing,
    MixCE,
    Objective,
    ProbabilityPower,
    TaiLr,
)
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.objective import OPTIONAL, TERMS, TokenStatistics, Weighting

EMO_VARIANTS: list[Objective] = [
    EMO(variant, emphasis) for variant in ("paper", "official") for emphasis in ("mle", "emo")
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
    Focal(2.0),
    Focal(0.5),
    ProbabilityPower(0.5),
    ProbabilityPower(1.0, threshold=0.3),
    DEFT(),
    EAFT(0.7),
    IDFT(),
    IDFT(0.5, 4.0),
    LabelSmoothing(0.2),
]
# Functions of a chunk's logits: they have no weights.
LOGIT_LOSSES: list[Objective] = [
    OBJECTIVES[name](**arguments)
    for name, arguments in (
        ("eaft_top", {"alpha": 0.7}),
        ("eaft_top", {"k": 5}),
        ("gem", {}),
        ("gem", {"beta": 0.5, "h": "logsigmoid"}),
        ("asft", {"weight": 0.3}),
        ("gift", {"beta": 2.0}),
        ("target_sft", {"eta": 0.3}),
        ("tofu", {}),
        ("tofu", {"gamma": 0.5, "beta": 1.5}),
        ("brier", {}),
        ("spherical", {}),
    )
]
# They weigh by a reference model's statistics, which are the model's own where there is none.
FROZEN: list[Objective] = [Frozen(), Frozen("eaft", {"alpha": 0.7}), Frozen("tailr", {"gamma": 0.3})]


class EveryTerm:
    """Every statistic and every term, with weights that depend on the statistics."""

    needs = OPTIONAL

    def weigh(self, token: TokenStatistics) -> Weighting:
        weights = {
            "a": token.error_norm,
            "b": 0.3 + token.q_target,
            "h": 0.1 * token.squares - 0.2,
            "u": 0.05 * (1 + token.entropy),
        }
        value = sum(weight * getattr(token, TERMS[name]) for name, weight in weights.items())
        return Weighting(value=value, **weights)


def every_term_dense(logits: Tensor, table: Tensor, labels: Tensor) -> Tensor:
    """EveryTerm's loss of each token from dense rows, (tokens,); the costs are those of a table's rows."""
    log_q = torch.log_softmax(logits, dim=-1)
    q, ce = log_q.exp(), -log_q.gather(1, labels[:, None])[:, 0]
    unit = torch.nn.functional.normalize(table.detach(), dim=1)
    cost = (q * (1 - unit @ unit.T)[labels].scatter(1, labels[:, None], 0.0)).sum(dim=-1)
    entropy, uniform = -(q * log_q).sum(dim=-1), -log_q.mean(dim=-1)
    norm = (q - torch.nn.functional.one_hot(labels, len(table))).norm(dim=-1)
    h = 0.1 * q.square().sum(dim=-1) - 0.2
    return (
        norm.detach() * ce + (0.3 + torch.exp(-ce)).detach() * cost
        + h.detach() * entropy + 0.05 * (1 + entropy).detach() * uniform
    )  # fmt: skip


def relative_error(found: Tensor, expected: Tensor) -> float:
    difference, scale = (found.double() - expected.double()).norm(), expected.double().norm()
    return float(difference / scale) if scale > 0 else float(difference)
