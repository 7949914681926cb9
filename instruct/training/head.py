"""Computing an objective inside the model's own forward, where DDP's hooks and FSDP's gathers see it."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from instruct.errors import InputError
from instruct.objectives import Objective, ObjectiveStatistics, TransportCost, linear_objective_loss


@dataclass
class ObjectiveOutput(ModelOutput):
    """`loss`: float32 scalar; `statistics`: sums over this batch's response tokens; `aux_loss`: of MoE models."""

    loss: torch.Tensor | None = None
    statistics: ObjectiveStatistics | None = None
    aux_loss: torch.Tensor | None = None


def output_head(model: PreTrainedModel) -> nn.Module:
    """The linear layer from hidden states to the vocabulary.

    Raises:
        InputError: the model has none.
    """
    head = model.get_output_embeddings()
    if head is None or not hasattr(head, "weight"):
        raise InputError(
            f"{type(model).__name__} has no lm_head to compute the objective from; "
            "name a causal language model (AutoModelForCausalLM)"
        )
    return head


def logit_scale(config: Any) -> float:
    """What the model multiplies its logits by (Cohere: logit_scale; Granite divides by logits_scaling)."""
    for name in ("logit_scale", "output_multiplier", "lm_head_multiplier"):
        if getattr(config, name, None) is not None:
            return float(getattr(config, name))
    scaling = getattr(config, "logits_scaling", None)
    if scaling is None:
        return 1.0
    return float(scaling) if config.model_type == "hyperclovax" else 1 / float(scaling)


def attach_objective(model: PreTrainedModel, objective: Objective, cost: TransportCost | None) -> None:
    """Teach `model` a forward that returns the objective's loss: `model(..., labels=labels, objective_loss=True)`.

    Without `objective_loss` the forward is what it was, so generation is unchanged. The head and the backbone are
    looked up at each call, since PEFT and FSDP replace them. Response tokens alone reach the head.

    Args:
        model: the causal language model, unwrapped (not a PeftModel).
        cost: the transport cost; None: the cosine over the live head.
    """
    output_head(model)
    original_forward = model.forward
    config = model.config.get_text_config()

    @functools.wraps(type(model).forward)
    def forward(
        self: Any, *args: Any, objective_loss: bool = False, labels: Any = None, num_items: Any = None, **kwargs: Any
    ) -> Any:
        if not objective_loss:
            if labels is not None:
                kwargs["labels"] = labels
            return original_forward(*args, **kwargs)
        backbone_output = self.base_model(*args, **kwargs)
        head = self.get_output_embeddings()
        states = backbone_output.last_hidden_state[:, :-1]
        targets = labels[:, 1:]
        responses = targets != -100
        loss, statistics = linear_objective_loss(
            states[responses],
            head.weight,
            targets[responses],
            objective,
            cost=cost,
            bias=getattr(head, "bias", None),
            logit_scale=logit_scale(config),
            softcap=getattr(config, "final_logit_softcapping", None),
            num_items=num_items,
        )
        return ObjectiveOutput(loss=loss, statistics=statistics, aux_loss=router_loss(self, backbone_output, kwargs))

    model.forward = types.MethodType(forward, model)


def router_loss(model: Any, backbone_output: Any, inputs: dict[str, Any]) -> torch.Tensor | None:
    """The load-balancing loss of a mixture-of-experts model, unweighted; None where its config asks for none."""
    config = model.config.get_text_config()
    if not getattr(config, "output_router_logits", False):
        return None
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    return load_balancing_loss_func(
        backbone_output.router_logits, config.num_experts, config.num_experts_per_tok, inputs.get("attention_mask")
    )
