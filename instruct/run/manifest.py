"""manifest.json: which steps of a run were made, from what and how. config.yaml: what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from instruct.base.errors import InputError
from instruct.base.files import read_text
from instruct.base.parsing import RepeatedKeyError, parse_json, parse_yaml

FORMAT = 3  # of a run directory


def read_manifest(path: Path) -> dict[str, Any]:
    """The content of a manifest.

    Raises:
        InputError: there is none, it is not JSON, or it has another format.
    """
    manifest = _read(path, parse_json)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path}: is of another format than {FORMAT}; use the version of instruct that wrote the run")
    return manifest


def read_config(path: Path) -> dict[str, Any]:
    """The content of a run's config.yaml.

    Raises:
        InputError: there is none, or it is not YAML.
    """
    return _read(path, parse_yaml)


def _read(path: Path, load: Callable[[str], Any]) -> dict[str, Any]:
    try:
        content = load(read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file; {path.parent} is not a run directory") from None
    except RepeatedKeyError as error:
        problem = str(error)
    except (ValueError, RecursionError, yaml.YAMLError):
        problem = f"is not valid {'JSON' if load is parse_json else 'YAML'}"
    else:
        if isinstance(content, dict):
            return content
        problem = "is not a mapping"
    raise InputError(f"{path}: {problem}; restore it or delete the run")
