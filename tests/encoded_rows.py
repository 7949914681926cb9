"""One row's token ids, for the tests of what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instruct.base.errors import InputError
from instruct.data.formats import TrainOn
from instruct.data.templates import DEFAULT, Rendering
from instruct.data.tokens import EncodedRow, RowEncoder


def encode_row(
    tokenizer: Any,
    row: Mapping[str, Any],
    max_length: int | None,
    train_on: TrainOn = "assistant_turns",
    rendering: Rendering = DEFAULT,
) -> EncodedRow:
    """The row's token ids, truncated to the first `max_length` tokens (None: not truncated).

    Raises:
        InputError: the template needs several rows for this chat; else as `encode_rows`.
    """
    rows = RowEncoder(tokenizer, max_length, train_on, rendering).encode(row, None)
    if len(rows) > 1:
        raise InputError(f"the chat template needs {len(rows)} rows for this chat; encode its answers one by one")
    return rows[0]
