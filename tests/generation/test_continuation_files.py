"""The file of a system's continuations: what is written is read, and anything else is refused in one line."""

from __future__ import annotations

import json

import pytest

from instruct.base.errors import InputError
from instruct.generation.continuations import read_continuations

ROW = {
    "id": "a.txt:1",
    "prefix": " It was",
    "continuation": " dark.\n",
    "reference": None,
    "sample": 0,
    "seed": 0,
    "tokens": 3,
    "finish_reason": "length",
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{**ROW, "prefix": 3}], "row 1: prefix: must be text"),
        ([ROW, {key: value for key, value in ROW.items() if key != "id"}], "row 2: id: "),
        ([ROW, ROW], "row 2: sample 0 of seed 0 of the prefix 'a.txt:1' is already in row 1"),
        ({"output": "a"}, "must be a list"),
    ],
)
def test_other_content_is_refused_with_its_row_and_field(tmp_path, content, message):
    path = tmp_path / "emo.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"emo\.json") as error:
        read_continuations(path)
    assert message in str(error.value)
