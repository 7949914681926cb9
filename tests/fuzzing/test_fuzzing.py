"""Every reader of a file that a user may bring: it accounts for all of it, or one line says what is wrong.

Each reader gets arbitrary bytes, arbitrary JSON, YAML and CSV, and valid files with random changes, and is run as a
verb runs it. The exit code is 0 or 2; then all rows are accounted for, or one line names the file and nothing is
written. 25 cases a reader in `make test`, 5,000 in `make test-full`.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from odd_files import files, written
from readers import READERS, Reader

from instruct.base.output import run_guarded


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("cases", [25, pytest.param(5000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_accounts_for_a_file_or_refuses_it_in_one_line(name, cases, tmp_path):
    reader = READERS[name]

    # The same cases every time, except in the longest search.
    @settings(
        max_examples=cases,
        derandomize=cases < 5000,
        database=None,
        deadline=None,
        suppress_health_check=HealthCheck,
        phases=(Phase.generate, Phase.shrink),
    )
    @given(files(reader.suffixes, reader.valid))
    def check(brought: tuple[str, bytes]) -> None:
        check_file(reader, *brought, tmp_path)

    check()
    suffix = reader.suffixes[0]
    for valid in reader.valid:
        assert check_file(reader, suffix, written(valid, suffix, lambda _: True), tmp_path) == 0


def check_file(reader: Reader, suffix: str, content: bytes, above: str | Path) -> int:
    """Bring a file to a reader, in a new folder below `above`; returns the exit code."""
    with tempfile.TemporaryDirectory(dir=above) as folder:
        path = Path(folder, f"brought{suffix}")
        path.write_bytes(content)
        with contextlib.chdir(folder):
            code, error = ending(lambda: reader.read(path))
        assert code in (0, 2), error
        if code == 0:
            assert error == ""
            return code
        assert error.endswith("\n")
        lines = error[:-1].split("\n")
        assert len(lines) == 1 or reader.several_problems
        for line in lines:
            assert line.isprintable()
            assert any(name in line for name in (path.name, *reader.other)), error
        assert not {each.name for each in Path(folder).iterdir()} - {path.name, "prompt.txt", "pairs.json"}
        assert path.read_bytes() == content
        return code


def ending(work: Callable[[], None]) -> tuple[int, str]:
    """The exit code of a command that does this, and what it prints on stderr; a warning is an error."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("error")
        code = run_guarded(work)
    return code, error.getvalue()
