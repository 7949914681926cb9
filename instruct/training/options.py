"""Options of training: the base model, the rows, the adapter, and one system per objective."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from instruct.cards import Options
from instruct.data.options import DataOptions
from instruct.models import ModelOptions
from instruct.training.objective_names import ObjectiveName


class LoraOptions(Options):
    """The LoRA adapter (peft.LoraConfig). `lora: null` trains the whole model."""

    r: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: str | list[str] = "all-linear"
    use_dora: bool = False


class SystemOptions(Options):
    """One system: an objective and its parameters, which EMOConfig describes. `objective: none` is the untrained base.

    `variant`, `emphasis` and `transport_cost` (fixed, adaptive, numeric, or the path of a table) belong to EMO; `gamma`
    to MixCE and TaiLr. `seed` decides the order of the rows, the adapter's first weights and dropout; None: train.seed.
    """

    objective: ObjectiveName | Literal["none"]
    variant: Literal["paper", "official", "pypi"] = "official"
    emphasis: Literal["mle", "emo"] = "mle"
    transport_cost: str = "fixed"
    gamma: float = Field(default=0.8, ge=0, le=1)
    tailr_variant: Literal["paper", "official"] = "paper"
    ent_threshold: float = 1.3
    goldfish_k: int = Field(default=4, ge=2)
    goldfish_context: int = Field(default=13, ge=1)
    seed: int | None = Field(default=None, ge=0, lt=2**32)

    def emo_config(self) -> dict[str, Any]:
        """The arguments of EMOConfig that this section sets."""
        names = {"variant": "emo_variant", "emphasis": "emo_emphasis"}
        return {names.get(name, name): value for name, value in self.model_dump(exclude={"seed"}).items()}

    def made_from(self) -> dict[str, Any]:
        """The options as a step's inputs. Earlier runs did not have a seed; their trainings must not look outdated."""
        return self.model_dump(mode="json", exclude={"seed"} if self.seed is None else None)


def seed_name(system: str, seed: int) -> str:
    """The name of a system that is trained with `seed`, one of several."""
    return f"{system}-seed{seed}"


class TrainingOptions(Options):
    """Systems that differ only in their objective. `train` takes any argument of TRL's SFTConfig."""

    name: str
    needs_gpu: bool = False
    model: ModelOptions = ModelOptions()
    data: DataOptions = DataOptions()
    lora: LoraOptions | None = LoraOptions()
    train: dict[str, Any] = {}
    systems: dict[str, SystemOptions] = {
        "mle": SystemOptions(objective="mle"),
        "emo": SystemOptions(objective="emo"),
    }

    @property
    def trained(self) -> dict[str, SystemOptions]:
        """The systems that are trained: all but the untrained base (`objective: none`)."""
        return {name: system for name, system in self.systems.items() if system.objective != "none"}
