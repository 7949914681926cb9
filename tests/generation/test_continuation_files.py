"""The file of a system's continuations: what is written is read, and anything else is refused in one line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.generation.continuations import Continuation, read_continuations, write_continuations

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
text = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.builds(Continuation, id=text, prefix=text, continuation=text, reference=st.none() | text,
                          sample=st.integers(0, 9), seed=st.integers(0, 9), tokens=st.integers(0, 99),
                          finish_reason=st.sampled_from(["length", "stop"])),
                min_size=1, unique_by=lambda row: row.key))  # fmt: skip
def test_what_is_written_is_read_to_the_letter(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("run") / "emo.json"
    write_continuations(path, rows)
    assert read_continuations(path) == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{**ROW, "prefix": 3}], "row 1: prefix: must be text"),
        ([ROW, {key: value for key, value in ROW.items() if key != "id"}], "row 2: id: "),
        ([{**ROW, "sample": True}], "row 1: sample: must be a whole number"),
        ([{**ROW, "more": 1}], "row 1: more: "),
        ([ROW, ROW], "row 2: sample 0 of seed 0 of the prefix 'a.txt:1' is already in row 1"),
        ([], "has no continuations"),
        ({"output": "a"}, "must be a list"),
    ],
)
def test_other_content_is_refused_with_its_row_and_field(tmp_path, content, message):
    path = tmp_path / "emo.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"emo\.json") as error:
        read_continuations(path)
    assert message in str(error.value)


def test_a_missing_file_names_the_command_that_writes_it(tmp_path):
    with pytest.raises(InputError, match="instruct generate"):
        read_continuations(tmp_path / "run" / "continuations" / "emo.json")
