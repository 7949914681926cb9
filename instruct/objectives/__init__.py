"""The training objectives, on tensors alone: no trainer, no tokenizer."""

from instruct.objectives.built_in import (
    ASFT,
    DEFT,
    DFT,
    EAFT,
    EMO,
    GEM,
    GIFT,
    MLE,
    PSFT,
    Brier,
    Distillation,
    Energy,
    ErrorNormTruncation,
    Focal,
    Frozen,
    Goldfish,
    LabelSmoothing,
    MixCE,
    PriFT,
    ProbabilityPower,
    Spherical,
    TaiLr,
    TopEAFT,
)
from instruct.objectives.linear import ObjectiveStatistics, linear_objective_loss
from instruct.objectives.objective import LogitLoss, Objective
from instruct.objectives.transport import (
    CosineCost,
    EnergyTable,
    NumericCost,
    TransportCost,
    load_cost_table,
    number_values,
)
