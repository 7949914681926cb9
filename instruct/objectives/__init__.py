"""What is optimised. Knows torch; knows no trainer and no tokenizer."""

from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import EMO, MLE, MixCE, Objective, TaiLr
from instruct.objectives.transport import TransportCost

__all__ = [
    "EMO",
    "MLE",
    "MixCE",
    "Objective",
    "ObjectiveStatistics",
    "TaiLr",
    "TransportCost",
    "linear_objective_loss",
]
