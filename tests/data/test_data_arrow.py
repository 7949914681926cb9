"""Where the rows' files lie, who can read them, and when they are removed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from datasets import Features, Value

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


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    code = (
        "import time; from pathlib import Path; from instruct.data.arrow import RowFolder; "
        f"folder = RowFolder(Path({str(tmp_path)!r})); print(1, flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        (left,) = tmp_path.glob(".rows-*")
        os.utime(left, (0, time.time() - 1000))
        RowFolder(tmp_path).close()
        assert left.is_dir()  # of a process that lives
        process.send_signal(signal.SIGKILL)
    RowFolder(tmp_path).close()
    assert list(tmp_path.iterdir()) == []
