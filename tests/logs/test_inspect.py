"""Logs of Inspect: one that the tool wrote, and others of the same form.

recorded.eval was written by inspect_ai 0.3.285: five sums, each asked twice of its mock model after a system message,
with the scorers `match`, `graded` (C, I, P or N), `parts` (two values) and `unscored` (the grader fails on sum 1), the
reducers `mean` and `at_least_1`, and a solver that fails at the second answer to sum 3.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from json_files import write_json
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
    assert log.units[failed] == "3"
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


def test_values_are_those_that_the_tool_takes_scores_for(tmp_path):
    values = ["C", "I", "P", "N", True, False, 0.25, "yes", "0.5", "NO", math.nan]
    numbers = [1, 0, 0.5, 0, 1, 0, 0.25, 1, 0.5, 0, math.nan]
    log = log_of([sample(n, value) for n, value in enumerate(values)], math.fsum(numbers[:-1]) / 10)
    read = the_log(write_json(tmp_path / "log.json", log))
    np.testing.assert_array_equal(read.values["s"], numbers)
    assert read.reasons == {"s: not scored": 1}
    assert read.figures["s"] == pytest.approx(read.mean("s"), rel=1e-12)
    assert "s3cret" not in str(read)
    assert read.texts[0] == ("Question 0?", "It is.")


def test_epochs_are_averaged_within_their_unit_before_units(tmp_path):
    """As the tool's reducer does: a unit with one answer counts as much as one with two."""
    rows = [sample(1, 1, 1), sample(1, 0, 2), sample(2, 1, 1), sample(2, scores={}, epoch=2, error={"message": "E()"})]
    read = the_log(write_json(tmp_path / "log.json", log_of(rows, 0.75)))
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
        (log_of([{"id": 1}]), r"sample 1: has no id or no input, so it is no sample; download the log again"),
    ],
)
def test_logs_that_are_not_valid_are_refused_in_one_line(log, error, tmp_path):
    path = write_json(tmp_path / "log.json", log)
    with pytest.raises(InputError, match=error) as raised:
        the_log(path)
    assert str(raised.value).startswith(str(path))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("at", [5000, -700])  # in the first answer, and among the names and sizes
def test_a_damaged_archive_is_refused_in_one_line(at, tmp_path):
    path, content = tmp_path / "changed.eval", bytearray(RECORDED.read_bytes())
    content[at] ^= 255
    for damaged in (content, content[:at]):
        path.write_bytes(damaged)
        with pytest.raises(InputError) as raised:
            the_log(path)
        assert str(raised.value).startswith(str(path))
        assert str(raised.value).isprintable()
