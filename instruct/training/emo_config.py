"""EMOConfig: SFTConfig plus the choice of an objective and of a transport cost."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch
from accelerate.parallelism_config import ParallelismConfig
from trl import SFTConfig

from instruct.base.cards import nearest
from instruct.base.errors import InputError, one_line
from instruct.base.machine import check_gpu_is_usable
from instruct.base.models import has_bfloat16_instructions
from instruct.data.bad_rows import ON_BAD_ROW
from instruct.data.formats import TRAIN_ON
from instruct.data.token_weights import check_prompt_weight
from instruct.objectives import Objective
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.make import make_objective, name_of
from instruct.objectives.objective import LogitLoss, made_up_tokens
from instruct.training.objective_names import is_own

LOWER_IS_BETTER = re.compile(r"(.*_)?(ce|perplexity|loss)")  # also of one of several evaluation sets: eval_NAME_ce
COMPARING = ("reduce_lr_on_plateau", "greedy")  # learning rate schedules that follow a metric
# Arguments of SFTConfig of which only these values are taken.
REFUSED: dict[str, tuple[Any, str]] = {
    "label_smoothing_factor": (0.0, "cannot be combined with a token-level objective; set it to 0"),
    "loss_type": ("nll", "would select another loss; drop it and set `objective` (dft is one)"),
    "truncation_mode": ("keep_start", "would train answers without the start of their prompts; drop it"),
    "ignore_data_skip": (False, "would train a resumed training's first rows twice; drop it"),
    "label_names": (None, "names columns that are not the labels; drop it"),
    "resume_from_checkpoint": (None, "is not read; call trainer.train(resume_from_checkpoint=...)"),
}


@dataclass
class EMOConfig(SFTConfig):
    r"""
    Configuration of [`EMOTrainer`]. Every argument of [`~trl.SFTConfig`] keeps its meaning and its default, except that
    `use_cpu` is True on a machine without a GPU, that chats are masked (`train_on`, instead of `assistant_only_loss`),
    and that the best checkpoint is the one with the lowest `eval_ce`.

    Parameters:
        train_on (`str`, *optional*, defaults to `"assistant_turns"`):
            The tokens that the loss covers in a chat (`messages`, or a conversational prompt and completion):

            - `"assistant_turns"`: every assistant turn (of a completion: those in it) with its end token, nothing else.
              The turns are found by rendering the chat template turn by turn, so that it needs no `{% generation %}`
              markers; a template that renders the past differently for each answer gets several rows of a chat.
            - `"last_turn"`: the last assistant turn with its end token.
            - `"all_tokens"`: everything, system and user turns included; of prompt-completion rows, too.
        prompt_loss_weight (`float`, *optional*, defaults to `0.0`):
            The weight of the tokens before answers in the loss, in which an answer's tokens have 1: 0 trains answers
            alone. A `weight` of the row multiplies both. Rows of TRL's plain prompt-completion format and masks of TRL
            refuse it.
        on_bad_row (`str`, *optional*):
            What a chat does that the template rejects: `"stop"` or `"skip"`. Without a choice it is left out with a
            warning, unless more than a tenth of the chats are rejected.
        empty_thinking (`str`, *optional*):
            `"train"`: train answers without thinking after the prompt that asks for thinking, instead of turning it
            off.
        assistant_only_loss (`bool`, *optional*):
            TRL's own mask for chats, instead of `train_on`. `True`: the part that the template's `{% generation %}`
            markers name. `False`: all tokens.
        objective (`str`, *optional*, defaults to `"emo"`):
            What is optimized on the response tokens: `"mle"`, `"emo"`, `"energy"` (a proper relative of
            EMO), `"mixce"`, `"tailr"`, `"dft"` (dynamic fine-tuning), `"ent"` (error-norm truncation), `"focal"`,
            `"power"` (-p^k), `"deft"`, `"eaft"`, `"eaft_top"` (of the 20 likeliest tokens), `"label_smoothing"`,
            `"gem"`, or, beside the model under an adapter, `"asft"`. See [`~instruct.objectives`]. Or your own:
            a function `(logits, labels) -> losses`, a class or an object (docs/objectives.md, "Write your own"), or
            the name of one, `"my_loss.py:my_loss"` or `"package.module:my_loss"`.
        objective_args (`dict`, *optional*):
            The arguments of the objective, such as `{"variant": "paper"}` for `"emo"` (Eq. 18 in place of the
            authors' instruction-tuning code). See [`~instruct.objectives`].
        transport_cost (`str`, *optional*, defaults to `"fixed"`):
            The cost of moving probability between two tokens, for `"emo"`; the table of embeddings for `"energy"`:

            - `"fixed"`: 1 - cosine of the rows of the head that the trainer was constructed with. No extra memory if
              the head is frozen or PEFT keeps the original next to the trained one; otherwise one copy. Checkpoints
              do not contain the copy: to resume, construct the trainer with the model that training began with, not
              with a checkpoint of it.
            - a path: 1 - cosine of a table's rows, of any width, for the same vocabulary: `FILE.safetensors`,
              `FILE.safetensors:NAME`, or a model's folder. See [`~instruct.objectives.load_cost_table`].
        chunk_rows (`int`, *optional*):
            Tokens whose logits are in memory at a time, at most. `None`: on a GPU 1,024, or 2,048 if the head trains;
            256 on a CPU. Fewer need less memory and more time.
        patience (`int`, *optional*):
            Stop when this many evaluations in a row have not improved `metric_for_best_model`.
        metric_for_best_model (`str`, *optional*, defaults to `"eval_ce"`):
            What `load_best_model_at_end` and `patience` compare, lower being better for `eval_ce` and
            `eval_perplexity`. `eval_loss` is refused unless the objective's value is cross-entropy, as that of
            `"mle"` and of `"emo"` by default: others do not say how well a model predicts.
        bf16 (`bool`, *optional*):
            As in TRL, but if it is not set on a CPU: whether a product in bfloat16 is measured to be faster than one in
            float32. Without AVX-512 it is some hundred times slower.
    """

    train_on: str = field(default="assistant_turns", metadata={"help": ", ".join(TRAIN_ON)})
    prompt_loss_weight: float = field(default=0.0, metadata={"help": "weight of the tokens before answers"})
    on_bad_row: str | None = field(default=None, metadata={"help": ", ".join(ON_BAD_ROW)})
    empty_thinking: str | None = field(default=None, metadata={"help": "train"})
    assistant_only_loss: bool | None = field(default=None, metadata={"help": "TRL's own mask for chats"})
    objective: str = field(default="emo", metadata={"help": ", ".join(OBJECTIVES)})
    objective_args: dict[str, Any] | None = field(default=None, metadata={"help": "arguments of the objective"})
    transport_cost: str = field(default="fixed", metadata={"help": "fixed, or a table's path"})
    chunk_rows: int | None = field(default=None, metadata={"help": "tokens whose logits are in memory at a time"})
    patience: int | None = field(default=None, metadata={"help": "evaluations without improvement before stopping"})

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Raises:
        TypeError: an unknown argument; the message has the nearest ones.
        """
        known = {field.name for field in fields(cls) if field.init}
        for name in named.keys() - known:
            raise TypeError(f"{cls.__name__} has no argument {name}{nearest(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Raises:
        ValueError: what the objective would be ignored or wrong with; the message has the remedy.
        """
        # The configuration is logged as JSON, so that an objective that is no name is kept beside its name. One that is
        # named is kept, too, when it is first made, so that its code runs once.
        self._object: Any = None
        if not isinstance(self.objective, str):
            self._object = make_objective(self.objective, self.objective_args)
            self.objective = name_of(self.objective)
        named = "ACCELERATE_TORCH_DEVICE" in os.environ
        if not (self.use_cpu or named or torch.accelerator.is_available()):  # type: ignore[has-type]
            check_gpu_is_usable()
            self.use_cpu = True  # otherwise bf16, TRL's default, is refused for want of a GPU
        if self.use_cpu and self.bf16 is None and not self.fp16:  # type: ignore[has-type]
            self.bf16 = has_bfloat16_instructions()
        compares = self.load_best_model_at_end or self.patience is not None or self.lr_scheduler_type in COMPARING
        if self.metric_for_best_model is None and compares:  # type: ignore[has-type]
            self.metric_for_best_model = "eval_ce"  # SFTConfig's is the objective's own value
        metric = self.metric_for_best_model or ""
        if LOWER_IS_BETTER.fullmatch(metric) and self.greater_is_better is None:  # type: ignore[has-type]
            self.greater_is_better = False
        sizes: Any = self.parallelism_config  # type: ignore[has-type]
        if isinstance(sizes, dict):
            try:
                self.parallelism_config = ParallelismConfig(**sizes)
            except TypeError as error:
                raise ValueError(f"parallelism_config: {one_line(error)}") from None
        super().__post_init__()
        objective = self.make_objective()
        for is_so, reason in self._refusals(objective):
            if is_so:
                raise ValueError(reason)
        check_prompt_weight(self.prompt_loss_weight, self.train_on)
        if self.train_on == "all_tokens":
            self.assistant_only_loss = self.completion_only_loss = False

    def _refusals(self, objective: Objective) -> Iterator[tuple[Any, str]]:
        """What cannot be right, each with what is wrong and the remedy."""
        # What of SFTConfig would change or break the objective, or is not read.
        for name, (only, reason) in REFUSED.items():
            yield getattr(self, name) != only, f"{name}={getattr(self, name)!r} {reason}"
        # https://github.com/linkedin/Liger-Kernel: the patched forward computes cross-entropy from the states
        yield (
            self.use_liger_kernel and (self.liger_kernel_config or {}).get("fused_linear_cross_entropy"),
            "Liger's fused_linear_cross_entropy replaces the model's forward and with it the objective; remove it from "
            "liger_kernel_config (Liger's other kernels may stay)",
        )
        # `accelerate launch` writes sizes into the environment, which ParallelismConfig reads
        sizes = self.parallelism_config or ParallelismConfig()
        for kind in ("context", "sequence", "tensor"):
            key = f"{kind[0]}p_size"
            yield (
                getattr(sizes, key) > 1,
                f"{kind} parallelism ({key}={getattr(sizes, key)}) splits rows or the head, which the objective needs "
                f"whole; set {key} to 1 and use FSDP2 or DeepSpeed ZeRO-3 (dp_shard_size) instead",
            )
        yield (
            self.activation_offloading and not torch.accelerator.is_available(),
            "activation_offloading needs a GPU, and this machine has none; set it to False",
        )
        yield (
            self.world_size > 1 and not self.average_tokens_across_devices,
            "average_tokens_across_devices=False would weight tokens differently on each process; drop it",
        )
        yield (
            self.device.type == "mps",
            "Apple's GPU (mps) has no float64, in which the statistics are summed; set use_cpu=True",
        )
        for name, choices in {"train_on": TRAIN_ON, "on_bad_row": ON_BAD_ROW, "empty_thinking": ("train",)}.items():
            value = getattr(self, name)
            yield (
                value not in (type(self).__dataclass_fields__[name].default, *choices),
                f"unknown {name} {value!r}; use {', '.join(choices)}",
            )
        for name in ("assistant_only_loss", "completion_only_loss"):
            flag = getattr(self, name)
            yield (
                self.train_on == "all_tokens" and flag,
                f"{name}=True contradicts train_on='all_tokens'; drop one of them",
            )
            yield (
                self.prompt_loss_weight and flag is not None,
                f"prompt_loss_weight needs the mask of train_on; drop {name}",
            )
        yield (
            self.train_on == "last_turn" and self.assistant_only_loss is not None,
            "assistant_only_loss replaces train_on='last_turn'; drop one of them",
        )
        metric = self.metric_for_best_model
        yield (
            metric and re.fullmatch("(.*_)?loss", metric) and not is_cross_entropy(objective),
            f"metric_for_best_model {metric!r} is the value of the objective {self.objective}, which does not say how "
            "well a model predicts; use eval_ce",
        )
        yield (
            self.patience is not None and (self.patience < 1 or self.eval_strategy == "no"),
            f"patience is {self.patience}; it must be at least 1, with eval_strategy steps or epoch",
        )
        yield self.max_steps == 0, "max_steps is 0; give a number of steps, or leave it out to train num_train_epochs"
        yield (
            self.chunk_rows is not None and self.chunk_rows < 1,
            f"chunk_rows is {self.chunk_rows}; it must be at least 1",
        )
        file = self.transport_cost.partition(".safetensors:")
        yield (
            self.transport_cost != "fixed" and not Path(file[0] + (file[1] and ".safetensors")).exists(),
            f"transport_cost {self.transport_cost!r}: no such file or folder; use fixed, or the path of a .safetensors "
            "table or of a model's folder",
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the object, whose class may be one that cannot be pickled; checkpoints hold the configuration."""
        return {**self.__dict__, "_object": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> EMOConfig:
        copied = copy.copy(self)
        copied.__dict__ = {**copy.deepcopy(self.__getstate__(), memo), "_object": self._object}
        return copied

    def make_objective(self) -> Objective:
        """The objective that the arguments name.

        Raises:
            ValueError: an unknown name, or a value out of range.
            InputError: an own objective that cannot be loaded or trained with.
        """
        if self._object is None and is_own(self.objective):
            self._object = make_objective(self.objective, self.objective_args)
        if self._object is not None:
            return self._object
        if self.objective not in OBJECTIVES:
            raise ValueError(f"unknown objective {self.objective!r}; use {', '.join(OBJECTIVES)}, or FILE.py:NAME")
        try:
            return make_objective(self.objective, self.objective_args)
        except TypeError as error:
            raise ValueError(f"objective {self.objective}: {one_line(error)}; correct objective_args") from None


def objective_of(name: str, arguments: Mapping[str, Any]) -> Objective:
    """An objective by its name, made with its arguments.

    Raises:
        InputError: an unknown name or argument, or an own objective that cannot be loaded or trained with.
    """
    named = dict(arguments)
    try:
        return EMOConfig(objective=name, objective_args=named, report_to=[], use_cpu=True, bf16=False).make_objective()
    except (TypeError, ValueError) as error:
        raise InputError(f"objective {one_line(name, 60)}: {one_line(error)}") from None


def is_cross_entropy(objective: Objective) -> bool:
    """Whether an objective's value of a token is the token's cross-entropy."""
    if isinstance(objective, LogitLoss):
        return False
    token = made_up_tokens(objective)
    return torch.allclose(objective.weigh(token).value, token.ce)
