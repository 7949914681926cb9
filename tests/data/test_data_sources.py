"""Files of every type, and every kind of unreadable file."""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.data.sources import read_file

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


def test_every_file_type_gives_the_same_rows(tmp_path, write):
    files = [
        write("a.json", ROWS),
        write("b.jsonl", ROWS),
        write("bom.jsonl", "\ufeff\n" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)),
        write_csv(tmp_path / "c.csv", ROWS),
        write("d.parquet", ROWS),
        write_csv(tmp_path / "semicolons.csv", ROWS, delimiter=";"),
        write_csv(tmp_path / "tabs.csv", ROWS, delimiter="\t"),
    ]
    for file in files:
        assert [raw.fields for raw in read_file(Path(file))] == ROWS, file
    hashes = {load_rows(None, files=[file]).sha256 for file in files}
    assert len(hashes) == 1
    both = load_rows(None, files=[files[0], files[2]])
    assert both.counts == {"read": 4, "kept": 4, "empty": 0}
    assert list(both.sources) == [f"{files[0]}:{row}" for row in (1, 2)] + [f"{files[2]}:{row}" for row in (2, 4)]


def test_a_column_of_mappings_is_unwrapped_from_files(write):
    card = load_dataset_card("recycled_evol_instruct")
    nested = write("nested.parquet", [{"data": row} for row in ROWS])
    flat = write("flat.jsonl", ROWS)
    assert list(load_rows(card, files=[nested]).rows) == list(load_rows(card, files=[flat]).rows)
    with pytest.raises(InputError, match="row 1: data: must be a mapping; fix the card's column"):
        load_rows(card, files=[write("text.jsonl", [{"data": "x"}])])


LINE = json.dumps(ROWS[0]) + "\n"
TAR = tarfile.TarInfo("rows.txt").tobuf() + bytes(1024)
UNREADABLE = [
    ("bad.jsonl", LINE + "\n{'instruction': 'x'}\n", "bad.jsonl, row 3: is not JSON (Expecting property name"),
    ("short.csv", "instruction,output\na,b\nc\n", "short.csv, row 2: must have the 2 fields of the header; quote"),
    ("twice.jsonl", LINE + '\n{"a": [{"b": 1, "b": 2}]}', "twice.jsonl, row 3: has the key 'b' 2 times; keep one of"),
    ("rows.tar.gz", gzip.compress(TAR), "rows.tar.gz: holds a tar archive; unpack it and give the files inside"),
]


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE, ids=[case[0] for case in UNREADABLE])
def test_an_unreadable_file_is_refused_in_one_line(name, content, message, write):
    file = write(name, content)
    with pytest.raises(InputError) as error:
        load_rows(None, files=[file])
    assert str(error.value).startswith(str(Path(file).parent / message))
    assert "\n" not in str(error.value)


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
