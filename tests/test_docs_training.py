"""docs/training.md: the keys in its table are accepted here and exist in the installed TRL."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from trl import ModelConfig, ScriptArguments, SFTConfig
from trl.scripts.utils import DatasetMixtureConfig

from instruct.config import ExperimentConfig, make_config
from instruct.data.options import MixedSource
from instruct.training.emo_config import EMOConfig

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


def test_the_table_has_four_columns_and_every_row_a_key_of_ours():
    assert all(len(row) == 4 and keys(row[3]) for row in CELLS)
    assert len(CELLS) > 20


@pytest.mark.parametrize("key", dict.fromkeys(OURS))
def test_every_key_of_ours_exists(key):
    name, _, value = key.partition(": ")
    *path, last = name.replace("systems.NAME", "systems.emo").split(".")
    if path == ["train"]:
        assert last in {field.name for field in dataclasses.fields(EMOConfig)}
    elif path == ["data", "mixture[]"]:
        assert last in MixedSource.model_fields
    else:
        place: Any = ExperimentConfig(name="x").model_dump(exclude={"comparisons"})
        for part in path:
            place = place[part]
        assert last in place
    if value and last != "stopping_strategy":  # of a mixture only
        content = yaml.safe_load(value)
        for part in reversed([*path, last]):
            content = {part: content}
        make_config({"name": "x", **content}, [], "test")


@pytest.mark.parametrize("key", dict.fromkeys(THEIRS))
def test_every_key_of_trl_exists(key):
    classes = (SFTConfig, ModelConfig, ScriptArguments, DatasetMixtureConfig)
    assert key.partition(":")[0] in {field.name for each in classes for field in dataclasses.fields(each)}
