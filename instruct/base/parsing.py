"""JSON and YAML as values, without what a parser would lose in silence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from instruct.base.errors import InputError, one_line


class RepeatedKeyError(ValueError):
    """An object of JSON has a key more than once, of which Python would take the last one."""


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        RepeatedKeyError: an object has a key more than once.
        ValueError: it is not JSON.
    """
    return JSON.decode(text)


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        key, times = Counter(key for key, _ in pairs).most_common(1)[0]
        raise RepeatedKeyError(f"has the key {one_line(key, 60)!r} {times} times; keep one of them")
    return record


JSON = json.JSONDecoder(object_pairs_hook=_record)


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping that has a key more than once; PyYAML takes the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                problem = f"has the key {one_line(key.value, 60)!r} more than once"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Expand `<<`, of which each may double a mapping."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_MERGED:
            raise yaml.YAMLError(f"has more than {_MOST_MERGED:,} keys in a mapping once `<<` is expanded")


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML, contains itself, or is too deep or too large.
    """
    try:
        value = yaml.load(text, UniqueKeyLoader)
    except yaml.YAMLError:
        raise
    except Exception as error:  # depth leads to a RecursionError, a tag such as !!int to whatever int(…) raises
        raise yaml.YAMLError(one_line(error) or type(error).__name__) from None
    if _values_in(value, {}) > _MOST_VALUES:
        raise yaml.YAMLError(f"has more than {_MOST_VALUES:,} values once its aliases are expanded")
    return value


_MOST_VALUES = 1_000_000
_MOST_MERGED = 10_000
_MOST_LEVELS = 100


def _values_in(value: Any, known: dict[int, int], level: int = 0) -> int:
    """The number of values with all aliases expanded; each list or mapping is counted once (`known`, by its id)."""
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise yaml.YAMLError("has a surrogate escape such as \\ud83d; write the character itself")
    if not isinstance(value, dict | list):
        return 1
    if level > _MOST_LEVELS:
        raise yaml.YAMLError(f"contains itself, or is nested more than {_MOST_LEVELS} levels deep")
    if id(value) not in known:
        inner = value if isinstance(value, list) else [*value, *value.values()]
        known[id(value)] = 1 + sum(_values_in(part, known, level + 1) for part in inner)
    return known[id(value)]


def invalid_yaml(path: Path, error: yaml.YAMLError) -> InputError:
    """One line on where a file is not YAML."""
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    problem = one_line(getattr(error, "problem", None) or error)
    return InputError(f"{path}{line}: is not valid YAML ({problem}); fix that line")
