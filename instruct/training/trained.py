"""Which of a network's matrices a training changes, by kind: what layers do is told from their structure and names."""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.other import AuxiliaryTrainingWrapper
from torch import nn
from torch.nn.modules.conv import _ConvNd

from instruct.base.errors import InputError, one_line
from instruct.base.output import log_once, say, warn

STATE, ENDS, SEES = "convolution/state space", "embeddings/head", "vision/audio"
KINDS = ("attention", "MLP", "experts", "router", STATE, ENDS, SEES, "other")
# A model without trained ones of a kind among these learns less than its user may think.
_LAYERS = ("attention", "MLP", "experts", STATE)
# In the name of a module and its class, "experts Qwen3MoeExperts". Experts that every token passes are an MLP.
_ROUTER, _EXPERTS = r"Router|Gating", r"(?<!shared_)(?<!Shared)[Ee]xperts?\b"
_ROUTER_BESIDE_EXPERTS = r"(.*expert_)?(gate|router)"
_ATTENTION, _MLP = r"[Aa]ttn|[Aa]ttention|MLA\b", r"[Mm][Ll][Pp]|[Ff]eed_?[Ff]orward|FFN|ffn|\bfc\d"
_WRAPPED = re.compile(r"\.(base_layer|original_module)\b")


@dataclass
class Matrices:
    """Those of one kind: how many, how many of them train or get an adapter, and the parameters that they are in."""

    number: int
    trained: int
    parameters: list[str]


def trained_matrices(network: Any) -> dict[str, Matrices]:
    """A network's matrices by kind, in the order of `KINDS`; a kind that it has none of is left out.

    Matrices are parameters of at least two dimensions except biases; one that holds all experts of a layer (experts,
    rows, columns) is as many matrices as it has experts.

    Args:
        network: of transformers, or PEFT's model of one; with or without its weights, quantized or sharded.
    """
    base, prefix = network, None
    if isinstance(network, PeftModel):
        base, prefix = network.get_base_model(), getattr(network.base_model, "prefix", None)
    modules = {_WRAPPED.sub("", name): module for name, module in base.named_modules()}  # the innermost of a name
    head = {id(module) for module in base.get_output_embeddings().modules()}  # with PEFT's wrapper
    reached = reached_by_text(base)
    changed = {id(parameter) for parameter in base.parameters() if parameter.requires_grad}
    for module in base.modules():  # parameters that have an adapter, or of which a copy trains
        if isinstance(module, BaseTunerLayer):
            changed.add(id(adapted_matrix(module)))
        elif isinstance(module, AuxiliaryTrainingWrapper):
            changed |= {id(parameter) for parameter in module.original_module.parameters()}
    counted: dict[str, Matrices] = {kind: Matrices(0, 0, []) for kind in KINDS}
    for full_name, parameter in base.named_parameters():
        shape, name = getattr(parameter, "ds_shape", parameter.shape), _WRAPPED.sub("", full_name)
        of_adapter = {"modules_to_save", "token_adapter"}.intersection(full_name.split("."))
        if of_adapter or (prefix and f".{prefix}" in f".{full_name}") or len(shape) < 2 or name.endswith("bias"):
            continue
        kind = _kind(name, modules, reached, head)
        number = math.prod(shape[:-2]) if kind == "experts" else 1
        counted[kind].number += number
        counted[kind].trained += number if id(parameter) in changed else 0
        counted[kind].parameters.append(name)
    return {kind: matrices for kind, matrices in counted.items() if matrices.number}


def reached_by_text(network: Any) -> set[int]:
    """The ids of a network's modules that text passes, with its head."""
    head, decoder = network.get_output_embeddings(), network.get_decoder()
    whole = network if decoder is head else decoder  # ModernBERT calls its head a decoder
    return {id(module) for module in (*whole.modules(), *(head.modules() if head is not None else ()))}


def adapted_matrix(layer: Any) -> Any:
    """What an adapter's layer changes: a layer's weight, or a parameter such as that of all experts."""
    return layer.get_param() if hasattr(layer, "get_param") else getattr(layer.get_base_layer(), "weight", None)


def _kind(name: str, modules: dict[str, Any], reached: set[int], head: set[int]) -> str:
    """The kind of the matrix with this name.

    Args:
        modules: of the network, by their names without PEFT's wrappers.
        reached: the ids of those that text passes, of which `head` are the last.
    """
    parts = name.split(".")[:-1]
    paths = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]  # from the innermost module
    owner = modules[".".join(parts)]
    if id(owner) not in reached:
        return SEES
    if isinstance(owner, nn.Embedding) or id(owner) in head:
        return ENDS
    names = [f"{path.rpartition('.')[2]} {type(modules[path]).__name__}" for path in paths]
    if any(re.search(_ROUTER, called) for called in names) or (
        re.fullmatch(_ROUTER_BESIDE_EXPERTS, parts[-1]) and hasattr(modules[".".join(parts[:-1])], "experts")
    ):
        return "router"
    if any(re.search(_EXPERTS, called) for called in names):
        return "experts"
    for path, called in zip(paths, names, strict=True):
        if any(isinstance(modules.get(f"{path}.{child}"), _ConvNd) for child in modules[path]._modules):
            return STATE
        if re.search(_ATTENTION, called):
            return "attention"
        if re.search(_MLP, called):
            return "MLP"
    return "other" if any(part.isdecimal() for part in parts) else ENDS


def planned_network(network: Any, peft_config: Any) -> Any:
    """What training makes of a network without weights.

    Args:
        network: on the meta device; changed in place.
        peft_config: None: the whole network trains.

    Raises:
        InputError: PEFT refuses the config for this network.
    """
    if peft_config is None:
        return network
    planned = copy.deepcopy(peft_config)
    planned.init_lora_weights = False  # PiSSA and others read the weights
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trainer's PEFT says it again
            return get_peft_model(network, planned, low_cpu_mem_usage=True)
    except ValueError as error:
        raise InputError(f"lora: {one_line(error)}") from None


def report_trained(network: Any, notices: Iterable[str] = ()) -> dict[str, Matrices]:
    """Log which matrices of a network train, and warn if all of a kind of layer stay frozen; each line once.

    Args:
        network: as it is trained, or planned.
        notices: more to warn about.
    """
    counted = trained_matrices(network)
    log_once(say, trained_line(network, counted))
    lines = list(notices)
    for kind in _LAYERS:
        matrices = counted.get(kind)
        if matrices is None or matrices.trained:
            continue
        key, names = "target_modules", {name.split(".")[-2] for name in matrices.parameters}
        # Parameters of all experts have no module of their own; where PEFT finds such (also for "all-linear"), it takes
        # the names of other modules for those of experts.
        fused = any(not name.endswith(".weight") for name in matrices.parameters)
        if fused or getattr(getattr(network, "active_peft_config", None), "target_parameters", None):
            key, names = "target_parameters", {".".join(name.split(".")[-3:]) for name in matrices.parameters}
        of = f"{_method(network)}: the {kind} matrices of {network.config.model_type}"
        lines.append(f"{of} stay frozen; to train them, add {', '.join(sorted(names))} to {key}")
    for line in lines:
        log_once(warn, line)
    return counted


def trained_line(network: Any, counted: dict[str, Matrices]) -> str:
    """The matrices of a network that train, by kind, as a line."""
    number = sum(matrices.number for matrices in counted.values())
    if number == sum(matrices.trained for matrices in counted.values()) and not isinstance(network, PeftModel):
        return f"full fine-tuning: all {number:,} matrices"
    parts = []
    for kind, matrices in counted.items():
        leaves = sorted({name.removesuffix(".weight").rpartition(".")[2] for name in matrices.parameters})
        named = f" ({', '.join(leaves)})" if kind == "other" else ""
        frozen = "" if matrices.trained else " (frozen)"
        parts.append(f"{kind}{named} {matrices.trained:,} of {matrices.number:,}{frozen}")
    return f"{_method(network)}: {', '.join(parts)}"


def _method(network: Any) -> str:
    if not isinstance(network, PeftModel):
        return "trained"
    kind = str(getattr(network.active_peft_config.peft_type, "value", network.active_peft_config.peft_type))
    return "LoRA" if kind == "LORA" else kind
