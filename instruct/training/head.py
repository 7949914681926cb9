"""Computing an objective inside the model's own forward, so that DDP's hooks and FSDP's gathers apply to it."""

from __future__ import annotations

import contextlib
import functools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from peft.utils.other import TrainableTokensWrapper
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from instruct.base.errors import InputError
from instruct.objectives import EnergyTable, Objective, ObjectiveStatistics, TransportCost
from instruct.objectives.linear import linear_objective
from instruct.objectives.logit_losses import AnyReference, Reference
from instruct.objectives.torch_kernels import Head
from instruct.training.collator import HostLabels
from instruct.training.nonfinite import TokenRecord

ADAPTER_ON_HEAD = (
    "an adapter on lm_head would never be trained: remove lm_head from its targets (target_modules, "
    "target_parameters, ensure_weight_tying), or train the whole head (modules_to_save=['lm_head'])"
)

# The keys of a config that say what a model's forward does to the head's product.
MULTIPLIERS = ("logit_scale", "output_multiplier", "lm_head_multiplier")
DIVISORS = ("logits_scaling", "logits_mup_width_multiplier")  # HyperCLOVA X multiplies by logits_scaling
SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")


# What gives, of the model that trains, the frozen one, for a time.
Frozen = Callable[[Any], contextlib.AbstractContextManager[Any]]
# Of the model that trains, a batch's labels and what else its forward takes, the reference.
ReferenceFor = Callable[..., AnyReference]


@dataclass
class ObjectiveOutput(ModelOutput):
    """`loss`: float32 scalar; `statistics`: sums over this batch's response tokens; `aux_loss`: of MoE models.

    `tokens`: for finding what is not finite, see nonfinite.py.
    """

    loss: torch.Tensor | None = None
    statistics: ObjectiveStatistics | None = None
    tokens: TokenRecord | None = None
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
        raise InputError(ADAPTER_ON_HEAD)
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


def logit_scale(config: Any) -> float:
    """The factor of the model's logits (Cohere: logit_scale; Granite divides by logits_scaling)."""
    for name in MULTIPLIERS:
        if getattr(config, name, None) is not None:
            return float(getattr(config, name))
    for name in DIVISORS:
        divisor = getattr(config, name, None)
        if divisor is not None:
            return float(divisor) if config.model_type == "hyperclovax" else 1 / float(divisor)
    return 1.0


def logit_softcap(config: Any) -> float | None:
    """The softcap of the model's logits (Gemma 2: final_logit_softcapping), after the scale; None: it has none."""
    for name in SOFTCAPS:
        if getattr(config, name, None) is not None:
            return float(getattr(config, name))
    return None


def attach_objective(
    model: PreTrainedModel,
    objective: Objective,
    cost: TransportCost | EnergyTable | None,
    chunk_rows: int | None = None,
    reference_for: ReferenceFor | None = None,
) -> None:
    """Extend the model's forward to return the objective's loss: `model(..., labels=labels, objective_loss=True)`.

    Without `objective_loss` the forward is unchanged, and so is generation. The head and the backbone are looked up at
    each call because PEFT and FSDP replace them. Only response tokens reach the head.

    Args:
        model: the causal language model, unwrapped (not a PeftModel).
        cost: as in `linear_objective_loss`.
        chunk_rows: as in `linear_objective_loss`.
        reference_for: what gives a batch's reference, for an objective that takes one.
    """
    output_head(model)
    original_forward = model.forward
    config = model.config.get_text_config()

    @functools.wraps(type(model).forward)
    def forward(
        self: Any,
        *args: Any,
        objective_loss: bool = False,
        labels: Any = None,
        num_items: Any = None,
        host_labels: HostLabels | None = None,
        **kwargs: Any,
    ) -> Any:
        if not objective_loss:
            if labels is not None:
                kwargs["labels"] = labels
            return original_forward(*args, **kwargs)
        reference = None if reference_for is None else reference_for(self, labels, *args, **kwargs)
        backbone_output = self.base_model(*args, **kwargs)
        head = self.get_output_embeddings()
        aux_loss = router_loss(self, backbone_output, kwargs)

        # Nothing in here makes the host wait for the GPU, which would be idle between forward and backward.
        def objective_of(states: torch.Tensor) -> tuple[torch.Tensor, ObjectiveStatistics, TokenRecord]:
            weight = head.weight  # read once: PEFT's wrappers compute it at each access
            states = states.to(weight.device)
            kind = states.device.type
            if torch.is_autocast_enabled(kind):
                # As autocast would for the head's own product; the residual stream may be in float32.
                states = states.to(torch.get_autocast_dtype(kind))
            # PEFT's prompt learning puts labels without loss before those of the collator.
            on_host = host_labels if host_labels is not None and host_labels.labels.shape == labels.shape else None
            own_labels = labels if on_host is None else on_host.labels
            targets = functional.pad(own_labels[:, 1:], (0, 1), value=-100)
            result = linear_objective(
                states.flatten(0, 1),
                weight,
                targets.flatten(),
                objective,
                cost,
                bias=getattr(head, "bias", None),
                logit_scale=logit_scale(config),
                softcap=logit_softcap(config),
                num_items=num_items,
                chunk_rows=chunk_rows,
                reference=None if reference is None else reference.on_device(states),
            )
            largest_state = torch.linalg.vector_norm(states.detach(), ord=math.inf, dim=-1)
            return result.loss, result.statistics, TokenRecord(largest_state, result.columns, result.order)

        loss, statistics, tokens = call_as_forward(head, objective_of, backbone_output.last_hidden_state)
        return ObjectiveOutput(loss=loss, statistics=statistics, tokens=tokens, aux_loss=aux_loss)

    model.forward = types.MethodType(forward, model)


@torch.no_grad()
def reference_of(frozen: Frozen, model: Any, labels: torch.Tensor, *args: Any, **kwargs: Any) -> Reference:
    """The states and the head of the frozen model for a batch; it has no dropout."""
    with frozen(model) as other:
        trains = other.training
        other.eval()
        states = other.base_model(*args, **kwargs).last_hidden_state.flatten(0, 1)
        config, head = other.config.get_text_config(), other.get_output_embeddings()
        bias = getattr(head, "bias", None)
        found = Head(
            head.weight.detach(), None if bias is None else bias.detach(), logit_scale(config), logit_softcap(config)
        )
        other.train(trains)
    return Reference(states, found)


@torch.compiler.disable  # its shapes depend on the number of response tokens: it would recompile for every batch
def call_as_forward(head: nn.Module, function: Callable[[torch.Tensor], Any], states: torch.Tensor) -> Any:
    """`function(states)`, called in place of the forward of the head's own linear layer.

    FSDP and ZeRO-3 gather a head's weight in the hooks around its forward and reduce its gradient in those around its
    backward. Outside of them the weight is only a shard, and its gradient is never reduced.
    """
    if isinstance(head, TrainableTokensWrapper):  # it has no layer of its own; it is refused if sharded
        return function(states)
    layers = [module for module in head.modules() if not any(module.children())]
    replaced = [layer.__dict__.get("forward") for layer in layers]  # accelerate's hooks for `device_map` are there
    for layer in layers:  # of PEFT's two layers the active one is called
        layer.forward = function
    try:
        return head(states)
    finally:
        for layer, own in zip(layers, replaced, strict=True):
            del layer.forward
            if own is not None:
                layer.forward = own


def router_loss(model: Any, backbone_output: Any, inputs: dict[str, Any]) -> torch.Tensor | None:
    """The load-balancing loss of a mixture-of-experts model, unweighted; None if nothing requests it."""
    in_config = getattr(model.config.get_text_config(), "output_router_logits", False)
    if not inputs.get("output_router_logits", in_config):
        return None
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    experts = _expert_number(model, "num_experts", "num_local_experts")
    chosen = _expert_number(model, "num_experts_per_tok")
    return load_balancing_loss_func(backbone_output.router_logits, experts, chosen, inputs.get("attention_mask"))


def _expert_number(model: Any, *names: str) -> int:
    """The first of these numbers that the model has, as its own forward would use it, or else its config."""
    for owner in (model, model.config.get_text_config()):
        for name in names:
            if getattr(owner, name, None) is not None:
                return int(getattr(owner, name))
    raise InputError(
        f"{type(model).__name__}: neither it nor its config has {' or '.join(names)}, which the auxiliary loss of its "
        "router needs; set router_aux_loss_coef to 0.0 to train without it"
    )
