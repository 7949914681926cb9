"""What of a network trains: how much, and which weights `all-linear` leaves without an adapter."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Collection, Iterable
from typing import Any

import torch
from peft import PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from peft.utils.other import AuxiliaryTrainingWrapper
from torch import nn
from torch.nn.modules.conv import _ConvNd

from instruct.base.cards import nearest
from instruct.base.errors import InputError, one_line
from instruct.base.output import log_once, say, warn
from instruct.engines.local import end_token_ids

ALL_LINEAR = "all-linear"


def reached_by_text(network: Any) -> set[int]:
    """The ids of a network's modules that text passes, with its head."""
    head, decoder = network.get_output_embeddings(), network.get_decoder()
    whole = network if decoder is head else decoder  # ModernBERT calls its head a decoder
    return {id(module) for module in (*whole.modules(), *(head.modules() if head is not None else ()))}


def adapted_matrix(layer: Any) -> Any:
    """What an adapter's layer changes: a layer's weight, or a parameter such as that of all experts."""
    return layer.get_param() if hasattr(layer, "get_param") else getattr(layer.get_base_layer(), "weight", None)


def left_frozen(network: PeftModel) -> list[str]:
    """The linear layers that text passes and the parameters of all experts of a layer, if they have no adapter.

    Returns:
        Their names for `target_parameters`; not those of the head, and of what the adapter's config excludes.
    """
    base, names = network.get_base_model(), set()
    excluded = network.active_peft_config.exclude_modules
    reached = reached_by_text(base) - {id(module) for module in base.get_output_embeddings().modules()}
    changed = set()  # parameters that have an adapter, or of which a copy trains
    for module in base.modules():
        if isinstance(module, BaseTunerLayer):
            changed.add(id(adapted_matrix(module)))
        elif isinstance(module, AuxiliaryTrainingWrapper):
            changed |= {id(parameter) for parameter in module.original_module.parameters()}
    for path, module in base.named_modules():
        if id(module) not in reached or isinstance(module, _ConvNd) or _is_named(path, excluded):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            of_all_experts = len(getattr(parameter, "ds_shape", parameter.shape)) == 3
            is_linear = isinstance(module, nn.Linear) and name == "weight"
            if (of_all_experts or is_linear) and not parameter.requires_grad and id(parameter) not in changed:
                names.add(".".join(f"{path}.{name}".split(".")[-3:]))
    return sorted(names)


def _is_named(path: str, names: str | Collection[str] | None) -> bool:
    """Whether PEFT takes a module for one of these names; a text is a regular expression."""
    if isinstance(names, str):
        return re.fullmatch(names, path) is not None
    return any(f".{path}".endswith(f".{name}") for name in names or ())


def check_adapter(network: PeftModel) -> None:
    """Refuse an adapter that PEFT did not make as its config says, that cannot answer, or that cannot be merged.

    Raises:
        ValueError: it is one; the message has the remedy.
    """
    tuner, config = network.base_model, network.active_peft_config
    if not isinstance(tuner, BaseTuner):  # prompt learning
        return
    modules = dict(network.get_base_model().named_modules())
    layers = [*tuner.targeted_module_names, *tuner.targeted_parameter_names]
    part, pattern = r"(.*\.)?{}", r"(.*\.)?({})(\.\w+)?"
    # Where PEFT looks for names, and as what; it ignores those that it does not find:
    # https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig
    for option, places, form in (
        ("target_modules", modules, part),
        ("target_parameters", layers, part),
        ("rank_pattern", layers, pattern),
        ("alpha_pattern", layers, pattern),
        ("exclude_modules", modules, part),
        ("modules_to_save", modules, ".*{}"),
    ):
        names = getattr(config, option, None) or ()
        if isinstance(names, str):  # a regular expression; without a target PEFT refuses it
            names, form = [names] if option == "exclude_modules" else (), "{}"
        for name in names:
            if not any(re.fullmatch(form.format(name), place) for place in places):
                known = nearest(name, {place.rpartition(".")[2] for place in places})
                raise ValueError(f"{option}: has {one_line(name, 60)}, which is nowhere in the model{known}; remove it")
    init, of_data = getattr(config, "init_lora_weights", True), "_peft_loraga_grad"
    for is_so, reason in (
        # https://huggingface.co/docs/peft/developer_guides/lora#eva: by a function that gets the data
        (init == "eva", "init_lora_weights: eva starts as true does, because nothing here shows it the data"),
        # https://huggingface.co/docs/peft/developer_guides/lora#lora-ga: so is this
        (
            init == "lora_ga" and not any(hasattr(module, of_data) for module in modules.values()),
            "init_lora_weights: lora_ga starts as true does, because nothing here shows it the data",
        ),
        # https://github.com/huggingface/peft/pull/2609: it acts after tokens that PEFT alone looks for
        (
            getattr(config, "alora_invocation_tokens", None),
            "alora_invocation_tokens: no engine answers with such an adapter",
        ),
        # https://github.com/huggingface/peft/pull/2237
        (
            any(
                isinstance(module, LoraLayer)
                and any(module.lora_bias.values())
                and getattr(module.get_base_layer(), "bias", None) is None
                for module in modules.values()
            ),
            "lora_bias: a layer without a bias has none to merge it into",
        ),
    ):
        if is_so:
            raise ValueError(f"{reason}; remove it")


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
            made = get_peft_model(network, planned, low_cpu_mem_usage=True)
        planned.init_lora_weights = getattr(peft_config, "init_lora_weights", None)
        check_adapter(made)
        return made
    except ValueError as error:
        raise InputError(f"lora: {one_line(error)}") from None


def warn_of_end_tokens(network: Any, head: nn.Module, tokenizer: Any) -> None:
    """Say that a model cannot learn to stop: an end token's row of a frozen head is about zero, as before training.

    Args:
        head: of the network, as PEFT has left or wrapped it.
    """
    weight = head.weight
    if weight.requires_grad or weight.is_meta or hasattr(weight, "ds_id"):  # DeepSpeed has it elsewhere
        return
    sizes = torch.linalg.vector_norm(weight, dim=1, dtype=torch.float32)
    for token in sorted(end_token_ids(tokenizer)):
        if sizes[token] < 0.01 * sizes.mean():
            name = tokenizer.convert_ids_to_tokens(token)
            line = f"the row of the end token {name} in its lm_head is not trained, so that it cannot learn to stop"
            log_once(warn, f"warning   model {network.name_or_path}: {line}; add lm_head to modules_to_save")


def report_trained(network: Any, all_linear: bool, notices: Iterable[str] = ()) -> None:
    """Log how many parameters of a network with an adapter train, and warn of what `all-linear` leaves frozen; once.

    Args:
        network: as it is trained, or planned.
        all_linear: whether the adapter was to be on all linear layers.
        notices: more to warn about.
    """
    lines = list(notices)
    if isinstance(network, PeftModel):
        trained, number = network.get_nb_trainable_parameters()
        log_once(say, f"trained   {trained:,} of {number:,} parameters")
        if all_linear and (names := left_frozen(network)):
            of = network.config.model_type
            lines.append(
                f"{ALL_LINEAR} leaves frozen, of {of}: {', '.join(names)}; to train them, add them to target_parameters"
            )
    for line in lines:
        log_once(warn, line)
