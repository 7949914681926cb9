"""Flags that set options, with the help, type and default of the options' fields.

They are read from config.schema.json, which is written from the options: importing these would slow `--help` down.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

_TYPES: dict[str, Any] = {"integer": int, "number": float, "string": str}
_METAVARS = {"integer": "N", "number": "X"}


@functools.cache
def config_schema() -> dict[str, Any]:
    """The JSON Schema of a config."""
    path = Path(__file__).resolve().parents[1] / "config.schema.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _fields(section: str) -> dict[str, dict[str, Any]]:
    return dict(config_schema()["$defs"][section]["properties"])


def add_option_flags(sub: argparse.ArgumentParser, section: str, *keys: str, **renamed: str) -> None:
    """A flag for each of the section's keys (default: all); one that is not given is None.

    Args:
        section: the name of the options' class.
        renamed: the flags of keys that are not called like their key.
    """
    fields = _fields(section)
    for key in keys or fields:
        field = fields[key]
        kind = next((kind for kind in field.get("anyOf", ()) if kind["type"] != "null"), field)
        choices = kind.get("enum") or ([kind["const"]] if "const" in kind else None)
        flag = f"--{renamed.get(key, key).replace('_', '-')}"
        text = _help(field)
        if kind["type"] == "boolean":
            sub.add_argument(flag, dest=key, action="store_const", const=True, help=text)
        else:
            metavar = None if choices else _METAVARS.get(kind["type"], "TEXT")
            sub.add_argument(flag, dest=key, type=_TYPES[kind["type"]], choices=choices, metavar=metavar, help=text)


def option_help(section: str, key: str) -> str:
    """The help of a key."""
    return _help(_fields(section)[key])


def _help(field: dict[str, Any]) -> str:
    text = field["description"].removesuffix(".").replace("%", "%%")
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    return text if field.get("default") in (None, False, []) else f"{text} (default: {field['default']})"


def options_given(arguments: argparse.Namespace, section: str) -> dict[str, Any]:
    """The options of a section that the call's flags set."""
    return {key: value for key in _fields(section) if (value := getattr(arguments, key, None)) is not None}
