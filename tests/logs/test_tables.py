"""Tables with named columns: each cell is a value, counted as missing, or refused with its place."""

from __future__ import annotations

import io
import json
import math

import pyarrow.json
import pyarrow.parquet
import pytest

from instruct.base.errors import InputError
from instruct.logs.read import read_logs
from instruct.logs.source import Columns

ROWS = [
    {"id": 1, "score": 1, "right": True, "passage": "p", "model": "a", "set": "x", "repeat": 1, "question": "Q?"},
    {"id": 1, "score": 0.25, "right": False, "passage": "p", "model": "a", "set": "x", "repeat": 2, "question": "Q?"},
    {"id": 2, "score": None, "right": True, "passage": "q", "model": "a", "set": "x", "repeat": 1, "question": "R?"},
    {"id": 1, "score": 0.5, "right": None, "passage": "p", "model": "b", "set": "x", "repeat": 1, "question": "Q?"},
]
ALL = Columns("id", ("score", "right"), "passage", "model", "set", "repeat")


def csv_of(rows) -> bytes:
    lines = [rows[0], *(["" if cell is None else cell for cell in row.values()] for row in rows)]
    return "\n".join(",".join(map(str, line)) for line in lines).encode()


def parquet_of(rows) -> bytes:
    data = io.BytesIO()
    lines = "\n".join(map(json.dumps, rows)).encode()
    pyarrow.parquet.write_table(pyarrow.json.read_json(io.BytesIO(lines)), data)  # without importing pandas
    return data.getvalue()


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".csv", csv_of(ROWS)), (".json", json.dumps(ROWS).encode()), (".parquet", parquet_of(ROWS))],
)
def test_every_cell_of_a_table_is_a_value_or_counted_as_missing(suffix, content, tmp_path) -> None:
    path = tmp_path / f"scores{suffix}"
    path.write_bytes(content)
    found = read_logs(path, ALL)
    ours, theirs = found.logs
    assert (ours.tool, ours.system, ours.task, theirs.system) == ("table", "a", "x", "b")
    assert ours.units == ["1", "1", "2"]
    assert ours.clusters == ["p", "p", "q"]
    assert ours.mean("score") == 0.625
    assert ours.mean("right") == 0.75
    assert math.isnan(ours.values["score"][2])
    assert ours.reasons == theirs.reasons == {"empty in the table": 1}
    assert ours.texts[0] == ("Q?", "")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("id,score\na,1\n", Columns(), r"name the columns with its units and metrics: id, score$"),
        ("id,score\na,1\n", Columns("id", ("scores",)), r"row 1: has no column 'scores'; .* there: id, score$"),
        ("id,score\na,1\nb,inf\n", Columns("id", ("score",)), r"row 2: score: inf is not a finite number"),
        ("id,score\na,1\n,1\n", Columns("id", ("score",)), r"row 2: id: is empty"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_its_place(text, columns, message, tmp_path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read_logs(path, columns)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_a_folder_names_the_files_that_it_does_not_know(tmp_path) -> None:
    (tmp_path / "scores.csv").write_text("id,score\na,1\n")
    (tmp_path / "other.csv").write_text("name,size\na,1\n")
    (tmp_path / "notes.txt").write_text("so\n")
    (tmp_path / "cut.json").write_text('[{"id": 1}')
    found = read_logs(tmp_path, Columns("id", ("score",)))
    assert [log.path.name for log in found.logs] == ["scores.csv"]
    why = {path.name: problem for path, problem in found.unknown.items()}
    assert why.keys() == {"cut.json", "notes.txt", "other.csv"}
    assert why["notes.txt"] is why["other.csv"] is None
    assert "cut.json, line 1: is not JSON" in why["cut.json"]
    with pytest.raises(InputError, match=r"cut.json, line 1: is not JSON"):
        read_logs(tmp_path / "cut.json")
