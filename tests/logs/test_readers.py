"""Every reader: knows its tool's files alone, and reads a file or refuses it in one line; nothing is lost uncounted."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from log_samples import SAMPLES, Sample, encoded
from odd_files import changed, changed_bytes

from instruct.base.errors import InputError
from instruct.logs.read import READERS, Reader, read_logs
from instruct.logs.source import Source

CASES = [(reader, number) for reader in READERS for number in range(len(SAMPLES[reader.tool]))]
NAMES = [f"{reader.tool} {number}" for reader, number in CASES]


@pytest.mark.parametrize(("reader", "number"), CASES, ids=NAMES)
def test_each_file_is_known_to_the_reader_of_its_tool_alone(reader, number, tmp_path) -> None:
    sample = SAMPLES[reader.tool][number]
    path = sample.write(tmp_path)
    for file in (path, *(tmp_path / name for name in sample.files)):
        read = [each.tool for each in READERS if each.read(Source(file)) is not None]
        assert read == ([reader.tool] if reader.tool != "table" else [])
    found = read_logs(tmp_path, sample.columns)
    assert sum(len(log.units) for log in found.logs) == sample.rows
    assert {log.path.name for log in found.logs} == {path.name}


def check(reader: Reader, path: Path, sample: Sample) -> bool:
    """Whether a file was read: then each row has a value or a reason; else one line names what is wrong, and where."""
    try:
        logs = reader.read(Source(path, sample.columns)) or []
        known = bool(logs) or bool(read_logs(path, sample.columns))
    except InputError as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 1500
        assert any(name.name in text for name in path.parent.iterdir())
        assert ";" in text
        return False
    for log in logs:
        for column in (*log.values.values(), *log.hashes.values(), log.clusters):
            assert len(column) == len(log.units)
        missing = {row for values in log.values.values() for row, value in enumerate(values) if value != value}
        assert sum(log.reasons.values()) == len(missing)
        about = [log.units, log.clusters, log.texts, log.settings, log.figures, [*log.reasons]]
        json.dumps(about, ensure_ascii=False).encode()
    if logs and sample.count is not None:
        assert sum(len(log.units) for log in logs) == sample.count(held(path))
    return known


def held(path: Path) -> Any:
    """What a file holds, read in another way than the readers do."""
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    with contextlib.suppress(ValueError):
        content = json.loads(text)
        return content if path.suffix == ".json" else [content]
    return [json.loads(line) for line in text.split("\n") if line.strip()]


@st.composite
def changed_files(draw: st.DrawFn, sample: Sample) -> tuple[str, bytes]:
    """One of a sample's files, most often the log, with random changes of its values or its bytes."""
    name = draw(st.sampled_from([next(iter(sample.files)), *sample.files]))
    if draw(st.integers(0, 3)) == 0:
        return name, draw(changed_bytes(encoded(name, sample.files[name])))
    return name, encoded(name, draw(changed(sample.files[name])))


@pytest.mark.parametrize(("reader", "number"), CASES, ids=NAMES)
def test_a_changed_file_is_read_or_refused_in_one_line(reader, number, tmp_path) -> None:
    sample = SAMPLES[reader.tool][number]
    path = sample.write(tmp_path)
    outcomes = []

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=HealthCheck,
        phases=(Phase.generate, Phase.shrink),
    )
    @given(changed_files(sample))
    def change(file: tuple[str, bytes]) -> None:
        name, data = file
        (tmp_path / name).write_bytes(data)
        outcomes.append(check(reader, path, sample))
        (tmp_path / name).write_bytes(encoded(name, sample.files[name]))

    change()
    assert {*outcomes} == {True, False}
