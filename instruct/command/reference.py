"""Every key of a config with its type, default and help, from the options' own definitions.

    python -m instruct.command.reference

writes docs/configuration.md and config.schema.json; a test keeps them in sync with the options.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from instruct.base.cards import PACKAGE
from instruct.config import ExperimentConfig
from instruct.phases.bench import BenchOptions

SCHEMA_PATH = PACKAGE / "config.schema.json"
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class Key(NamedTuple):
    """One key: its dotted name, its type with choices and bounds, its default as YAML, and a line of help."""

    name: str
    type: str
    default: str
    help: str


def config_keys() -> list[Key]:
    """Every key of an experiment's config; those that EMOConfig adds to TRL's SFTConfig under `train`."""
    return list(_keys_of(ExperimentConfig, ""))


def _keys_of(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        inner, suffix = _inner_model(field.annotation)
        text = field.description or ""
        if inner is None:
            yield Key(prefix + name, _type_of(field), _default_of(field), text)
        else:
            shown = "" if suffix == "" else _default_of(field)
            yield Key(prefix + name + suffix, "section", shown, text)
            yield from _keys_of(inner, f"{prefix}{name}{suffix}.")
        if prefix + name == "train":
            yield from _trainer_keys()


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


def _inner_model(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside a section's type, and what follows the section's name: nothing, `[]` or `.NAME`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin, arguments = get_origin(annotation), get_args(annotation)
    suffix = "[]" if origin is list else ".NAME" if origin is dict else ""
    for argument in arguments:
        inner, more = _inner_model(argument)
        if inner is not None:
            return inner, suffix + more
    return None, ""


def _type_of(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(each, name):g}"
        for each in field.metadata
        for name, sign in _SIGNS.items()
        if isinstance(each, getattr(annotated_types, name.capitalize()))
    ]
    return ", ".join([_words(field.annotation), *bounds])


def _words(annotation: Any) -> str:
    """A type as a reader of YAML would call it; that a key may be null shows in its default."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in arguments if each is not type(None)))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is Annotated:
        return _words(arguments[0])
    if origin is list:
        return f"list of {_words(arguments[0])}"
    if origin is tuple:
        return f"[{', '.join(map(_words, arguments))}]"
    if origin is dict:
        return "mapping"
    return {str: "text", int: "integer", float: "number", bool: "true, false"}.get(annotation, str(annotation))


def _default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if isinstance(default, dict):
        default = {name: each.model_dump(exclude_unset=True) for name, each in default.items()}
    return _yaml(default)


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


def render_markdown(page: str) -> str:
    """docs/configuration.md: the words of the page, and the table of the keys."""
    words, marker, _ = page.partition("<!-- written by python -m instruct.command.reference -->\n")
    lines = ["", "| key | type | default | meaning |", "|---|---|---|---|"]
    for key in config_keys():
        default = key.default if key.default in ("", "required") else f"`{key.default}`"
        lines.append(f"| `{key.name}` | {key.type} | {default} | {key.help} |")
    return words + marker + "\n".join(lines) + "\n"


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
    """Write the page and the schema."""
    page = PACKAGE.parent / "docs" / "configuration.md"
    page.write_text(render_markdown(page.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")


def schema_text() -> str:
    """config.schema.json."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
