"""Refusals when the trainer is constructed: rows and models that an objective on hidden states cannot train."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Collection
from typing import Any

import torch
from peft.tuners.tuners_utils import _check_lora_target_modules_mamba
from peft.utils.other import TrainableTokensWrapper
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast
from trl import SFTConfig

from instruct.base.errors import InputError, one_line
from instruct.base.networks import backbone_of
from instruct.base.output import warn
from instruct.training.frozen import check_base, gathered
from instruct.training.head import DIVISORS, MULTIPLIERS, SOFTCAPS, evaluating, head_of, output_head, replaced_forward
from instruct.training.precision import check_trained_weights
from instruct.training.processes import from_main
from instruct.training.trained import ALL_LINEAR, reached_by_text

_PICTURES = {"image", "images", "video", "videos", "pixel_values"}  # columns
_PROBE = 16  # tokens of each of the rows that are packed to see whether a model keeps them apart


@torch.no_grad()
def leave_layers_out(peft_config: Any, network: Any, columns: Collection[str] = ()) -> list[str]:
    """Take the layers out of `all-linear` that text does not reach, and those that PEFT has no adapter for.

    Mamba's `out_proj` is computed inside a kernel; Llama 4's routers are linear layers that return two tensors.

    Args:
        peft_config: changed in place; None: no adapter.
        network: that gets the adapter, with or without its weights.
        columns: of the training rows; with pictures, the layers that see get adapters, too.

    Returns:
        A line for each reason, with the names of those layers.
    """
    if getattr(peft_config, "target_modules", None) != ALL_LINEAR or peft_config.exclude_modules:
        return []
    linear = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    refused: set[str] = set()
    for name, module in linear.items():
        if type(module).forward is nn.Linear.forward or not type(module).__module__.startswith("transformers.models."):
            continue
        try:  # it has a forward of its own, which may have the usual outcome (Falcon)
            returned: Any = module(module.weight.new_zeros(1, module.in_features))
        except RuntimeError:  # DeepSeek V4's takes groups of states
            returned = None
        if not isinstance(returned, torch.Tensor):
            refused.add(name.rpartition(".")[2])
    for name in ("out_proj", "conv1d"):
        try:
            _check_lora_target_modules_mamba(peft_config, network, name)
        except ValueError:
            refused.add(name)
    unseen: set[str] = set()
    if _PICTURES.isdisjoint(columns):
        reached = reached_by_text(network)
        unseen = {".".join(name.split(".")[:2]) for name, module in linear.items() if id(module) not in reached}
    patterns = [rf"(.*\.)?{re.escape(name)}" for name in sorted(refused)]
    patterns += [rf"{re.escape(name)}(\..*)?" for name in sorted(unseen)]
    peft_config.exclude_modules = "|".join(patterns) or None
    reasons = ((refused, "PEFT has no adapter for them"), (unseen, "the rows have no pictures"))
    of = network.config.model_type
    return [f"LoRA: {' and '.join(sorted(names))} of {of} stay frozen: {reason}" for names, reason in reasons if names]


def check_model(trainer: Any, head: nn.Module, narrow: torch.dtype | None) -> bool:
    """Refuse a trainer whose model the objective would be ignored by, or wrong on.

    Args:
        trainer: an EMOTrainer after TRL's constructor, before anything wraps its model.
        narrow: the dtype of autocast.

    Returns:
        Whether the head takes other states than the backbone's, see `check_logits`.

    Raises:
        ValueError, InputError: it is refused; the message has the remedy.
    """
    model, args, fsdp = trainer.model, trainer.args, trainer.is_fsdp_enabled
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    sharded = fsdp or trainer.is_deepspeed_enabled
    has_reference = bool(getattr(args.make_objective(), "reference", None))
    check_trained_weights(model, args, sharded, fsdp)
    inside = check_logits(base, loaded_on_main_only=fsdp)
    for is_so, reason in (
        # TRL calls it with logits, which are not computed here
        (
            trainer.compute_loss_func is not None,
            "compute_loss_func would replace the objective; drop it and give `objective` a function (logits, labels) "
            "-> losses, or use SFTTrainer",
        ),
        # https://huggingface.co/docs/peft/package_reference/trainable_tokens: this wrapper has no layer of its own, in
        # whose forward FSDP and ZeRO-3 would gather the weights
        (
            sharded and isinstance(head, TrainableTokensWrapper),
            "trainable_token_indices does not work with FSDP or DeepSpeed; use DDP, or train the whole head "
            "(modules_to_save=['lm_head'])",
        ),
        (
            has_reference and inside,
            f"{type(base).__name__}: an objective with a reference does not read the layers between its backbone and "
            "its head; choose another objective or model",
        ),
    ):
        if is_so:
            raise ValueError(reason)
    if has_reference:
        check_base(model, sharded)
    if not trainer._is_vision_dataset and not sharded:
        check_causal(base)
    if args.padding_free or (args.packing and args.packing_strategy != "wrapped"):
        check_packing(base, trainer.data_collator, narrow, loaded_on_main_only=fsdp)
    return inside


def check_datasets(dataset: Any, evaluation: Any, args: SFTConfig) -> None:
    """Refuse rows that give no step; the Trainer would end in an error about its sampler, or in none.

    Args:
        dataset: that is trained on.
        evaluation: that is evaluated on; several by name.

    Raises:
        ValueError: no data set of `datasets`, no rows, or fewer than a batch of which the last is dropped.
    """
    parts = evaluation.values() if isinstance(evaluation, dict) else [evaluation]
    for name, given in (("train_dataset", dataset), *(("eval_dataset", part) for part in parts)):
        if isinstance(given, list | tuple):
            raise ValueError(f"{name} is a list; give datasets.Dataset.from_list(rows)")
    if not hasattr(dataset, "__len__"):
        return
    batch = args.per_device_train_batch_size * args.world_size
    if not len(dataset):
        raise ValueError("train_dataset has no rows; check where they come from")
    if args.dataloader_drop_last and len(dataset) < batch and not args.packing:
        raise ValueError(
            f"train_dataset has {len(dataset)} rows, fewer than a batch of {batch}, and dataloader_drop_last drops "
            "them all; lower per_device_train_batch_size, or leave dataloader_drop_last out"
        )


@torch.no_grad()
def check_packing(
    model: Any, collator: Any, narrow: torch.dtype | None = None, loaded_on_main_only: bool = False
) -> None:
    """Refuse to pack rows for a model whose layers do not keep them apart.

    The second of two packed rows has to have the same logits whatever the first one says. Layers that carry a state
    from token to token (Mamba, Gated DeltaNet, short convolutions), and attention that does not read position ids, let
    the rows of a batch see each other, and their losses fall for nothing.

    Args:
        model: the causal language model, unwrapped.
        collator: the trainer's, which packs a batch's rows.
        narrow: the dtype that training computes in, if the weights have another.
        loaded_on_main_only: as in `check_logits`.

    Raises:
        InputError: the logits differ.
    """

    def leak() -> str | None:
        if _is_sharded(model):
            return None  # no forward is computed before training
        vocabulary, device = model.config.get_text_config().vocab_size, model.get_input_embeddings().weight.device
        logits = []
        try:
            for first in (3, 5):
                rows = [[factor * place % vocabulary for place in range(1, _PROBE + 1)] for factor in (first, 7)]
                batch = collator([{"input_ids": ids, "labels": ids} for ids in rows])
                tensors = {name: value.to(device) for name, value in batch.items() if isinstance(value, torch.Tensor)}
                tensors.pop("labels")
                if tensors["input_ids"].numel() != 2 * _PROBE or len(tensors["input_ids"]) != 1:
                    return None  # this collator packs nothing
                autocast = torch.autocast(device.type, narrow) if narrow else contextlib.nullcontext()
                with evaluating(model), autocast:
                    logits.append(model(**tensors, use_cache=False).logits[0, _PROBE:].float())
        except (RuntimeError, NotImplementedError) as error:  # a kernel that runs on a GPU alone
            warn(f"{type(model).__name__}: whether packed rows stay apart could not be tried ({one_line(error, 100)})")
            return None
        # Rows of equal length take the same sums; only experts, who get other tokens of the first row, sum otherwise.
        moved, largest = float((logits[0] - logits[1]).abs().max()), float(logits[0].abs().max())
        if moved <= 4 * torch.finfo(narrow or model.dtype).eps * largest:
            return None
        return (
            f"{type(model).__name__} does not keep packed rows apart: a row's logits change by {moved:.2g} with the "
            "row before it; set packing and padding_free to false"
        )

    problem = from_main(leak) if loaded_on_main_only else leak()
    if problem:
        raise InputError(problem)


TOKENS = 8
# Larger than any softcap in use, so that a missing one shows.
LARGEST_LOGIT = 60.0


def check_logits(model: PreTrainedModel, loaded_on_main_only: bool = False) -> bool:
    """Refuse a model whose logits are not `softcap(scale * (states @ head.T + bias))` as far as they are read here.

    The states are the backbone's, or, where more layers lie between it and the head (BERT), those that the head gets.

    The model's own forward is called with eight tokens and, in place of its backbone, a function that returns random
    states: this takes as long as eight rows of the head's product, and works with any sharding (ZeRO-3's head is
    gathered; FSDP may have loaded the main process alone, which then decides). Only if the forward does not call the
    backbone with these tokens does the backbone run, twice, if its weights are all here.

    Args:
        model: the causal language model, unwrapped (not a PeftModel), before FSDP or DeepSpeed wraps it.
        loaded_on_main_only: whether other processes may hold empty weights (FSDP). All of them have to call this.

    Returns:
        Whether the states are not the backbone's.

    Raises:
        InputError: they differ; the message names the modules and the config's keys that may be the reason.
    """

    @torch.no_grad()
    def compared() -> tuple[str | None, bool]:
        problem = difference(model)
        if problem is None or _is_sharded(model):
            return problem, False
        found: list[Tensor] = []  # the states that the model's own forward gives its head
        head = output_head(model)
        hook = head.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
        with evaluating(model):
            theirs = _logits(model, _tokens(model, head.weight))
        hook.remove()
        inside = theirs is not None and len(found) == 1 and _agree(model, found[0], theirs)
        return None if inside else problem, inside

    problem, inside = from_main(compared) if loaded_on_main_only else compared()
    if problem is not None:
        raise InputError(problem)
    return inside


@torch.no_grad()
def check_causal(model: PreTrainedModel) -> None:
    """Refuse a model that sees the tokens which it is trained to predict: its loss would fall for nothing.

    The encoders of BERT's family do unless their config says is_decoder, and PaliGemma does without pictures. Eight
    tokens are computed twice, of which the last differs.

    Args:
        model: as in `check_logits`, whose weights are here.

    Raises:
        InputError: logits change with a token after them.
    """
    tokens = _tokens(model, model.get_input_embeddings().weight).repeat(2, 1)
    tokens[1, -1] = tokens[0, 0]
    with evaluating(model):
        logits = _logits(model, tokens)
    if logits is None:
        return
    moved, largest = float((logits[0] - logits[1])[:-1].abs().max()), float(logits.abs().max())
    if moved > max(1e-3, 4 * torch.finfo(model.dtype).eps) * largest:
        raise InputError(
            f"{type(model).__name__}: its logits change by {moved:.2g} with the tokens after them, which it would be "
            "trained to read off; set is_decoder in its config if it has that, or use another model"
        )


@torch.no_grad()
def difference(model: PreTrainedModel) -> str | None:
    """The refusal, or None if the logits agree."""
    name = type(model).__name__
    if backbone_of(model) is model:
        return (
            f"{name}: its backbone is not where base_model_prefix ({model.base_model_prefix!r}) says; use another model"
        )
    with evaluating(model):
        agreed = _agree_on_states(model)
        tokens = _tokens(model, model.get_input_embeddings().weight)
        if agreed is None and not _is_sharded(model) and (theirs := _logits(model, tokens)) is not None:
            output = backbone_of(model)(input_ids=tokens, use_cache=False)
            states = getattr(output, "last_hidden_state", None)
            agreed = states is not None and _agree(model, states, theirs)
    if agreed is None:
        warnings.warn(f"{name}: its logits could not be compared with those of the objective", stacklevel=2)
    if agreed is not False:
        return None
    inside = {id(module) for part in (output_head(model), backbone_of(model)) for module in part.modules()}
    reasons = []  # the modules and the config's keys that may change the logits
    for module_name, module in model.named_modules():
        if id(module) not in inside and any(True for _ in module.parameters(recurse=False)):
            reasons.append(module_name)
    for key, value in model.config.get_text_config().to_dict().items():
        read = key in (*MULTIPLIERS, *DIVISORS, *SOFTCAPS)
        if re.search("logit|soft_?cap", key) and not read and type(value) in (int, float):
            reasons.append(f"config.{key}={value}")
    also = f"it also applies {', '.join(reasons)}" if reasons else "its forward applies something else"
    return (
        f"{name}: its own forward computes other logits than its head's product; {also}, which the objective does not "
        "read; use another model"
    )


def _agree_on_states(model: PreTrainedModel) -> bool | None:
    """Whether both make the same logits of random states; None if the forward does not call the backbone as we do."""
    head, backbone = output_head(model), backbone_of(model)
    with contextlib.ExitStack() as whole:  # the head and all other modules outside of the backbone, under ZeRO-3
        for module in {head, *model.children()} - {backbone}:
            whole.enter_context(gathered(module))
        weight = head.weight
        width = weight.shape[1]
        if getattr(model.config.get_text_config(), "hidden_size", width) != width:
            return False
        states = torch.randn(1, TOKENS, width, generator=torch.Generator().manual_seed(0)).to(weight)
        states *= LARGEST_LOGIT / (head_of(model).logit_scale * (states @ weight.T)).abs().max()
        tokens = _tokens(model, weight)
        called_with: list[Any] = []

        def stand_in(*args: Any, **kwargs: Any) -> _States:
            called_with.append(args[0] if args else kwargs.get("input_ids"))
            return _States(last_hidden_state=states)

        with replaced_forward([backbone], stand_in):
            theirs = _logits(model, tokens)
        called = len(called_with) == 1 and isinstance(called_with[0], Tensor) and torch.equal(called_with[0], tokens)
        if theirs is None or not called:
            return None
        return _agree(model, states, theirs)


class _States(BaseModelOutputWithPast):
    """A backbone's output with states alone: whatever else a model looks for in it is None."""

    def __getattr__(self, name: str) -> None:
        return None


def _logits(model: PreTrainedModel, tokens: Tensor) -> Tensor | None:
    try:
        return model(input_ids=tokens, use_cache=False).logits
    except Exception:  # some need images, audio or a mask, each in its own words
        return None


def _tokens(model: PreTrainedModel, weight: Tensor) -> Tensor:
    """Neither the first ids, which are special, nor the last, which stand for images; where the weight is."""
    return (torch.arange(TOKENS, device=weight.device)[None] + 10) % model.config.get_text_config().vocab_size


def _is_sharded(model: Any) -> bool:
    """Whether a part of the weights is elsewhere."""
    return any(weight.is_meta or hasattr(weight, "ds_id") for weight in model.parameters())


def _agree(model: PreTrainedModel, states: Tensor, theirs: Tensor) -> bool:
    """Whether the objective makes the same logits of some states."""
    head = head_of(model)
    ours = head.cap_(states.to(head.weight) @ head.weight.T)
    if ours.shape != theirs.shape:
        return False
    tolerance = max(1e-3, 4 * torch.finfo(ours.dtype).eps) * theirs.abs().max()
    return bool((ours.to(theirs) - theirs).abs().max() <= tolerance)
