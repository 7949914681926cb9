"""Rows of Arrow as their file had them.

A column of Arrow gives every mapping in it the keys of all others, with null. A chat template renders tool calls and
tools as they are, so that such nulls would be trained.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from instruct.base.errors import counted
from instruct.base.parsing import parse_json

if TYPE_CHECKING:
    from pyarrow import DataType, Field, Schema

_TOOLS = ("tool_calls", "tools", "chat_template_kwargs")
_NULL = 0  # the id of Arrow's type of nulls alone


class ArrowRows:
    """Rows of Arrow without the nulls that it added to their tool calls and tools.

    A null stays if the tool requires the argument, or if no row has another value for the key and no other key of its
    mapping is null. Of JSON, as text or as the type `Json` of `datasets`, every null stays.

    Args:
        schema: of the rows; None of rows that are not Arrow's, which stay as they are.
        json_texts: values of the JSON type are still texts.
    """

    def __init__(self, schema: Schema | None, json_texts: bool = False) -> None:
        self._types = {field.name: field.type for field in schema or () if _matters(field)}
        self._json_texts = json_texts
        self._required: dict[str, Collection[str]] = {}
        self._nulls = 0

    def restored(self, row: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """The row, and the number of keys that were left out."""
        if not self._types:
            return row, 0
        self._nulls = 0
        self._required = _required(row.get("tools"))
        restored = dict(row)
        for name, kind in self._types.items():
            if name in row:
                restored[name] = self._value(row[name], kind, name in _TOOLS)
        return restored, self._nulls

    def _value(self, value: Any, kind: DataType, of_tools: bool, required: Collection[str] = ()) -> Any:
        if _is_json(kind):
            return parse_json(value) if self._json_texts and isinstance(value, str) else value
        if isinstance(value, list) and (item := getattr(kind, "value_type", None)):  # a map has none
            return [self._value(each, item, of_tools) for each in value]
        if not isinstance(value, dict):
            return value
        types = {field.name: field.type for field in kind}
        nulls = {name for name in types if value.get(name, 0) is None and name not in required} if of_tools else set()
        if all(types[name].id == _NULL for name in nulls):
            nulls = set()
        self._nulls += len(nulls)
        arguments = self._required.get(str(value.get("name")), ())
        kept = {name: item for name, item in value.items() if name not in nulls}
        for name in kept.keys() & types.keys():
            needed = arguments if name == "arguments" else ()
            kept[name] = self._value(kept[name], types[name], of_tools or name in _TOOLS, needed)
        return kept


def null_note(rows: int) -> str:
    """What the user has to know about keys that were left out."""
    return (
        f"nulls in the tool calls or tools of {counted(rows, 'row')}: left out, because Parquet and Arrow give every "
        "mapping the keys of all others, with null; to train a null, write the arguments as JSON text"
    )


def _matters(field: Field) -> bool:
    """Whether tools, calls of them or JSON are in a field of Arrow."""
    kind = field.type
    inner = (kind.field(number) for number in range(kind.num_fields))
    return field.name in _TOOLS or _is_json(kind) or any(map(_matters, inner))


def _is_json(kind: DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.json"


def _required(tools: Any) -> dict[str, Collection[str]]:
    """The arguments that each tool of a row requires, by its name."""
    if isinstance(tools, str):
        with contextlib.suppress(ValueError):
            tools = parse_json(tools)
    required: dict[str, Collection[str]] = {}
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": {"name": name, "parameters": {"required": list(names)}}}:
                required[str(name)] = names
            case {"name": name, "parameters": {"required": list(names)}}:
                required[str(name)] = names
    return required
