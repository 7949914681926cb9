"""The reference model of an objective that takes one: the base under the adapter, a copy of it, or another model."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from instruct.base.errors import one_line
from instruct.base.models import model_path
from instruct.objectives.objective import BASE
from instruct.training.head import Frozen


def frozen_model(name: str, model: Any, tokenizer: Any, sharded: bool, device: Any) -> Frozen:
    """What gives the reference model that an objective names.

    `base` is the model under its adapter, switched off, without a second copy; in full fine-tuning it is a copy of what
    training begins with, so that a resumed training has to be constructed with the same model.

    Args:
        model: that trains, maybe a PeftModel.
        sharded: by FSDP or DeepSpeed.

    Raises:
        ValueError: a sharded model; an adapter beside a head that trains; another model that cannot be loaded, has
            another tokenizer or fewer logits.
    """
    if sharded:
        raise ValueError(
            "the objective needs a reference model, which FSDP and DeepSpeed would shard with the one that trains; "
            "train in one process or with DDP"
        )
    if name != BASE:
        return _given(_loaded(name, model, tokenizer, device))
    if not hasattr(model, "disable_adapter"):
        return _given(_still(copy.deepcopy(model)))
    if any(weight.requires_grad for weight in model.get_output_embeddings().parameters()):
        raise ValueError(
            "the objective needs the base as its reference, whose lm_head must be frozen; remove it from "
            "modules_to_save, or fine-tune the whole model"
        )

    @contextlib.contextmanager
    def without_adapter(base: Any) -> Iterator[Any]:
        with model.disable_adapter():
            yield base

    return without_adapter


def _given(other: Any) -> Frozen:
    return lambda _: contextlib.nullcontext(other)


def _still(model: Any) -> Any:
    return model.eval().requires_grad_(False)


def _loaded(name: str, model: Any, tokenizer: Any, device: Any) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        words = AutoTokenizer.from_pretrained(model_path(name), trust_remote_code=False)
        other = AutoModelForCausalLM.from_pretrained(
            model_path(name), dtype=model.dtype, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"reference model {name}: cannot be loaded ({one_line(error, 200)}); check the name") from None
    if words.get_vocab() != tokenizer.get_vocab():
        raise ValueError(f"reference model {name}: has another tokenizer; use a model that shares it")
    width, wanted = len(other.get_output_embeddings().weight), len(model.get_output_embeddings().weight)
    if width < wanted:
        raise ValueError(f"reference model {name}: has {width} logits, fewer than {wanted}; use another model")
    return _still(other.to(device))
