"""Chats, and row sets made of rows, for the tests of what is done with them."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from instruct.data.arrow import RowFolder
from instruct.data.rows import RowSet, stored, stored_features
from instruct.data.sources import RawRow


def chat(*contents: str) -> list[dict[str, str]]:
    """Turns of a user and an assistant, one after the other."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(contents)]


def row_set(*rows: dict[str, Any], empty: int = 0) -> RowSet:
    """These rows, which are in a file called r."""
    listed = [stored(RawRow("r", number, {}), row) for number, row in enumerate(rows, start=1)]
    columns = {name: [row[name] for row in listed] for name in stored_features()}
    dataset = Dataset.from_dict(columns, features=stored_features())
    counts = {"read": len(rows) + empty, "kept": len(rows), "empty": empty}
    return RowSet(dataset, RowFolder(), counts, "")
