"""EMOConfig: SFTConfig plus the choice of an objective."""

from __future__ import annotations

from dataclasses import dataclass, field

from trl import SFTConfig

from instruct.objectives import EMO, MLE, MixCE, Objective, TaiLr

OBJECTIVES = ("mle", "emo", "mixce", "tailr")


@dataclass
class EMOConfig(SFTConfig):
    r"""
    Configuration of [`EMOTrainer`]. Every argument of [`~trl.SFTConfig`] keeps its meaning and its default.

    Parameters:
        objective (`str`, *optional*, defaults to `"emo"`):
            What is optimised on the response tokens: `"mle"`, `"emo"`, `"mixce"` or `"tailr"`.
        emo_variant (`str`, *optional*, defaults to `"official"`):
            `"paper"` (Eq. 18), `"official"` (the authors' instruction-tuning code) or `"pypi"` (EMOLoss 0.0.3). See
            [`~instruct.objectives.EMO`].
        emo_emphasis (`str`, *optional*, defaults to `"mle"`):
            `"mle"`, or `"emo"` for the authors' mode 2.
        gamma (`float`, *optional*, defaults to `0.8`):
            The mixing coefficient of `"mixce"` (Eq. 17) and `"tailr"` (Eq. 16), in [0, 1].
        transport_cost (`str`, *optional*, defaults to `"fixed"`):
            The embeddings whose cosine is the transport cost: `"fixed"`, the head as it was when training started (no
            extra memory while the head is frozen, one copy of it otherwise), or `"adaptive"`, the head as it is now,
            detached.
    """

    objective: str = field(default="emo", metadata={"help": "mle, emo, mixce or tailr"})
    emo_variant: str = field(default="official", metadata={"help": "paper, official or pypi"})
    emo_emphasis: str = field(default="mle", metadata={"help": "mle or emo"})
    gamma: float = field(default=0.8, metadata={"help": "coefficient of mixce and tailr, in [0, 1]"})
    transport_cost: str = field(default="fixed", metadata={"help": "fixed or adaptive"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.make_objective()
        if self.transport_cost not in ("fixed", "adaptive"):
            raise ValueError(f"unknown transport_cost {self.transport_cost!r}; use fixed or adaptive")

    def make_objective(self) -> Objective:
        """The objective that the arguments name.

        Raises:
            ValueError: an unknown name, or a value out of range.
        """
        if self.objective == "mle":
            return MLE()
        if self.objective == "emo":
            return EMO(self.emo_variant, self.emo_emphasis)  # type: ignore[arg-type]
        if self.objective == "mixce":
            return MixCE(self.gamma)
        if self.objective == "tailr":
            return TaiLr(self.gamma)
        raise ValueError(f"unknown objective {self.objective!r}; use {', '.join(OBJECTIVES)}")
