"""docs/configuration.md, docs/cards.md, `instruct config` and the JSON Schema follow the models."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from instruct.command.reference import SCHEMA_PATH, config_keys, json_schema, render_pages, render_text, schema_text

ROOT = Path(__file__).parents[2]
CONFIGS = [path for path in sorted((ROOT / "recipes" / "configs").rglob("*.yaml")) if path.parent.name != "accelerate"]


def test_the_pages_and_the_schema_are_up_to_date():
    write = "write them again: python -m instruct.command.reference"
    pages = render_pages(ROOT / "docs")
    assert {page: page.read_text(encoding="utf-8") for page in pages} == pages, write
    configuration, cards = pages.values()
    assert f"| `{config_keys()[-1].name}` |" in configuration
    for key in ("verdict.labels.first", "cut.prefix", "columns.label"):
        assert f"`{key}`" in cards
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), write


def test_every_key_has_a_type_a_default_and_help():
    keys = {key.name: key for key in config_keys()}
    assert [key.name for key in keys.values() if not (key.help and key.type)] == []
    assert keys["lora.r"] == ("lora.r", "integer, ≥ 1", "16", "The rank.")
    assert keys["judges[].card"].default == "required"
    assert keys["model.quantization"].type == "4bit"
    assert keys["train.patience"].help == "evaluations without improvement before stopping"
    assert keys["data.mixture[].weight"].type == "number, > 0, ≤ 1"
    assert (
        "answers.generation.temperature  number, ≥ 0  (default: 0.0)\n    The temperature of sampling (0: greedy, or "
        "what the evaluation set's card says, as MT-Bench's does).\n" in render_text()
    )


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_matches_the_schema(path):
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json_schema())


def test_the_schema_refuses_what_the_config_refuses():
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    for wrong in ({"trian": {}}, {"lora": {"r": 0}}, {"systems": {"emo": {"objective": "emmo"}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": "x"} | wrong, schema)
