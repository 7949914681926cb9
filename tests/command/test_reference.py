"""The tables of docs/configuration.md, `instruct config` and the JSON Schema follow the models."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from instruct.command.reference import SCHEMA_PATH, config_keys, json_schema, page_with_tables, schema_text

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


def test_every_shipped_config_matches_the_schema():
    for path in CONFIGS:
        jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json_schema())


def test_the_schema_refuses_what_the_config_refuses():
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    for wrong in ({"trian": {}}, {"lora": {"r": 0}}, {"systems": {"emo": {"objective": "emmo"}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": "x"} | wrong, schema)
