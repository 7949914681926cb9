"""The tables of docs/configuration.md, `instruct config` and the JSON Schema follow the models."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from instruct.command.reference import SCHEMA_PATH, config_keys, json_schema, page_with_tables, render_text, schema_text

ROOT = Path(__file__).parents[2]
CONFIGS = [path for path in sorted((ROOT / "recipes" / "configs").rglob("*.yaml")) if path.parent.name != "accelerate"]


def test_the_site_s_page_has_every_key():
    page = page_with_tables((ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"))
    assert "<!-- keys" not in page
    assert page.count("| key | type | default | meaning |") == 4
    named = [key.name for key in config_keys()] + ["verdict.labels.first", "cut.prefix", "columns.label"]
    assert [name for name in named if f"`{name}`" not in page] == []


def test_the_schema_is_up_to_date():
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), "write it: python -m instruct.command.reference"


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
