"""Comparing the logits that the objective is computed from with those of the model's own forward."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from instruct.base.errors import InputError
from instruct.base.networks import backbone_of
from instruct.training.cost import gathered
from instruct.training.head import DIVISORS, MULTIPLIERS, SOFTCAPS, evaluating, head_of, output_head, replaced_forward
from instruct.training.processes import from_main

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

    def compared() -> tuple[str | None, bool]:
        problem = difference(model)
        inside = problem is not None and _agree_inside(model)
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
    tokens = _tokens(model, model.get_input_embeddings().weight.device).repeat(2, 1)
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
        if agreed is None and not any(p.is_meta or hasattr(p, "ds_id") for p in model.parameters()):
            agreed = _agree_on_tokens(model)
    if agreed is None:
        warnings.warn(f"{name}: its logits could not be compared with those of the objective", stacklevel=2)
    if agreed is not False:
        return None
    return (
        f"{name}: its own forward computes other logits than its head's product; {_possible_reason(model)}, which the "
        "objective does not read; use another model"
    )


def _agree_on_states(model: PreTrainedModel) -> bool | None:
    """Whether both make the same logits of random states; None if the forward does not call the backbone as we do."""
    head, backbone = output_head(model), backbone_of(model)
    with gathered_outside(model, backbone):
        weight = head.weight
        width = weight.shape[1]
        if getattr(model.config.get_text_config(), "hidden_size", width) != width:
            return False
        states = torch.randn(1, TOKENS, width, generator=torch.Generator().manual_seed(0)).to(weight)
        states *= LARGEST_LOGIT / (head_of(model).logit_scale * (states @ weight.T)).abs().max()
        tokens = _tokens(model, weight.device)
        called_with: list[Any] = []

        def stand_in(*args: Any, **kwargs: Any) -> _States:
            called_with.append(args[0] if args else kwargs.get("input_ids"))
            return _States(last_hidden_state=states)

        with replaced_forward([backbone], stand_in):
            theirs = _logits(model, tokens)
        called = len(called_with) == 1 and isinstance(called_with[0], Tensor) and torch.equal(called_with[0], tokens)
        if theirs is None or not called:
            return None
        return _same(_our_logits(model, states), theirs)


def _agree_on_tokens(model: PreTrainedModel) -> bool | None:
    """Whether both make the same logits of a few tokens; None if the forward needs more than tokens."""
    tokens = _tokens(model, model.get_input_embeddings().weight.device)
    theirs = _logits(model, tokens)
    if theirs is None:
        return None
    output = backbone_of(model)(input_ids=tokens, use_cache=False)
    states = getattr(output, "last_hidden_state", None)
    return states is not None and _same(_our_logits(model, states), theirs)


@torch.no_grad()
def _agree_inside(model: PreTrainedModel) -> bool:
    """Whether both make the same logits of the states that the model's own forward gives its head."""
    if any(p.is_meta or hasattr(p, "ds_id") for p in model.parameters()):
        return False
    head = output_head(model)
    with evaluating(model):
        found = []
        hook = head.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
        theirs = _logits(model, _tokens(model, head.weight.device))
        hook.remove()
        return theirs is not None and len(found) == 1 and _same(_our_logits(model, found[0]), theirs)


class _States(BaseModelOutputWithPast):
    """A backbone's output with states alone: whatever else a model looks for in it is None."""

    def __getattr__(self, name: str) -> None:
        return None


def _our_logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    head = head_of(model)
    return head.cap_(states.to(head.weight) @ head.weight.T)


def _logits(model: PreTrainedModel, tokens: Tensor) -> Tensor | None:
    try:
        return model(input_ids=tokens, use_cache=False).logits
    except Exception:  # some need images, audio or a mask, each in its own words
        return None


def _tokens(model: PreTrainedModel, device: torch.device) -> Tensor:
    """Neither the first ids, which are special, nor the last, which stand for images."""
    return (torch.arange(TOKENS, device=device)[None] + 10) % model.config.get_text_config().vocab_size


def _same(ours: Tensor, theirs: Tensor) -> bool:
    if ours.shape != theirs.shape:
        return False
    tolerance = max(1e-3, 4 * torch.finfo(ours.dtype).eps) * theirs.abs().max()
    return bool((ours.to(theirs) - theirs).abs().max() <= tolerance)


@contextlib.contextmanager
def gathered_outside(model: PreTrainedModel, backbone: nn.Module) -> Iterator[None]:
    """The head and all other modules outside of the backbone, whole under ZeRO-3."""
    with contextlib.ExitStack() as stack:
        for module in {model.get_output_embeddings(), *model.children()} - {backbone}:
            stack.enter_context(gathered(module))
        yield


def _possible_reason(model: PreTrainedModel) -> str:
    """The modules and the config's keys that may change the logits."""
    head, backbone = output_head(model), backbone_of(model)
    inside = {id(module) for part in (head, backbone) for module in part.modules()}
    modules = [
        name
        for name, module in model.named_modules()
        if id(module) not in inside and any(True for _ in module.parameters(recurse=False))
    ]
    values = model.config.get_text_config().to_dict()
    keys = [
        f"config.{key}={value}"
        for key, value in values.items()
        if re.search("logit|soft_?cap", key)
        and key not in (*MULTIPLIERS, *DIVISORS, *SOFTCAPS)
        and type(value) in (int, float)
    ]
    reasons = [*modules, *keys]
    return f"it also applies {', '.join(reasons)}" if reasons else "its forward applies something else"
