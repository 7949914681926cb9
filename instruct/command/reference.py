"""Every key of a config and of a card with its type, default and help, from their models' own definitions.

    python -m instruct.command.reference         # writes config.schema.json; a test keeps it in sync with the models
    python -m instruct.command.reference PAGE    # prints a page of docs/ with the tables of keys that its markers name

docs/site_hooks.py calls the second for each page with a marker. It needs lm-eval.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from instruct.base.cards import PACKAGE
from instruct.config import ExperimentConfig
from instruct.phases.bench import BenchOptions

SCHEMA_PATH = PACKAGE / "config.schema.json"
_OF_ALL_CARDS = ("name", "description", "licence", "citation", "notes")
_MARKER = re.compile(r"<!-- keys: (.*?) -->")
_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
# A type as a reader of YAML would call it; that a key may be null shows in its default.
_WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true, false", "object": "mapping"}


class Key(NamedTuple):
    """One key: its dotted name, its type with choices and bounds, its default as YAML, and a line of help."""

    name: str
    type: str
    default: str
    help: str


def config_keys() -> list[Key]:
    """Every key of an experiment's config; those that EMOConfig adds to TRL's SFTConfig under `train`."""
    schema = json_schema()
    keys = {name: field for name, field in schema["properties"].items() if name != "extends"}
    return list(_keys_of({"properties": keys, "required": ["name"]}, "", schema["$defs"]))


def card_keys(model: type[BaseModel]) -> list[Key]:
    """Every key of a card, but for those that all cards have."""
    schema = model.model_json_schema()
    return [key for key in _keys_of(schema, "", schema.get("$defs", {})) if key.name not in _OF_ALL_CARDS]


def _keys_of(section: dict[str, Any], prefix: str, sections: dict[str, Any]) -> Iterator[Key]:
    """The keys of a JSON Schema's section, and those of the sections in it; `sections`: its definitions."""
    for name, field in section["properties"].items():
        inner, suffix = _inner_section(field, sections)
        if inner and not all("description" in key for key in inner["properties"].values()):
            inner = None  # no keys for people to write
        default = "required" if name in section.get("required", ()) else _yaml(field.get("default"))
        if inner is None:
            bounds = [f"{_SIGNS[key]} {kind[key]:g}" for kind in _kinds(field) for key in _SIGNS if key in kind]
            text = " ".join(field["description"].split())
            yield Key(prefix + name, ", ".join([_words(field), *bounds]), default, text)
        else:
            if suffix == ".NAME":
                content = field.get("default") or {}
                default = _yaml({key: _set_keys(value, inner) for key, value in content.items()}) if content else ""
            text = field.get("description") or inner["description"]
            yield Key(prefix + name + suffix, "section", default if suffix else "", text)
            yield from _keys_of(inner, f"{prefix}{name}{suffix}.", sections)
        if prefix + name == "train":
            yield from _trainer_keys()


def _set_keys(content: dict[str, Any], section: dict[str, Any]) -> dict[str, Any]:
    """The keys of a section that do not have their defaults."""
    return {key: value for key, value in content.items() if value != section["properties"][key].get("default")}


def _trainer_keys() -> Iterator[Key]:
    """What EMOConfig adds, as far as `systems` and `data` do not set it."""
    from trl import SFTConfig

    from instruct.data.options import DataOptions
    from instruct.training.emo_config import EMOConfig
    from instruct.training.options import SystemOptions

    theirs = {field.name for field in dataclasses.fields(SFTConfig)}
    elsewhere = {*SystemOptions(objective="mle").emo_config(), *DataOptions.model_fields}
    for field in dataclasses.fields(EMOConfig):
        if field.name not in theirs | elsewhere:
            written = str(field.type).replace(" | None", "")
            yield Key(f"train.{field.name}", written, _yaml(field.default), field.metadata.get("help", ""))


def _kinds(field: dict[str, Any]) -> list[dict[str, Any]]:
    """What a value may be; the choices of one that may be any text are advice."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    texts = [kind for kind in kinds if kind.get("type") == "string" and "enum" not in kind]
    return [kind for kind in kinds if "enum" not in kind or not texts]


def _inner_section(field: dict[str, Any], sections: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The section that a key has, and what follows the key's name: nothing, `[]` or `.NAME`."""
    for kind in _kinds(field):
        if "$ref" in kind:
            return sections[kind["$ref"].rpartition("/")[2]], ""
        for items, suffix in (("items", "[]"), ("additionalProperties", ".NAME")):
            inner, more = _inner_section(kind[items], sections) if isinstance(kind.get(items), dict) else (None, "")
            if inner is not None:
                return inner, suffix + more
    return None, ""


def _words(field: dict[str, Any]) -> str:
    """The type of a value."""

    def of(kind: dict[str, Any]) -> str:
        if choices := kind.get("enum") or ([kind["const"]] if "const" in kind else None):
            return ", ".join(map(str, choices))
        if kind.get("type") != "array":
            return _WORDS[kind.get("type", "object")]
        if "prefixItems" in kind:
            return f"[{', '.join(map(_words, kind['prefixItems']))}]"
        return f"list of {_words(kind['items'])}"

    return " or ".join(dict.fromkeys(map(of, _kinds(field))))


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=200).removesuffix("...\n").strip()


def render_text() -> str:
    """The reference for a terminal: a block of two lines for each key."""
    lines = []
    for key in config_keys():
        kind = "" if key.type == "section" else f"  {key.type}"
        default = f"  (default: {key.default})" if key.default not in ("", "required") else f"  {key.default}"
        lines += [f"{key.name}{kind}{default}".rstrip(), f"    {key.help}"]
    return "\n".join(lines) + "\n"


def page_with_tables(page: str) -> str:
    """A page of docs/ with a table of keys instead of each `<!-- keys: NAME -->`."""
    from instruct.data.cards import DatasetCard
    from instruct.judging.cards import JudgeCard
    from instruct.validation.human_sets import HumanSetCard

    cards = (JudgeCard, DatasetCard, HumanSetCard)
    keys = {"config": config_keys(), **{model.__name__: card_keys(model) for model in cards}}
    return _MARKER.sub(lambda marker: _table(keys[marker[1]]), page)


def _table(keys: list[Key]) -> str:
    """A table of keys, where equal keys share a row."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    rows: dict[tuple[str, str, str], list[str]] = {}
    for key in keys:
        rows.setdefault((key.type, key.default, key.help), []).append(f"`{key.name}`")
    for (kind, default, text), names in rows.items():
        written = {"": "", "null": "", "required": "required"}.get(default, f"`{default}`")
        lines.append(f"| {', '.join(names)} | {kind} | {written} | {text} |")
    return "\n".join(lines)


@functools.cache
def json_schema() -> dict[str, Any]:
    """The JSON Schema of a config file, `extends` included."""
    schema = ExperimentConfig.model_json_schema()
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "Start from this file and override parts of it.",
    }
    schema["$defs"]["BenchOptions"] = BenchOptions.model_json_schema()  # no key of a config: flags are made of it
    schema["required"] = []  # a file that extends another need not have a name
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def main() -> None:
    """Print a page, or write the schema."""
    if len(sys.argv) > 1:
        print(page_with_tables(Path(sys.argv[1]).read_text(encoding="utf-8")))
    else:
        SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")


def schema_text() -> str:
    """config.schema.json."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
