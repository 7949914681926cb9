"""The training objectives, on tensors alone: no trainer, no tokenizer."""

from instruct.objectives.built_in import (
    DEFT,
    DFT,
    EAFT,
    EMO,
    MLE,
    Energy,
    ErrorNormTruncation,
    Focal,
    LabelSmoothing,
    MixCE,
    ProbabilityPower,
    TaiLr,
)
from instruct.objectives.energy import EnergyTable
from instruct.objectives.goldfish import goldfish_mask
from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import Objective
from instruct.objectives.transport import CosineCost, NumericCost, TransportCost, load_cost_table, number_values

__all__ = [
    "DEFT",
    "DFT",
    "EAFT",
    "EMO",
    "MLE",
    "CosineCost",
    "Energy",
    "EnergyTable",
    "ErrorNormTruncation",
    "Focal",
    "LabelSmoothing",
    "MixCE",
    "NumericCost",
    "Objective",
    "ObjectiveStatistics",
    "ProbabilityPower",
    "TaiLr",
    "TransportCost",
    "goldfish_mask",
    "linear_objective_loss",
    "load_cost_table",
    "number_values",
]
