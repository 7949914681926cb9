"""Experiments on a tiny model, for the tests of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from json_files import write_json
from safetensors.torch import load_file

from instruct.config import make_config
from instruct.run.directory import RunDirectory
from instruct.training.rows import TrainingRows, load_training_rows
from instruct.training.train import train_system


def write_rows(path: Path, count: int = 24) -> str:
    rows = [
        {"instruction": f"Say the number {index}.", "input": "", "output": f"The number is {index}. " * (1 + index % 3)}
        for index in range(count)
    ]
    return str(write_json(path, rows))


def tiny_config(folder: Path, rows: str, **sections):
    content = {
        "name": "tiny",
        "model": {"name": str(folder), "dtype": "float32"},
        "data": {"files": [rows], "template": "chat"},
        "lora": {"r": 4},
        "train": {
            "max_steps": 6, "per_device_train_batch_size": 4, "logging_steps": 1, "save_steps": 2, "max_length": 256,
            "learning_rate": 1e-2,
        },
        "systems": {"emo": {"objective": "emo"}},
        **sections,
    }  # fmt: skip
    return make_config(content, [], "test")


def rows_of(config) -> TrainingRows:
    return load_training_rows(config.data, config.model, config.train)


def train(folder: Path, config, system: str = "emo") -> RunDirectory:
    run = RunDirectory(folder)
    run.start(config.model_dump(mode="json"))
    train_system(config, system, run, rows_of(config))
    return run


def interrupt(*arguments: Any, **named: Any) -> None:
    raise KeyboardInterrupt


def interrupted(folder: Path, config) -> None:
    """Train until after the last step, before the result is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instruct.training.train.model_card", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(folder, config)


def have_the_same_weights(run: RunDirectory, other: RunDirectory) -> bool:
    ours, theirs = (load_file(each.adapters / "emo" / "adapter_model.safetensors") for each in (run, other))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def metrics(run: RunDirectory, system: str = "emo") -> list[dict[str, Any]]:
    """What a training logged at each step, without durations and the summary at the end."""
    log = json.loads((run.adapters / system / "training_log.json").read_text())
    return [
        {key: entry[key] for key in entry if "runtime" not in key and "per_second" not in key}
        for entry in log
        if "train_runtime" not in entry
    ]
