"""The training objectives, on tensors alone: no trainer, no tokenizer."""

from instruct.objectives.built_in import DFT, EMO, MLE, Energy, ErrorNormTruncation, MixCE, TaiLr
from instruct.objectives.energy import EnergyTable
from instruct.objectives.goldfish import goldfish_mask
from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import LogitLoss, Objective
from instruct.objectives.transport import CosineCost, NumericCost, TransportCost, load_cost_table, number_values
from instruct.objectives.with_arguments import (
    ASFT,
    DEFT,
    EAFT,
    GEM,
    Distillation,
    Focal,
    LabelSmoothing,
    ProbabilityPower,
    TopEAFT,
)

__all__ = [
    "ASFT",
    "DEFT",
    "DFT",
    "EAFT",
    "EMO",
    "GEM",
    "MLE",
    "CosineCost",
    "Distillation",
    "Energy",
    "EnergyTable",
    "ErrorNormTruncation",
    "Focal",
    "LabelSmoothing",
    "LogitLoss",
    "MixCE",
    "NumericCost",
    "Objective",
    "ObjectiveStatistics",
    "ProbabilityPower",
    "TaiLr",
    "TopEAFT",
    "TransportCost",
    "goldfish_mask",
    "linear_objective_loss",
    "load_cost_table",
    "number_values",
]
