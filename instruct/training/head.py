"""Computing an objective inside the model's own forward, so that DDP's hooks and FSDP's gathers apply to it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft.utils.other import TrainableTokensWrapper
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from instruct.base.errors import InputError
from instruct.base.networks import backbone_of
from instruct.objectives import CosineCost, EnergyTable, Objective, ObjectiveStatistics
from instruct.objectives.linear import linear_objective_loss
from instruct.objectives.torch_kernels import Head, Reference
from instruct.training.batches import HostLabels

# The keys of a config that say what a model's forward does to the head's product.
MULTIPLIERS = ("logit_scale", "output_multiplier", "lm_head_multiplier")
DIVISORS = ("logits_scaling", "logits_mup_width_multiplier")  # HyperCLOVA X multiplies by logits_scaling
SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")

# Of the model that trains and what its forward takes, the reference.
ReferenceFor = Callable[..., Reference]


@dataclass
class ObjectiveOutput(ModelOutput):
    """`loss`: float32 scalar; `statistics`: sums over this batch's response tokens; `aux_loss`: of MoE models."""

    loss: torch.Tensor | None = None
    statistics: ObjectiveStatistics | None = None
    aux_loss: torch.Tensor | None = None


def output_head(model: PreTrainedModel) -> nn.Module:
    """The linear layer from hidden states to the vocabulary.

    PEFT may have wrapped it for `modules_to_save` or `trainable_token_indices`: the `weight` of the wrapper is the
    trained one.

    Raises:
        InputError: the model has no head, is an encoder-decoder, or its head has an adapter or is quantized.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise InputError(f"{name} is an encoder-decoder; name a causal language model (AutoModelForCausalLM)")
    head = model.get_output_embeddings()
    if isinstance(head, BaseTunerLayer):
        raise InputError(
            "an adapter on lm_head would never be trained: remove lm_head from its targets, or train the whole head "
            "(modules_to_save=['lm_head'])"
        )
    if head is None or not hasattr(head, "weight"):
        raise InputError(
            f"{name} has no lm_head to compute the objective from; name a causal language model (AutoModelForCausalLM)"
        )
    if not head.weight.is_floating_point():
        raise InputError(
            f"{name} has a quantized lm_head ({type(head).__name__}, {head.weight.dtype}): exclude it from "
            "quantization (BitsAndBytesConfig(llm_int8_skip_modules=['lm_head']))"
        )
    return head


def head_of(model: Any) -> Head:
    """The head, with what the model's forward does to its product by the config: a factor, and then a softcap.

    Cohere multiplies by logit_scale, Granite divides by logits_scaling, Gemma 2 has final_logit_softcapping. What the
    forward does not read does not count: Aya Vision's ignores the logit_scale of its text model, which is Cohere's.
    """
    layer, config = model.get_output_embeddings(), model.config.get_text_config()
    kind: Any = type(model)
    names = _names_in_forward(kind)
    multipliers, divisors, softcaps = (
        [key for key in keys if key in names] for keys in (MULTIPLIERS, DIVISORS, SOFTCAPS)
    )
    factor, divisor = _first_number(multipliers, config), _first_number(divisors, config)
    if factor is None and divisor is not None:
        factor = divisor if config.model_type == "hyperclovax" else 1 / divisor
    bias = getattr(layer, "bias", None)
    return Head(layer.weight, bias, 1.0 if factor is None else factor, _first_number(softcaps, config))


@functools.cache
def _names_in_forward(kind: type) -> frozenset[str]:
    """The attributes and the texts in the forward of a class and of those that it is made from."""
    names: set[str] = set()
    for owner in kind.__mro__:
        if code := getattr(inspect.unwrap(vars(owner).get("forward", len)), "__code__", None):
            names |= {*code.co_names, *(constant for constant in code.co_consts if isinstance(constant, str))}
    return frozenset(names)


def _first_number(names: Sequence[str], *owners: Any) -> float | None:
    """The first attribute of these names that an owner has, in the owners' order."""
    values = (getattr(owner, name, None) for owner in owners for name in names)
    return next((float(value) for value in values if value is not None), None)


def attach_objective(
    model: PreTrainedModel,
    objective: Objective,
    cost: CosineCost | EnergyTable | None,
    chunk_rows: int | None = None,
    reference_for: ReferenceFor | None = None,
    inside: bool = False,
) -> None:
    """Extend the model's forward to return the objective's loss: `model(..., labels=labels, objective_loss=True)`.

    Without `objective_loss` the forward is that of the model's class, and generation is unchanged. It, the head and the
    backbone are looked up at each call, because PEFT and FSDP replace them and a deep copy of the model has others.
    Only response tokens reach the head.

    Args:
        model: the causal language model, unwrapped (not a PeftModel).
        cost: as in `linear_objective_loss`.
        chunk_rows: as in `linear_objective_loss`.
        reference_for: what gives a batch's reference, for an objective that takes one.
        inside: the head takes other states than the backbone's, as `check_logits` says: the model's own forward is run
            around it.
    """
    output_head(model)

    @functools.wraps(type(model).forward)
    def forward(
        self: Any,
        *args: Any,
        objective_loss: bool = False,
        labels: Any = None,
        num_items: Any = None,
        host_labels: HostLabels | None = None,
        token_weights: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        if not objective_loss:
            if labels is not None:
                kwargs["labels"] = labels
            return class_forward(self, *args, **kwargs)
        reference = None if reference_for is None else reference_for(self, *args, **kwargs)
        head, aux_loss = self.get_output_embeddings(), None
        if not inside:
            backbone = backbone_of(self)
            if backbone is not self.base_model and "pixel_values" in kwargs:
                raise InputError(
                    f"{type(self).__name__}: its language model is trained on text alone; leave the images out"
                )
            backbone_output = backbone(*args, **kwargs)
            aux_loss = router_loss(self, backbone_output, kwargs)

        # Nothing in here makes the host wait for the GPU, which would be idle between forward and backward.
        def objective_of(states: torch.Tensor) -> tuple[torch.Tensor, ObjectiveStatistics]:
            whole = head_of(self)  # its weight is read once: PEFT's wrappers compute it at each access
            states = states.to(whole.weight.device)
            kind = states.device.type
            if torch.is_autocast_enabled(kind):
                # As autocast would for the head's own product; the residual stream may be in float32.
                states = states.to(torch.get_autocast_dtype(kind))
            # PEFT's prompt learning puts labels without loss before those of the collator.
            on_host = host_labels if host_labels is not None and host_labels.labels.shape == labels.shape else None
            own_labels = labels if on_host is None else on_host.labels
            targets = functional.pad(own_labels[:, 1:], (0, 1), value=-100)
            weights = None
            if token_weights is not None:  # the same
                put_before = labels.shape[1] - token_weights.shape[1]
                weights = functional.pad(token_weights, (put_before, 0), value=1)
                weights = functional.pad(weights[:, 1:], (0, 1), value=1).flatten()
            return linear_objective_loss(
                states.flatten(0, 1),
                whole.weight,
                targets.flatten(),
                objective,
                cost,
                whole.bias,
                whole.logit_scale,
                whole.softcap,
                num_items=num_items,
                chunk_rows=chunk_rows,
                reference=None if reference is None else reference.on_device(states),
                token_weights=weights,
            )

        if inside:
            loss, statistics = call_inside(head, objective_of, class_forward, self, *args, **kwargs)
        else:
            loss, statistics = call_as_forward(head, objective_of, backbone_output.last_hidden_state)
        return ObjectiveOutput(loss=loss, statistics=statistics, aux_loss=aux_loss)

    model.forward = types.MethodType(forward, model)


def class_forward(model: Any, *args: Any, **kwargs: Any) -> Any:
    """The forward of a model's class, in accelerate's hook for `device_map`.

    TRL replaces the instance's forward by one that calls the model which it was made for, also in a copy.
    """
    hook = getattr(model, "_hf_hook", None)
    if hook is None:
        return type(model).forward(model, *args, **kwargs)
    args, kwargs = hook.pre_forward(model, *args, **kwargs)
    return hook.post_forward(model, type(model).forward(model, *args, **kwargs))


@torch.compiler.disable  # its shapes depend on the number of response tokens: it would recompile for every batch
def call_as_forward(head: nn.Module, function: Callable[[torch.Tensor], Any], states: torch.Tensor) -> Any:
    """`function(states)`, called in place of the forward of the head's own linear layer.

    FSDP and ZeRO-3 gather a head's weight in the hooks around its forward and reduce its gradient in those around its
    backward. Outside of them the weight is only a shard, and its gradient is never reduced.
    """
    if isinstance(head, TrainableTokensWrapper):  # it has no layer of its own; it is refused if sharded
        return function(states)
    with replaced_forward(_layers(head), function):
        return head(states)


@torch.compiler.disable
def call_inside(
    head: nn.Module, function: Callable[[torch.Tensor], Any], forward: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """What `function` returns of the states that a model's own forward gives the head, in whose place it is called."""
    results: list[Any] = []

    def called(states: torch.Tensor) -> torch.Tensor:
        results.append(function(states))
        return states[..., :1]  # logits that nobody reads

    with replaced_forward(_layers(head), called):
        forward(*args, **kwargs)
    (result,) = results
    return result


def _layers(head: nn.Module) -> list[nn.Module]:
    """What computes a head's product; of PEFT's two layers the active one is called."""
    return [module for module in head.modules() if not any(module.children())]


@contextlib.contextmanager
def replaced_forward(modules: Sequence[nn.Module], function: Callable[..., Any]) -> Iterator[None]:
    """Meanwhile, `function` in place of the modules' own forward."""
    replaced = [module.__dict__.get("forward") for module in modules]  # accelerate's hooks for `device_map` are there
    for module in modules:
        module.forward = function
    try:
        yield
    finally:
        for module, own in zip(modules, replaced, strict=True):
            del module.forward
            if own is not None:
                module.forward = own


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Meanwhile the model is in evaluation mode; afterwards each module is in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def router_loss(model: Any, backbone_output: Any, inputs: dict[str, Any]) -> torch.Tensor | None:
    """The load-balancing loss of a mixture-of-experts model, unweighted; None if nothing requests it."""
    in_config = getattr(model.config.get_text_config(), "output_router_logits", False)
    if not inputs.get("output_router_logits", in_config):
        return None
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    experts = _expert_number(model, "num_experts", "num_local_experts")
    logits = getattr(backbone_output, "router_logits", None)
    if not experts or not logits:  # dense models of Granite 4 and Doge
        return None
    chosen = _expert_number(model, "num_experts_per_tok")
    return load_balancing_loss_func(logits, experts, chosen, inputs.get("attention_mask"))


def _expert_number(model: Any, *names: str) -> int:
    """The first of these numbers that the model has, as its own forward would use it, or else its config."""
    number = _first_number(names, model, model.config.get_text_config())
    if number is None:
        raise InputError(
            f"{type(model).__name__}: neither it nor its config has {' or '.join(names)}, which the auxiliary loss of "
            "its router needs; set router_aux_loss_coef to 0.0 to train without it"
        )
    return int(number)
