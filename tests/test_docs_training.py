"""docs/training.md: the keys in its table are accepted here and exist in the installed TRL."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from trl import ModelConfig, ScriptArguments, SFTConfig
from trl.scripts.utils import DatasetMixtureConfig

from instruct.config import ExperimentConfig
from instruct.training.emo_config import EMOConfig

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.split("## From TRL")[1].split("\n\n")[1].splitlines()[2:]]


def keys(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)[^`]*`", cell)


def test_every_key_of_the_table_exists():
    trl = {field.name for each in (SFTConfig, ModelConfig, ScriptArguments, DatasetMixtureConfig)
           for field in dataclasses.fields(each)}  # fmt: skip
    config = ExperimentConfig(name="x", data={"mixture": [{"files": ["a.jsonl"]}]}).model_dump()
    config["train"] = {field.name: None for field in dataclasses.fields(EMOConfig)}
    assert len(ROWS) > 5
    for theirs, ours in ROWS:
        assert keys(theirs)
        assert set(keys(theirs)) <= trl
        for key in keys(ours):
            place: Any = config
            for part in key.replace("systems.NAME", "systems.emo").split("."):
                assert part in place, key
                place = place[part]
