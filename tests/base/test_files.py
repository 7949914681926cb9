"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from instruct.base.errors import InstructError
from instruct.base.files import new_folder, open_to_read, open_to_write, replace_folder, write_atomically
from instruct.base.models import whole_folder


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


def test_a_folder_in_the_cache_is_on_the_disk_before_its_name_is(tmp_path, calls):
    with whole_folder(tmp_path / "model") as making:
        (making / "config.json").write_text("{}")
    assert calls == [("sync", "config.json"), ("rename", "model"), ("sync", tmp_path.name)]


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


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "folder"])
@pytest.mark.parametrize("opened", [open_to_write, open_to_read])
def test_what_is_no_file_is_not_opened(tmp_path, kind, opened):
    path, other = tmp_path / "lock", tmp_path / "other"
    other.write_text("theirs")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(other if kind == "link" else tmp_path / "nothing")
    if kind == "link" and opened is open_to_read:
        with open_to_read(path) as file:
            assert file.read() == b"theirs"
        return
    with pytest.raises(OSError) as error:
        opened(path)
    assert error.value.filename == str(path) or error.value.filename == path
    assert other.read_text() == "theirs"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.slow
def test_processes_with_one_number_in_two_containers_do_not_disturb_each_other(tmp_path):
    code = (
        "import os, pathlib, sys; from instruct.run.directory import *\n"
        "assert os.getpid() == 1\n"
        "folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]\n"
        "for number in range(50):\n"
        "    write_atomically(folder / 'shared.json', name * 100_000)\n"
        "    with whole_run(folder / f'{name}{number}', {}): pass\n"
        "sys.stdout.write('done')"
    )
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", code, tmp_path]
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here; run the tests as root")
    processes = [subprocess.Popen([*command, name], stdout=subprocess.PIPE) for name in "abc"]
    assert [process.communicate(timeout=120)[0] for process in processes] == [b"done"] * 3
    assert (tmp_path / "shared.json").read_text() in {name * 100_000 for name in "abc"}
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(".")]) == 151
    assert not list(tmp_path.rglob(".*.unfinished"))
