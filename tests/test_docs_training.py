"""docs/training.md: the keys in its table are accepted here and exist in the installed TRL."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from trl import ModelConfig, ScriptArguments, SFTConfig
from trl.scripts.utils import DatasetMixtureConfig

from instruct.command.reference import config_keys
from instruct.config import make_config
from instruct.training.options import TRAIN_KEYS

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")
TABLE = PAGE.split("## From TRL, Axolotl, LLaMA-Factory")[1].split("\n\n")[1]
CELLS = [re.split(r" \| ", line.strip("| ")) for line in TABLE.splitlines()[2:]]


def keys(cell: str) -> list[str]:
    """`key` or `key: value` of a cell; what follows such a pair without a colon is another value."""
    found: list[str] = []
    for text in re.findall(r"`([^`]+)`", cell.split(" (")[0]):
        if found and ": " in found[-1] and ":" not in text and "." not in text:
            continue
        found.append(text)
    return found


OURS = [key for row in CELLS for key in keys(row[3])]
THEIRS = [key for row in CELLS for key in keys(row[0])]


def test_every_key_of_ours_exists():
    known = {key.name for key in config_keys()} | {f"train.{name}" for name in TRAIN_KEYS.types()} | {"data.mixture"}
    for key in OURS:
        name, _, value = key.partition(": ")
        assert name in known
        if value and name != "data.stopping_strategy":  # of a mixture only
            make_config({"name": "x"}, [f"--{name}", value], "test")


def test_every_key_of_trl_exists():
    classes = (SFTConfig, ModelConfig, ScriptArguments, DatasetMixtureConfig)
    known = {field.name for each in classes for field in dataclasses.fields(each)}
    assert {key.partition(":")[0] for key in THEIRS} <= known
