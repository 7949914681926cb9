"""Experiments on a tiny model, for the tests of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from instruct.config import make_config
from instruct.run.directory import RunDirectory
from instruct.training.rows import load_training_rows
from instruct.training.train import train_system


def write_rows(path: Path, count: int = 24) -> str:
    rows = [
        {"instruction": f"Say the number {index}.", "input": "", "output": f"The number is {index}. " * (1 + index % 3)}
        for index in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


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


def train(folder: Path, config, system: str = "emo") -> RunDirectory:
    run = RunDirectory(folder)
    run.start(config.model_dump(mode="json"))
    train_system(config, system, run, load_training_rows(config))
    return run


def metrics(run: RunDirectory, system: str = "emo") -> list[dict[str, Any]]:
    """What a training logged at each step, without durations and the summary at the end."""
    log = json.loads((run.adapters / system / "training_log.json").read_text())
    return [
        {key: entry[key] for key in entry if "runtime" not in key and "per_second" not in key}
        for entry in log
        if "train_runtime" not in entry
    ]
