"""Logs of Inspect: one that the tool wrote, and others of the same form."""

from __future__ import annotations

import contextlib
import json
import math
import random
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pytest
from inspect_runs import WRONG
from log_samples import inspect_log as log_of
from log_samples import inspect_sample as sample

from instruct.base.errors import InputError
from instruct.logs.inspect import log_of as given_log
from instruct.logs.read import read_logs
from instruct.logs.source import Columns
from instruct.scores.scores import Scores

RECORDED = Path(__file__).parent / "recorded.eval"


def the_log(path: Path, columns: Columns | None = None) -> Scores:
    found = read_logs(path, columns)
    (log,) = found.logs
    return log


def test_a_recorded_log_has_its_units_settings_and_figures():
    log = the_log(RECORDED)
    assert (log.tool, log.system, log.task, log.version) == ("Inspect", "mockllm/m1", "sums", "0.3.285")
    assert log.run
    assert sorted(log.units) == sorted(["1", "2", "3", "4", "5"] * 2)
    assert set(log.values) == {"match", "graded", "parts/length", "parts/right", "unscored"}
    assert log.reasons == {"error: ValueError": 1, "grader_failed": 2}
    failed = next(row for row, reason in log.why.items() if reason.startswith("error"))
    assert log.units[failed] == str(WRONG)
    assert all(math.isnan(column[failed]) for column in log.values.values())
    assert {"match", "graded", "parts/length", "parts/right", "unscored"} <= log.figures.keys()
    assert {"stderr (match)", "accuracy (match, at_least_1)"} <= set(log.unpaired)
    assert not set(log.values) & set(log.unpaired)
    clusters = dict(zip(log.units, log.clusters, strict=True))
    assert clusters == {"1": "1", "2": "2", "3": "2", "4": "4", "5": "4"}
    assert not any(0 in column for column in log.hashes.values())
    assert log.texts[0][0].startswith("What is ")
    expected = {
        "solver": "system_message, failing, generate", "epochs": 2, "epochs reducer": "mean, at_least_1",
        "temperature": 0.5, "task version": 3, "system prompt": "Be brief.", "limit": "none",
    }  # fmt: skip
    assert expected.items() <= log.settings.items()


def write(path: Path, log: dict[str, Any]) -> Path:
    """Write a log as `.json`, or as `.eval` with Zstandard."""
    if path.suffix == ".json":
        path.write_text(json.dumps(log))
        return path
    members = {f"samples/{number}.json": each for number, each in enumerate(log["samples"])}
    members["header.json"] = {name: part for name, part in log.items() if name != "samples"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            data = json.dumps(content).encode()
            archive.writestr(name, pyarrow.compress(data, "zstd", asbytes=True))
            member = archive.infolist()[-1]  # what zipfile cannot write before Python 3.14
            member.compress_type, member.file_size, member.CRC = 93, len(data), zlib.crc32(data)
    return path


@pytest.mark.parametrize("name", ["packed.eval", "log.json"])
def test_values_are_those_that_the_tool_takes_scores_for(name, tmp_path):
    values = ["C", "I", "P", "N", True, False, 0.25, "yes", "0.5", "NO", math.nan]
    numbers = [1, 0, 0.5, 0, 1, 0, 0.25, 1, 0.5, 0, math.nan]
    log = log_of([sample(n, value) for n, value in enumerate(values)], math.fsum(numbers[:-1]) / 10)
    read = the_log(write(tmp_path / name, log))
    np.testing.assert_array_equal(read.values["s"], numbers)
    assert read.reasons == {"s: not scored": 1}
    assert read.figures["s"] == pytest.approx(read.mean("s"), rel=1e-12)
    assert "s3cret" not in str(read)
    assert read.texts[0] == ("Question 0?", "It is.")


def test_epochs_are_averaged_within_their_unit_before_units(tmp_path):
    """As the tool's reducer does: a unit with one answer counts as much as one with two."""
    rows = [sample(1, 1, 1), sample(1, 0, 2), sample(2, 1, 1), sample(2, scores={}, epoch=2, error={"message": "E()"})]
    read = the_log(write(tmp_path / "log.json", log_of(rows, 0.75)))
    assert (read.units, read.mean("s"), read.reasons) == (["1", "1", "2", "2"], 0.75, {"error: E": 1})


def test_a_log_object_is_read_as_its_file():
    log = log_of([sample(n, metadata={"story": n // 2}) for n in range(4)], 1.0)
    samples = [SimpleNamespace(model_dump=lambda each=each, **_: each) for each in log.pop("samples")]
    read = given_log(SimpleNamespace(location="log.eval", model_dump=lambda **_: log, samples=samples), "story")
    assert (read.path.name, read.clusters, read.figures) == ("log.eval", ["0", "0", "2", "2"], {"s": 1.0})


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            log_of([sample(1)], 0.5),
            r"results: s of the task t is 0\.5, but the rows of .* the mean 1\.0; give",
        ),
        (log_of([sample(1)], total=2), r"log\.json: has 1 samples, its figures are of 2; copy or download it again"),
        (log_of([{"id": 1}]), r"sample 1: has no id or no input, so it is no sample; download the log again"),
    ],
)
def test_logs_that_are_not_valid_are_refused_in_one_line(log, error, tmp_path):
    path = write(tmp_path / "log.json", log)
    with pytest.raises(InputError, match=error) as raised:
        the_log(path)
    assert str(raised.value).startswith(str(path))
    assert str(raised.value).isprintable()


def test_a_damaged_archive_is_read_or_refused_in_one_line(tmp_path):
    """60 changes of a log that the tool wrote: bytes that are replaced, left out, put in, or missing at the end."""
    content, chance, whole = RECORDED.read_bytes(), random.Random(0), the_log(RECORDED)
    path = tmp_path / "changed.eval"
    refusals = []
    for number in range(60):
        # The names and sizes are at the end.
        at = chance.randrange(len(content)) if number % 2 else len(content) - chance.randrange(1, 1500)
        piece, rest = chance.randbytes(chance.choice([0, 1, 4])), content[at + chance.choice([0, 1, 4]) :]
        path.write_bytes(content[:at] + piece + (rest if number % 10 else b""))
        with contextlib.suppress(InputError):
            try:
                log = the_log(path)
            except InputError as error:
                refusals.append(str(error))
                raise
            assert (len(log.units), log.figures) == (len(whole.units), whole.figures)
    assert len(refusals) > 40
    assert all(error.startswith(str(path)) and error.isprintable() for error in refusals)
