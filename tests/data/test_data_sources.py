"""Files of every type, and every kind of unreadable file."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.data.sources import is_text_file, read_file, read_texts

ROWS = [
    {"instruction": "Quote, and break", "input": "", "output": 'He said "no",\nthen left.'},
    {"instruction": "Übersetze", "input": "naïve \u2028 line", "output": "ok"},
]


def write_csv(path: Path, rows: list[dict[str, Any]], **dialect: str) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), **dialect)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return str(path)


def test_every_file_type_gives_the_same_rows(tmp_path, write):
    files = [
        write("a.json", ROWS),
        write("b.jsonl", ROWS),
        write("lines.json", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)),
        write("bom.jsonl", "\ufeff\n" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)),
        write_csv(tmp_path / "c.csv", ROWS),
        write_parquet(tmp_path / "d.parquet", ROWS),
        write_csv(tmp_path / "semicolons.csv", ROWS, delimiter=";"),
        write_csv(tmp_path / "tabs.csv", ROWS, delimiter="\t"),
        write("UPPER.JSONL", "".join(json.dumps(row) + "\r\n" for row in ROWS)),
    ]
    for file in files:
        assert [raw.fields for raw in read_file(Path(file))] == ROWS, file
    hashes = {load_rows(None, files=[file]).sha256 for file in files}
    assert len(hashes) == 1
    both = load_rows(None, files=[files[0], files[3]])
    assert both.counts == {"read": 4, "kept": 4, "empty": 0}
    assert list(both.sources) == [f"{files[0]}:{row}" for row in (1, 2)] + [f"{files[3]}:{row}" for row in (2, 4)]


def test_a_column_of_mappings_is_unwrapped_from_files(tmp_path, write):
    card = load_dataset_card("recycled_evol_instruct")
    nested = write_parquet(tmp_path / "nested.parquet", [{"data": row} for row in ROWS])
    flat = write("flat.jsonl", ROWS)
    assert list(load_rows(card, files=[nested]).rows) == list(load_rows(card, files=[flat]).rows)
    with pytest.raises(InputError, match="row 1: data: must be a mapping; fix the card's column"):
        load_rows(card, files=[write("text.jsonl", [{"data": "x"}])])


def archive(make: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    make(file)
    return file.getvalue()


LINE = json.dumps(ROWS[0]) + "\n"
TAR = archive(lambda file: tarfile.TarFile(fileobj=file, mode="w").addfile(tarfile.TarInfo("rows.txt")))
TWO_COLUMNS = archive(
    lambda file: pyarrow.parquet.write_table(pyarrow.table([["text"], ["text"]], names=["a", "a"]), file)
)
UNREADABLE = [
    ("bad.jsonl", LINE + "\n{'instruction': 'x'}\n", "bad.jsonl, row 3: is not JSON (Expecting property name"),
    ("list.jsonl", LINE + '["x"]\n', "list.jsonl, row 2: is a JSON array, not an object; write"),
    (
        "latin.jsonl",
        LINE.encode() + b'{"a": "\xe9"}\n',
        "latin.jsonl, line 2: is not UTF-8 text; save the file as UTF-8",
    ),
    ("bad.json", '[\n{"a": 1},\n{"a" 2}\n]', "bad.json, line 3: is not JSON (Expecting ':' delimiter); fix that line"),
    ("item.json", '[{"instruction": "a", "output": "b"}, 3]', "item.json, row 2: is a JSON number, not an object"),
    ("empty.json", "", "empty.json: has no rows; give a file with at least one"),
    ("short.csv", "instruction,output\na,b\nc\n", "short.csv, row 2: must have the 2 fields of the header; quote"),
    (
        "quote.csv",
        'instruction,output\na,"b\n',
        "quote.csv, row 1: is not CSV (unexpected end of data); fix its quotes",
    ),
    ("bad.parquet", b"PAR0", "bad.parquet: is not a Parquet file ("),
    ("rows.xml", LINE, "rows.xml: unknown file type '.xml'; give a .json, .jsonl, .csv, .parquet file"),
    ("rows.parquet.gz", LINE, "rows.parquet.gz: unknown file type '.gz'; give a .json, .jsonl, .csv, .parquet file"),
    ("twice.jsonl", LINE + '\n{"a": [{"b": 1, "b": 2}]}', "twice.jsonl, row 3: has the key 'b' 2 times; keep one of"),
    ("twice.json", '[{"a": [{}]}, {"a": 1, "a": 2}]', "twice.json, row 2: has the key 'a' 2 times; keep one of them"),
    ("twice.csv", "a,b,a\n1,2,3\n", "twice.csv, header: has the column 'a' 2 times; keep one of them"),
    ("twice.parquet", TWO_COLUMNS, "twice.parquet: has the column 'a' 2 times; keep one of them"),
    (
        "space.csv",
        "a, b\n1,2\n",
        "space.csv, header: the column ' b' begins or ends with white space; rename it to 'b'",
    ),
    ("space.jsonl", LINE + '{"a ": 1}', "space.jsonl, row 2: the column 'a ' begins or ends with white space; rename"),
    ("rows.tar.gz", gzip.compress(TAR), "rows.tar.gz: holds a tar archive; unpack it and give the files inside"),
    ("rows.txt", TAR, "rows.txt: holds a tar archive; unpack it and give the files inside"),
    ("zip.txt", bz2.compress(b"a"), "zip.txt, line 1: is not UTF-8 text; save the file as UTF-8, or unpack it"),
]


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE, ids=[case[0] for case in UNREADABLE])
def test_an_unreadable_file_is_refused_in_one_line(name, content, message, write):
    file = write(name, content)
    with pytest.raises(InputError) as error:
        load_rows(None, files=[file])
    assert str(error.value).startswith(str(Path(file).parent / message))
    assert "\n" not in str(error.value)


def test_a_missing_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"no\.jsonl: no such file; give the path of an existing \.json"):
        load_rows(None, files=[str(tmp_path / "no.jsonl")])
    with pytest.raises(InputError, match="is a folder; give the files inside it"):
        load_rows(None, files=[str(tmp_path)])
    with pytest.raises(InputError, match="no card and no files"):
        load_rows(None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(
    data=st.lists(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufeff")), min_size=2, max_size=2
        ),
        min_size=1,
    )
)
def test_rows_are_the_same_with_and_without_a_mark(data, encoding, suffix, tmp_path):
    rows = [{"a": one, "b": other} for one, other in data]
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(_text_of(rows, suffix).encode(encoding))
    assert [row.fields for row in read_file(path)] == rows


def _text_of(rows: list[dict[str, str]], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(rows, ensure_ascii=False)
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in line) + "\n" for line in lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.binary(max_size=60),
    name=st.sampled_from(["f.json", "f.jsonl", "f.csv", "f.parquet", "f.txt", "f.gz"]),
)
def test_any_bytes_give_rows_or_a_one_line_error(content, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    try:
        rows = list(read_texts(path) if is_text_file(path) else read_file(path))
    except InputError as error:
        message = str(error)
    else:
        assert {type(row.fields) for row in rows} == {dict}
        return
    assert message.startswith(f"{path}")
    assert len(message.splitlines()) == 1


def test_limit_counts_kept_rows(write):
    empty = {"instruction": "a", "output": ""}
    file = write("rows.jsonl", json.dumps(empty) + "\n" + LINE * 3 + "not read\n")
    found = load_rows(None, files=[file], limit=2)
    assert found.counts == {"read": 3, "kept": 2, "empty": 1}
    assert list(found.sources) == [f"{file}:2", f"{file}:3"]


def test_the_hash_covers_the_rows(write):
    def sha256(rows: list[dict[str, Any]], template: Any = "chat") -> str:
        return load_rows(None, files=[write("rows.jsonl", rows)], template=template).sha256

    assert sha256(ROWS) == sha256([row | {"extra": 1} for row in ROWS])
    assert sha256(ROWS) not in (sha256(ROWS[::-1]), sha256(ROWS, "alpaca"))


def test_real_rows_load(shared_data):
    alpaca = load_dataset_card("alpaca_gpt4")
    found = load_rows(alpaca, files=[str(shared_data / "alpaca_gpt4" / "alpaca_gpt4.jsonl")])
    assert found.counts == {"read": 2036, "kept": 2036, "empty": 0}
    assert all(row["prompt"].endswith("\n\n### Response:") for row in found.rows)
    evol = load_dataset_card("recycled_evol_instruct")
    found = load_rows(evol, files=[str(shared_data / "evol_instruct" / "evol_instruct.jsonl")])
    assert found.counts == {"read": 1000, "kept": 1000, "empty": 0}
