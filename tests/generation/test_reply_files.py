"""A file of replies is written again only if its rows are others."""

from __future__ import annotations

import json

from instruct.generation.written import write_rows


def test_a_file_that_holds_the_rows_is_left_alone(tmp_path):
    path, rows = tmp_path / "emo.json", [{"output": "a\nb"}, {"output": "é"}]
    write_rows(path, rows, indent=2)
    before = path.stat()
    write_rows(path, rows, indent=2)
    assert path.stat().st_ino == before.st_ino
    write_rows(path, rows[:1], indent=2)
    assert json.loads(path.read_text(encoding="utf-8")) == rows[:1]
