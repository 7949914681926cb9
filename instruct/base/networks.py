"""Networks of transformers and their adapters: which class a checkpoint is, and loading that leaves no key over.

No other file of the package names an `AutoModel*` class or loads an adapter: the network that answers is then the one
that was trained.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError, one_line
from instruct.base.trial import ends_in_bounds

# What a network ends in: logits of the vocabulary, one score, or its hidden states.
Head = Literal["words", "score", "states"]

# The values of LoRA's init_lora_weights that leave the base as it is: without the adapter it is the base.
INITS_OF_BASE = (True, False, "gaussian", "orthogonal")

_NAMED = 3  # keys in an error message


def model_class(config: Any, head: Head = "words") -> Any:
    """The class of transformers that a checkpoint is loaded as.

    For words it is the class that TRL's trainers take: the config's own architecture, which for Qwen3.5, Gemma 3 and
    other models that see is not the one that `AutoModelForCausalLM` picks, and whose tensors have other names. A
    config without one, and one of code in the model's repository, gives AutoModelForCausalLM.

    Args:
        config: transformers' config of the model.
    """
    import transformers

    if head == "score":
        return transformers.AutoModelForSequenceClassification
    if head == "states":
        return transformers.AutoModel
    named = getattr(transformers, (getattr(config, "architectures", None) or [""])[0], None)
    if named is not None:
        return named
    sees, speaks = transformers.AutoModelForImageTextToText, transformers.AutoModelForCausalLM
    in_repository = getattr(config, "auto_map", None) or {}
    known = type(config) in sees._model_mapping and type(config) not in speaks._model_mapping
    return sees if known or sees.__name__ in in_repository else speaks


def new_network(config: Any, trust_remote_code: bool = False, **arguments: Any) -> Any:
    """A network for words with new weights, see `model_class`.

    Args:
        config: transformers' config of the model.
        arguments: `dtype` and `attn_implementation`.

    Raises:
        InputError: the model's code needs a package that is not installed.
        ValueError: transformers has no class with a head for words.
    """
    chosen = model_class(config)
    try:
        if hasattr(chosen, "from_config"):  # an AutoModel
            return chosen.from_config(config, trust_remote_code=trust_remote_code, **arguments)
        return chosen._from_config(config, **arguments)
    except ImportError as error:  # its code needs a package that this one does not
        raise InputError(f"{chosen.__name__}: {one_line(error, 200)}") from None


def load_network(
    model: str,
    revision: str | None = None,
    head: Head = "words",
    trust_remote_code: bool = False,
    new_head: list[str] | None = None,
    **arguments: Any,
) -> Any:
    """What a folder's or hub model's safetensors hold, every tensor in its place; its pickles, if they are allowed.

    Args:
        new_head: takes the names of tensors that are not among the weights, which are then new, such as the head that
            makes a language model a reward model; None: there may be none.
        arguments: more of `from_pretrained`.

    Raises:
        InputError: a tensor is missing, or has no place; transformers' own lists of those that may be are kept.
        Exception: transformers cannot load the model.
    """
    from transformers import AutoConfig

    config = arguments.pop("config", None) or AutoConfig.from_pretrained(
        model, revision=revision, trust_remote_code=trust_remote_code
    )
    network, loading = model_class(config, head).from_pretrained(
        model,
        revision=revision,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
        **{"use_safetensors": True, **arguments},
    )
    missing = loading["missing_keys"]
    if new_head is not None:
        new_head += sorted(missing)
        missing = set()
    unexpected = loading["unexpected_keys"] if head == "words" else set()  # a head for words is left out
    if left := _left_over(missing, unexpected):
        remedy = "choose a model that was trained with its head" if head == "score" else "check the folder"
        raise InputError(f"model {one_line(model, 100)}, as {type(network).__name__}, {left}; {remedy}")
    return network


def check_whole(model: str, revision: str | None = None, trust_remote_code: bool = False, wanted: bool = True) -> Any:
    """Refuse a model for words whose tensors are not those of its class, from the headers of its files.

    Args:
        wanted: whether the network is needed, also if its tensors cannot be told from the headers.

    Returns:
        The network without its weights; None if it has not been made.

    Raises:
        InputError: a tensor is missing, or has no place.
        Exception: transformers cannot load the model.
    """
    import torch
    from transformers import AutoConfig
    from transformers.integrations import is_deepspeed_zero3_enabled

    config = AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=trust_remote_code)
    if getattr(config, "quantization_config", None) or is_deepspeed_zero3_enabled():
        if not wanted:
            return None
        with torch.device("meta"):  # which tensors are whole is known when they are loaded, or on several machines
            return new_network(config, trust_remote_code)
    with quiet_loading():
        return load_network(model, revision, trust_remote_code=trust_remote_code, device_map="meta", config=config)


def load_adapter(network: Any, adapter: str | Path, name: str = "default") -> Any:
    """PEFT's model of a network and an adapter that nothing of is left over.

    Args:
        network: of transformers; or what this has returned, which takes one more adapter.
        name: PEFT's, of the adapter.

    Raises:
        InputError: the adapter has not all that its config says, or tensors that have no place in the network.
        Exception: PEFT cannot load the adapter.
    """
    from peft import PeftModel

    _check_patterns(network, adapter)
    # autocast_adapter_dtype would keep an adapter of a network in bfloat16 in float32, which vLLM does not
    if not isinstance(network, PeftModel):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found missing adapter keys")  # refused below
            network = PeftModel.from_pretrained(network, str(adapter), name, autocast_adapter_dtype=False)
    base = network.get_base_model()
    config = network.peft_config.get(name)
    renamed = None if config and config.is_prompt_learning else getattr(base, "_checkpoint_conversion_mapping", None)
    # Loaded a second time, because PEFT's `from_pretrained` keeps to itself what did not fit.
    result = network.load_adapter(str(adapter), name, autocast_adapter_dtype=False, key_mapping=renamed)
    if left := _left_over(result.missing_keys, result.unexpected_keys):
        trained_as = (network.peft_config[name].auto_mapping or {}).get("base_model_class")
        trained = f"; it was trained on {one_line(trained_as, 60)}" if trained_as else ""
        raise InputError(
            f"{adapter}: the adapter does not fit {type(base).__name__}: it {left}{trained}; give its own base"
        )
    return network


_PATTERNS = ("target_modules", "exclude_modules", "modules_to_save", "layers_pattern", "rank_pattern", "alpha_pattern")


def _check_patterns(network: Any, adapter: str | Path) -> None:
    """Refuse an adapter with a regular expression that does not end on the names of a network's modules."""
    from peft import PeftConfig

    config = PeftConfig.from_pretrained(str(adapter))
    given = [getattr(config, key, None) or () for key in _PATTERNS]
    patterns = [pattern for value in given for pattern in ([value] if isinstance(value, str) else value)]
    names = [name for name, _ in network.named_modules()]
    if not ends_in_bounds(lambda: [re.match(rf"(.*\.)?({each})$", name) for each in patterns for name in names]):
        raise InputError(f"{adapter}: a pattern in its adapter_config.json never ends; write names in its place")


def check_adapter(model: str, revision: str | None, adapter: str | Path) -> None:
    """Refuse an adapter that does not fit a model for words, from its tensors and the model's config.

    Raises:
        InputError: the adapter has not all that its config says, or tensors that have no place in the network.
        Exception: PEFT cannot load the adapter, or transformers the model.
    """
    import torch
    from transformers import AutoConfig

    with torch.device("meta"), quiet_loading(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is a no-op")  # of weights that are not there
        load_adapter(new_network(AutoConfig.from_pretrained(model, revision=revision)), adapter)


def backbone_of(network: Any) -> Any:
    """What computes the hidden states that the head takes; the network itself if it is not found.

    It is where `base_model_prefix` says, except in Llama 4, whose class that sees has its language model inside.
    """
    if network.base_model is not network:
        return network.base_model
    within = getattr(network, "language_model", network)
    return getattr(within, "model", network)


def record_class(network: Any) -> None:
    """Have PEFT save the class of the network with its adapters (`auto_mapping` in adapter_config.json)."""
    base = network.get_base_model()
    for config in network.peft_config.values():
        config.auto_mapping = {"base_model_class": type(base).__name__, "parent_library": type(base).__module__}


def _left_over(missing: Collection[str], unexpected: Collection[str]) -> str:
    """What is wrong with what was loaded, as the end of a sentence; "" if nothing is."""
    lacks = f"has no {_some(missing)}, which would be random" if missing else ""
    extra = f"has {_some(unexpected)}, for which there is no place" if unexpected else ""
    return ", and ".join(filter(None, (lacks, extra)))


def _some(keys: Collection[str]) -> str:
    named = ", ".join(one_line(key.removeprefix("base_model.model."), 80) for key in sorted(keys)[:_NAMED])
    return named + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")


@contextmanager
def quiet_loading() -> Iterator[None]:
    """transformers lists no missing weights and shows no bar: it reads no weights."""
    from transformers.utils import logging

    verbosity, shows = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows:
            logging.enable_progress_bar()
