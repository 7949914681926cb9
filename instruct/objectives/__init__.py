"""The training objectives, on tensors alone: no trainer, no tokenizer."""

from instruct.objectives.energy import EnergyTable
from instruct.objectives.goldfish import goldfish_mask
from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import DFT, EMO, MLE, Energy, ErrorNormTruncation, MixCE, Objective, TaiLr
from instruct.objectives.transport import CosineCost, NumericCost, TransportCost, load_cost_table, number_values

__all__ = [
    "DFT",
    "EMO",
    "MLE",
    "CosineCost",
    "Energy",
    "EnergyTable",
    "ErrorNormTruncation",
    "MixCE",
    "NumericCost",
    "Objective",
    "ObjectiveStatistics",
    "TaiLr",
    "TransportCost",
    "goldfish_mask",
    "linear_objective_loss",
    "load_cost_table",
    "number_values",
]
