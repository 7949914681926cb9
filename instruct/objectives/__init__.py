"""The training objectives, on tensors alone: no trainer, no tokenizer."""

from instruct.objectives.built_in import (
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
    ProbabilityPower,
    TaiLr,
)
from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import LogitLoss, Objective, TokenStatistics, Weighting
from instruct.objectives.transport import (
    CosineCost,
    EnergyTable,
    load_cost_table,
)
