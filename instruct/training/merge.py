"""Merging an adapter into its base model."""

from __future__ import annotations

import shutil
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.files import replace_folder, write_atomically
from instruct.base.models import compute_dtype, model_path
from instruct.base.networks import load_adapter, load_network
from instruct.run.directory import RunDirectory
from instruct.training.model_card import model_card
from instruct.training.options import TrainingOptions
from instruct.training.rows import load_tokenizer, unreachable_model
from instruct.training.train import check_weights, model_arguments, train_options


def merge_adapter(config: TrainingOptions, run: RunDirectory, system: str | None = None) -> list[Path]:
    """Write `merged/NAME` for each LoRA system of a run: a whole model as safetensors, with its tokenizer.

    The adapter is merged in float32, and the sum is rounded once, to the dtype that the model was trained in.

    Raises:
        InputError: an unknown system, or one that is not an adapter.
    """
    import torch

    names = [system] if system else list(config.trained)
    merged = []
    for name in names:
        adapter = run.adapters / name
        if not (adapter / "adapter_config.json").is_file():
            raise InputError(f"{adapter}: has no adapter_config.json; name a LoRA system of this run")
        check_weights(run, name)
        arguments = {**model_arguments(config), "dtype": torch.float32}
        try:
            base = load_network(model_path(config.model.name), **arguments)
        except OSError as error:
            raise unreachable_model(config.model.name, error) from None
        model = load_adapter(base, adapter).merge_and_unload()
        model = model.to(getattr(torch, compute_dtype(config.model)))
        folder = run.folder / "merged" / name
        making = folder.with_name(f".{name}.making")
        shutil.rmtree(making, ignore_errors=True)
        model.save_pretrained(making)
        load_tokenizer(config).save_pretrained(making)
        write_atomically(making / "README.md", _card(config, run, name))
        replace_folder(folder, making)
        merged.append(folder)
    return merged


def _card(config: TrainingOptions, run: RunDirectory, name: str) -> str:
    """The merged model's card, from what the manifest says of the training."""
    record = run.manifest()["steps"][f"train/{name}"]
    train = record.get("config", {}).get("train") or train_options(config)
    results = record["results"]
    return model_card(config, name, results["rows"], train, merged=True, evaluation=results.get("evaluation"))
