"""Where the rows' files lie, who can read them, and when they are removed."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Features, Value

from instruct.base.errors import InputError
from instruct.data.arrow import RowFolder, numbers, select

NUMBERS = Features({"number": Value("int32")})


def counted(count: int) -> Iterator[dict[str, Any]]:
    return ({"number": number} for number in range(count))


def test_a_folder_is_private_and_removed_with_what_was_made_for_it(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    run = tmp_path / "runs" / "mine"
    folder = RowFolder(run)
    rows = folder.store(counted(2500), NUMBERS)
    squares = folder.store(({"number": row["number"] ** 2} for row in rows), NUMBERS)
    assert numbers(squares, "number").tolist() == [n * n for n in range(2500)]
    assert numbers(select(squares, [3, 1]), "number").tolist() == [9, 1]
    (inside,) = run.iterdir()
    assert stat.S_IMODE(inside.stat().st_mode) == 0o700
    assert all(file["filename"].startswith(str(inside)) for data in (rows, squares) for file in data.cache_files)
    del folder
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
    assert squares[2499] == {"number": 2499**2}  # of a file that is gone, but still mapped


def test_what_the_rows_raise_is_raised_and_leaves_nothing(tmp_path):
    def failing() -> Iterator[dict[str, Any]]:
        yield {"number": 1}
        raise InputError("row 2: is wrong")

    folder = RowFolder(tmp_path / "run")
    with pytest.raises(InputError, match=r"^row 2: is wrong$"):
        folder.store(failing(), NUMBERS)
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/run: rows cannot be written \(Not a directory\); free disk space, or"):
        RowFolder(tmp_path / "file" / "run")


def test_nothing_is_written_to_the_cache_of_the_library(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"prompt": "a", "completion": "b"}\n')
    code = f"from instruct.data.rows import load_rows; print(len(load_rows(None, files=[{str(file)!r}]).rows))"
    places = {"HF_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **places}, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "home").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


@contextlib.contextmanager
def another_process_in(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It has a folder of rows there."""
    code = (
        "import time; from pathlib import Path; from instruct.data.arrow import RowFolder; "
        f"folder = RowFolder(Path({str(folder)!r})); print(1, flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    with another_process_in(tmp_path) as process:
        (left,) = tmp_path.glob(".rows-*")
        os.utime(left, (0, time.time() - 1000))
        RowFolder(tmp_path).close()
        assert left.is_dir()  # of a process that lives
        process.send_signal(signal.SIGKILL)
    RowFolder(tmp_path).close()
    assert list(tmp_path.iterdir()) == []
