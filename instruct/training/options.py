"""Options of training: the base model, the rows, the adapter, and one system per objective."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from instruct.base.cards import nearest
from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.options import FreeKeys, Options, Texts, with_numbers
from instruct.data.options import DataOptions
from instruct.training.objective_names import OBJECTIVES, OWN, is_own


def _argument_types(module: str, name: str) -> dict[str, Any]:
    """The types of the arguments of a library's config, whose import takes seconds."""
    config = getattr(importlib.import_module(module), name)
    types = get_type_hints(config) | {"fsdp": bool | str | list[str] | None}  # transformers says: a text
    return {field.name: types[field.name] for field in dataclasses.fields(config) if field.init}


# What changes no result; every other key changes training. tests/training/test_options.py knows them all.
_LOGS = {"log_level", "log_level_replica", "log_on_each_node", "logging_first_step", "logging_nan_inf_filter"}
_LOGS |= {"logging_steps", "logging_strategy", "include_num_input_tokens_seen", "disable_tqdm", "debug"}
_TRACKERS = {"report_to", "run_name", "project", "trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"}
_LOADING = {"dataloader_num_workers", "dataloader_persistent_workers", "dataloader_pin_memory", "dataset_num_proc"}
_LOADING |= {"dataloader_prefetch_factor", "dataloader_multiprocessing_context"}
_SAVING = {"push_to_hub", "hub_model_id", "hub_private_repo", "save_on_each_node", "save_total_limit"}
_SAVING |= {"save_only_model"}
_MACHINE = {"ddp_timeout", "enable_jit_checkpoint", "skip_memory_metrics", "torch_empty_cache_steps"}
# For a program's own use, or for metrics that a program computes.
_PROGRAM = {"do_train", "do_eval", "do_predict", "local_rank", "use_cache", "hub_token", "hub_strategy"}
_PROGRAM |= {"hub_always_push", "hub_revision", "batch_eval_metrics", "eval_accumulation_steps", "include_for_metrics"}
_PROGRAM |= {"eval_do_concat_batches", "eval_use_gather_object", "prediction_loss_only"}
TRAIN_KEYS = FreeKeys(
    partial(_argument_types, "instruct.training.emo_config", "EMOConfig"),
    frozenset(_LOGS | _TRACKERS | _LOADING | _SAVING | _MACHINE | _PROGRAM),
    (
        "instruct/training/emo_config.py",
        "trl/trainer/sft_config.py",
        "trl/trainer/base_config.py",
        "transformers/training_args.py",
    ),
)
# Without evaluations: else the best one of these steps is kept.
_SAVING_STEPS = {"save_strategy", "save_steps"}
LORA_KEYS = FreeKeys(
    partial(_argument_types, "peft", "LoraConfig"),
    frozenset({"runtime_config"}),
    ("peft/tuners/lora/config.py", "peft/config.py"),
)


def own_lora_names(section: dict[str, Any]) -> dict[str, Any]:
    """The `lora` section with LoraConfig's `lora_alpha` and `lora_dropout` as `alpha` and `dropout`.

    Raises:
        ValueError: one of them is given by both names.
    """
    for name in ("alpha", "dropout"):
        if name in section and f"lora_{name}" in section:
            raise ValueError(f"{name} and lora_{name} are the same; remove one of them")
    ours = {"lora_alpha": "alpha", "lora_dropout": "dropout"}
    return {ours.get(key, key): value for key, value in section.items()}


class LoraOptions(Options):
    """The LoRA adapter: any argument of peft.LoraConfig. `lora: null` trains the whole model."""

    model_config = ConfigDict(extra="allow")
    free_keys: ClassVar[FreeKeys | None] = LORA_KEYS
    no_result: ClassVar[frozenset[str]] = LORA_KEYS.no_result

    r: int = Field(default=16, ge=1)
    """The rank."""
    alpha: int = Field(default=32, ge=1)
    """The scale is alpha / r."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """The share of the adapter's inputs to drop while training."""
    target_modules: str | list[str] = "all-linear"
    """The modules that get an adapter: all-linear, a regular expression, or names."""
    use_dora: bool = False
    """Train magnitudes and directions apart (DoRA)."""

    @model_validator(mode="before")
    @classmethod
    def _has_one_name(cls, content: Any) -> Any:
        return _with_nested_numbers(own_lora_names(content)) if isinstance(content, dict) else content

    @model_validator(mode="after")
    def _is_loaded_as_it_was(self) -> LoraOptions:
        init = getattr(self, "init_lora_weights", True)
        if str(init).startswith("pissa_niter"):
            raise ValueError(f"init_lora_weights {init}: PEFT draws it anew when the adapter is loaded; use pissa")
        return self

    def lora_config(self) -> dict[str, Any]:
        """The arguments of peft.LoraConfig."""
        arguments = self.model_dump(exclude={"alpha", "dropout"}) | {
            "lora_alpha": self.alpha,
            "lora_dropout": self.dropout,
            "task_type": "CAUSAL_LM",
        }
        types = LORA_KEYS.types() if self.model_extra else {}
        for name in self.model_extra or ():
            options: Any = next(filter(dataclasses.is_dataclass, (types.get(name), *get_args(types.get(name)))), None)
            if options and isinstance(arguments[name], dict):
                arguments[name] = options(**arguments[name])
        return arguments


def _with_nested_numbers(section: Any) -> Any:
    """The texts of a library's own keys stay; config.py reads them by the key's type."""
    if not isinstance(section, dict):
        return section
    return {key: value if isinstance(value, str) else with_numbers(value) for key, value in section.items()}


def _known(name: str) -> str:
    if name in (*OBJECTIVES, "none") or is_own(name):
        return name
    names = ", ".join(OBJECTIVES)
    raise ValueError(f"unknown objective{nearest(name, OBJECTIVES)}; use {names}, none, or your own as FILE.py:NAME")


_OBJECTIVE_SCHEMA = {"anyOf": [{"enum": [*OBJECTIVES, "none"]}, {"type": "string", "pattern": OWN}]}


class SystemOptions(Options):
    """One system: an objective and its parameters, which EMOConfig describes."""

    objective: Annotated[str, AfterValidator(_known), WithJsonSchema(_OBJECTIVE_SCHEMA)]
    """What is trained, see docs/objectives.md; none is the untrained base, FILE.py:NAME your own."""
    objective_args: Annotated[dict[str, Any] | None, BeforeValidator(with_numbers)] = None
    """The objective's arguments by name, see docs/objectives.md."""
    transport_cost: str = "fixed"
    """The cost between tokens in EMO and energy: fixed, or the path of a table."""
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    """Draws the order of the rows, first weights that are random, and dropout (default: train.seed)."""
    learning_rate: float | None = Field(default=None, gt=0)
    """The learning rate of this system (default: train.learning_rate)."""
    adapter: Texts | None = Field(default=None, min_length=1)
    """Trained elsewhere, with the objective none: the folder of an adapter or a whole model, or a hub id (ID@REVISION);
    several are trainings of this system that differ in their seeds."""

    @model_validator(mode="before")
    @classmethod
    def _adapter_is_trained(cls, content: Any) -> Any:
        """What was trained elsewhere has no objective here, which need not be written."""
        if isinstance(content, dict) and content.get("adapter"):
            if content.get("objective", "none") != "none":
                raise ValueError(f"adapter: is not trained here with {content['objective']}; leave the objective out")
            return {**content, "objective": "none"}
        return content

    def emo_config(self) -> dict[str, Any]:
        """The arguments of EMOConfig that this section sets."""
        return self.model_dump(exclude={"seed", "learning_rate", "adapter"})


def seed_name(system: str, seed: int) -> str:
    """The name of a system that is trained with `seed`, one of several."""
    return f"{system}-seed{seed}"


def without_seed(name: str, seed: int | None) -> str:
    """The system that `seed_name` named; the name itself without a seed."""
    return name if seed is None else name.removesuffix(seed_name("", seed))


def control_name(system: str) -> str:
    """The name of MLE sampled at a system's entropy."""
    return f"mle-matched-{system}"


class TrainingOptions(Options):
    """Systems that differ only in their objective. `train` takes any argument of TRL's SFTConfig."""

    name: str
    """The name of the run: results go to runs/NAME."""
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
    train: Annotated[dict[str, Any], BeforeValidator(_with_nested_numbers), TRAIN_KEYS] = {}
    """Any argument of EMOConfig, which has those of TRL's SFTConfig."""
    systems: dict[str, SystemOptions] = {
        "mle": SystemOptions(objective="mle"),
        "emo": SystemOptions(objective="emo"),
    }
    """What to train and compare, by name."""

    @model_validator(mode="before")
    @classmethod
    def _has_one_template(cls, content: Any) -> Any:
        """TRL's `train.chat_template_path` is `data.chat_template`, which answers use, too."""
        train = content.get("train") if isinstance(content, dict) else None
        if not isinstance(train, dict) or "chat_template_path" not in train:
            return content
        data, path = content.get("data") or {}, train["chat_template_path"]
        if data.get("chat_template") not in (None, path):
            raise ValueError("train.chat_template_path and data.chat_template are the same; remove the first")
        rest = {key: value for key, value in train.items() if key != "chat_template_path"}
        return {**content, "train": rest, "data": {**data, "chat_template": path}}

    @model_validator(mode="after")
    def _scratch_trains_all(self) -> Self:
        if self.from_scratch and (self.lora or self.model.quantization):
            raise ValueError("from_scratch: random weights have to be trained; set lora to null, without quantization")
        return self

    def computing_in(self, dtype: str) -> Self:
        """The same with a model that computes in `dtype`."""
        return self.model_copy(update={"model": self.model.model_copy(update={"dtype": dtype})})

    def trained_with(self, name: str) -> dict[str, Any]:
        """The options that the training of a system is made with, by section."""
        content = self.made_with()
        no_result = TRAIN_KEYS.no_result | (set() if self.data.evaluates else _SAVING_STEPS)
        train = {key: value for key, value in content.get("train", {}).items() if key not in no_result}
        options = {key: value for key, value in content.items() if key in ("model", "data", "lora", "from_scratch")}
        return options | {"train": train, "systems": {name: self.systems[name].made_with()}}

    @property
    def trained(self) -> dict[str, SystemOptions]:
        """The systems that are trained here: all but the untrained base (`objective: none`) and adapters."""
        return {name: system for name, system in self.systems.items() if system.objective != "none"}

    def first_trained(self) -> SystemOptions:
        """The first system that is trained; the others need the same memory and time.

        Raises:
            InputError: there is none.
        """
        for system in self.trained.values():
            return system
        raise InputError(
            f"config {self.name}: no system to train, because each has the objective none; add one under systems, or "
            "answer with the base alone: instruct generate CONFIG.yaml"
        )


def trained_elsewhere(systems: Mapping[str, SystemOptions]) -> dict[str, str]:
    """The systems that were trained elsewhere, with where their weights are.

    Raises:
        InputError: one was given several adapters after the config was made, which names it once for each.
    """
    sources = {name: system.adapter for name, system in systems.items() if system.adapter}
    for name, adapters in sources.items():
        if len(adapters) > 1:
            raise InputError(
                f"system {name}: has {len(adapters)} adapters and is one training; give them to make_config, or "
                "one to each of several systems"
            )
    return {name: adapters[0] for name, adapters in sources.items()}
