"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from instruct.base.errors import InstructError
from instruct.base.files import new_folder, replace_folder, write_atomically


def test_a_folder_is_replaced_after_its_files_reached_the_disk(tmp_path, monkeypatch):
    for name, content in (("old", "old"), ("made", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(content)
    order: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", lambda source, target: (order.append("replaced"), replace(source, target)))
    replace_folder(tmp_path / "old", tmp_path / "made")
    assert order == [str(tmp_path / "made" / "weights"), "replaced", str(tmp_path / "old"), str(tmp_path)]
    assert (tmp_path / "old" / "weights").read_text() == "new"
    assert not (tmp_path / "made").exists()


@pytest.fixture
def calls(monkeypatch):
    """What is synced and renamed, in order, each by the name that it has at that time."""
    made: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def name(descriptor: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr("os.fsync", lambda descriptor: (made.append(("sync", name(descriptor))), fsync(descriptor)))
    monkeypatch.setattr("os.replace", lambda old, new: (made.append(("rename", new.name)), replace(old, new)))
    return made


def test_a_file_is_on_the_disk_before_its_name_is_and_both_when_it_returns(tmp_path, calls):
    write_atomically(tmp_path / "report.md", "text")
    (_, temporary), *others = calls
    assert re.fullmatch(r"\.report\.md\.[0-9a-f]{16}\.unfinished", temporary)
    assert others == [("rename", "report.md"), ("sync", tmp_path.name)]
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_a_file_that_could_not_be_synced_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    write_atomically(path, "old")

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(InstructError, match=r"No space left on device.*free disk space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.md"]


def test_what_a_killed_writer_has_left_is_removed_by_the_next_one(tmp_path):
    path = tmp_path / "report [1].json"
    code = (
        "import os, pathlib, sys, instruct.base.files as files\n"
        "files.os.fsync = lambda descriptor: os.kill(os.getpid(), 9)\n"
        "files.write_atomically(pathlib.Path(sys.argv[1]), 'half')"
    )
    killed = subprocess.run([sys.executable, "-c", code, path])
    assert killed.returncode == -9
    assert len([*tmp_path.iterdir()]) == 1
    with new_folder(tmp_path / "model") as of_a_running_process:
        write_atomically(path, "whole")
        assert sorted(tmp_path.iterdir()) == sorted([path, of_a_running_process])


def test_a_device_or_a_pipe_is_written_to_and_never_replaced():
    """/dev/stdout is the command's, also while what libraries print goes into a log."""
    code = (
        "from pathlib import Path\nfrom instruct.base.files import write_atomically\n"
        "from instruct.base.output import run_guarded\n"
        "def work():\n    for name in ('null', 'stdout'): write_atomically(Path('/dev', name), 'written')\n"
        "run_guarded(work)"
    )
    before = os.lstat("/dev/null").st_ino
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (printed.stdout, printed.stderr) == ("written", "")
    assert os.lstat("/dev/null").st_ino == before
