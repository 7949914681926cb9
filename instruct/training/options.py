"""Options of training: the base model, the rows, the adapter, and one system per objective."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from instruct.base.cards import Options
from instruct.base.models import ModelOptions
from instruct.data.options import DataOptions
from instruct.training.objective_names import ObjectiveName


class LoraOptions(Options):
    """The LoRA adapter (peft.LoraConfig). `lora: null` trains the whole model."""

    r: int = Field(default=16, ge=1)
    """The rank."""
    alpha: int = Field(default=32, ge=1)
    """The scale is alpha / r."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Of the adapter's input."""
    target_modules: str | list[str] = "all-linear"
    """The modules that get an adapter: all-linear, a regular expression, or names."""
    use_dora: bool = False
    """Train magnitudes and directions apart (DoRA)."""


class SystemOptions(Options):
    """One system: an objective and its parameters, which EMOConfig describes."""

    objective: ObjectiveName | Literal["none"]
    """What is optimized; none is the untrained base."""
    variant: Literal["paper", "official", "pypi"] = "official"
    """Of EMO: the paper's equation, the authors' code, or their package."""
    emphasis: Literal["mle", "emo"] = "mle"
    """Of EMO: emo is the authors' mode 2."""
    transport_cost: str = "fixed"
    """Of EMO and energy: fixed, adaptive, numeric (EMO alone), or the path of a table."""
    energy_weight: float = Field(default=10.0, ge=0)
    """Of energy: its weight relative to that of cross-entropy."""
    energy_dim: int = Field(default=128, ge=1)
    """Of energy: the width that the table's unit rows are projected to."""
    gamma: float = Field(default=0.8, ge=0, le=1)
    """Of MixCE and TaiLr: the mixing coefficient."""
    tailr_variant: Literal["paper", "official"] = "paper"
    """Of TaiLr: the paper's equation, or the EMO authors' code."""
    ent_threshold: float = 1.3
    """Of ent: tokens with a larger error norm are left out."""
    goldfish_k: int = Field(default=4, ge=2)
    """Of goldfish: one token in k is left out."""
    goldfish_context: int = Field(default=13, ge=1)
    """Of goldfish: the length of the window that is hashed."""
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    """Of the order of the rows, of first weights that are random, and of dropout (default: train.seed)."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Instead of train.learning_rate."""

    def emo_config(self) -> dict[str, Any]:
        """The arguments of EMOConfig that this section sets."""
        names = {"variant": "emo_variant", "emphasis": "emo_emphasis"}
        return {
            names.get(name, name): value for name, value in self.model_dump(exclude={"seed", "learning_rate"}).items()
        }

    def made_from(self) -> dict[str, Any]:
        """The options as a step's inputs, without those that earlier runs did not have: these are not outdated."""
        later = {name for name in ("seed", "learning_rate") if getattr(self, name) is None}
        if self.objective != "energy":
            later |= {"energy_weight", "energy_dim"}
        return self.model_dump(mode="json", exclude=later)


def seed_name(system: str, seed: int) -> str:
    """The name of a system that is trained with `seed`, one of several."""
    return f"{system}-seed{seed}"


def without_seed(name: str, seed: int | None) -> str:
    """The system that `seed_name` named; the name itself without a seed."""
    return name if seed is None else name.removesuffix(seed_name("", seed))


class TrainingOptions(Options):
    """Systems that differ only in their objective. `train` takes any argument of TRL's SFTConfig."""

    name: str
    """The run's: results go to runs/NAME."""
    needs_gpu: bool = False
    """Refuse to start without a GPU."""
    model: ModelOptions = ModelOptions()
    """The base model."""
    data: DataOptions = DataOptions()
    """The training data."""
    lora: LoraOptions | None = LoraOptions()
    """The LoRA adapter; null trains the whole model."""
    from_scratch: bool = False
    """Train from random weights, drawn with each system's seed, instead of the model's; requires lora: null."""
    train: dict[str, Any] = {}
    """Any argument of EMOConfig, which has those of TRL's SFTConfig."""
    systems: dict[str, SystemOptions] = {
        "mle": SystemOptions(objective="mle"),
        "emo": SystemOptions(objective="emo"),
    }
    """What to train and compare, by name."""

    @model_validator(mode="after")
    def _scratch_trains_all(self) -> Self:
        if self.from_scratch and (self.lora or self.model.quantization):
            raise ValueError("from_scratch: random weights have to be trained; set lora to null, without quantization")
        return self

    @property
    def trained(self) -> dict[str, SystemOptions]:
        """The systems that are trained: all but the untrained base (`objective: none`)."""
        return {name: system for name, system in self.systems.items() if system.objective != "none"}
