"""Nulls in tool calls and tools: those of a file are kept, those that Arrow adds are left out."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset

from instruct.data.nulls import ArrowRows
from instruct.data.rows import load_rows


def chat(tool: str, arguments: Any, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A call of a tool with a parameter for each of the arguments."""
    call = {"type": "function", "function": {"name": tool, "arguments": arguments}}
    names = arguments if isinstance(arguments, dict) else ["city"]
    properties = {name: {"type": "string", f"of_{name}": "a"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [call]}],
        "tools": [{"type": "function", "function": {"name": tool, "parameters": parameters}}],
    }


UNION = [chat("weather", {"city": "Paris"}), chat("search", {"query": "x", "limit": "3"})]
KEPT = {
    "a null beside values": [chat("weather", {"city": "Paris", "unit": None})],
    "a required argument": [
        chat("weather", {"city": "Paris", "unit": None}, ("city", "unit")),
        chat("weather", {"city": "Rome", "unit": "C"}, ("city", "unit")),
    ],
}


def rows_of(path: str) -> tuple[list[dict[str, Any]], list[str]]:
    read = load_rows(None, files=[path])
    return list(read.rows), [note for note in read.notes if "null" in note]


@pytest.mark.parametrize("name", ["union", *KEPT])
def test_rows_from_parquet_equal_those_from_json(name, write):
    rows = KEPT.get(name, UNION)
    expected, notes = rows_of(write("rows.jsonl", rows))
    assert notes == []
    found, notes = rows_of(write("rows.parquet", rows))
    assert found == expected
    assert len(notes) == (name == "union")
    if name == "union":
        assert notes[0].startswith("nulls in the tool calls or tools of 2 rows: left out, because Parquet")
        dataset = Dataset.from_list(rows)
        restored = [ArrowRows(dataset.features.arrow_schema).restored(row)[0]["tools"] for row in dataset]
        assert restored == [row["tools"] for row in rows]
