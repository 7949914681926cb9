"""Reward models that were trained as PEFT adapters, merged into their base models so that any engine loads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.models import folder_made_of, model_path, whole_folder
from instruct.base.output import warn
from instruct.engines.weights import is_adapter, model_identity


def adapter_folder(model: str) -> Path | None:
    """The folder that `model` names if it holds an adapter and no whole model.

    Raises:
        InputError: the adapter has no weights.
    """
    folder = Path(model).expanduser()
    if not (folder / "adapter_config.json").is_file() or (folder / "config.json").is_file():
        return None
    return folder if is_adapter(folder) else None


def merged_folder(subject: str, adapter: Path) -> Path:
    """A folder in the cache with the whole reward model of an adapter, merged on first use.

    The adapter is merged in float32, and the sum is rounded once, to the base model's dtype. The tokenizer is the
    adapter's, or the base model's if training saved none.

    Args:
        subject: who is asked, as error messages name it.
        adapter: a folder saved by TRL's RewardTrainer, or by PEFT for the task SEQ_CLS.

    Raises:
        InputError: it is no reward model's adapter, has no head, or its base model cannot be loaded.
    """
    folder = folder_made_of(str(adapter), model_identity(str(adapter), None))
    if (folder / "config.json").is_file():
        return folder
    from peft import PeftConfig

    try:
        config = PeftConfig.from_pretrained(str(adapter))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{adapter}: PEFT cannot read the adapter ({one_line(error, 100)}); save it again") from error
    if config.task_type not in ("SEQ_CLS", None):  # without a task, the head tells
        raise InputError(
            f"{subject}: {adapter} is no reward model (its adapter's task is {one_line(config.task_type, 40)}); choose "
            "one that was trained for sequence classification (SEQ_CLS)"
        )
    warn(f"instruct: {one_line(adapter, 100)}: merged with its base model, once: {folder}")
    network, tokenizer = _merged(subject, adapter, config)
    with whole_folder(folder) as making:
        network.save_pretrained(making)
        tokenizer.save_pretrained(making)
    return folder


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """transformers does not list missing weights, which the caller checks."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _merged(subject: str, adapter: Path, config: Any) -> tuple[Any, Any]:
    """The whole model with its head, and its tokenizer."""
    import torch
    from peft import PeftModel
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    name, revision = str(config.base_model_name_or_path), config.revision
    try:
        base = model_path(name)
        with quiet_loading():
            network, loading = AutoModelForSequenceClassification.from_pretrained(
                base, revision=revision, num_labels=1, dtype=torch.float32, trust_remote_code=False,
                use_safetensors=True, output_loading_info=True,
            )  # fmt: skip
        dtype = AutoConfig.from_pretrained(base, revision=revision).dtype or torch.float32
        with_tokenizer = adapter if (adapter / "tokenizer_config.json").is_file() else base
        tokenizer = AutoTokenizer.from_pretrained(with_tokenizer, trust_remote_code=False)
    except (InputError, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{subject}: the base model of {adapter}, {one_line(name, 100)}, cannot be loaded "
            f"({one_line(error, 150)}); correct base_model_name_or_path in its adapter_config.json"
        ) from error
    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        saved = list(file.keys())
    for head in loading["missing_keys"]:  # random, unless the adapter has it
        if not any(name.endswith(f".{head}") for name in saved):
            raise InputError(
                f"{subject}: {adapter} has no {head}, which its scores need; train it with modules_to_save: [score]"
            )
    try:
        network = PeftModel.from_pretrained(network, str(adapter)).merge_and_unload()
    except (ValueError, RuntimeError, KeyError) as error:
        raise InputError(
            f"{adapter}: does not fit its base model {one_line(base, 100)} ({one_line(error, 150)}); save it again"
        ) from error
    # The token that the scores of training do not read; TRL sets it in the model, and saves it with the tokenizer.
    network.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return network.to(dtype), tokenizer
