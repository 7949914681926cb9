"""Files of replies are written row by row, to the bytes of `json.dumps`."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from instruct.generation.written import json_list, write_rows

ROWS = st.lists(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(), max_size=3), max_size=4)


@given(rows=ROWS, indent=st.integers(1, 4))
def test_pieces_are_those_of_json(rows, indent):
    whole = json.dumps(rows, ensure_ascii=False, indent=indent) + "\n"
    assert b"".join(json_list(rows, indent)).decode() == whole


def test_a_file_that_holds_the_rows_is_left_alone(tmp_path):
    path, rows = tmp_path / "emo.json", [{"output": "a\nb"}, {"output": "é"}]
    write_rows(path, lambda: rows, indent=2)
    before = path.stat()
    write_rows(path, lambda: rows, indent=2)
    assert path.stat().st_ino == before.st_ino
    for other in (rows[:1], [*rows, {}], [{"output": "b"}, rows[1]]):
        write_rows(path, lambda other=other: other, indent=2)  # type: ignore[misc]
        assert json.loads(path.read_text(encoding="utf-8")) == other
    assert path.stat().st_ino != before.st_ino
