"""`--json` and `--quiet`: one document on stdout, or the result alone; errors on stderr in either form."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from instruct.base.output import run_guarded

LIBRARIES = {"python", "descriptor", "child", "warning"}


@pytest.mark.parametrize(
    ("how", "stdout", "stderr", "on_stdout"),
    [
        ("", "said\ntext\n", {"warned"}, False),
        ("quiet=True", "line\n", set(), False),
        ("json=True, verbose=True", '{\n  "figure": null\n}\n', LIBRARIES | {"said", "warned"}, True),
    ],
)
def test_only_the_command_prints_and_the_run_keeps_what_others_do(tmp_path, how, stdout, stderr, on_stdout):
    """Whatever a library or a child process prints, before there is a run and after."""
    script = f"""
import os, subprocess, sys
from instruct.base.output import Result, run_guarded, say, warn
from instruct.run.directory import RunDirectory
def work():
    print('python', flush=True)
    os.write(1, b'descriptor\\n')
    RunDirectory('run').start({{}})
    subprocess.run(['echo', 'child'])
    print('warning', file=sys.stderr)
    say('said')
    warn('warned')
    return Result({{'figure': float('nan')}}, 'line', 'text')
sys.exit(run_guarded(work, {how}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, set(done.stderr.split())) == (0, stdout, stderr)
    log = tmp_path / "run" / "log.txt"
    assert log.exists() != on_stdout
    if not on_stdout:
        header, *lines = log.read_text().splitlines()
        assert header.startswith("== 20")
        assert set(lines) == LIBRARIES


@pytest.mark.parametrize(
    ("failure", "start", "code", "told"),
    [
        ("InstructError('it failed')", True, 1, "instruct: it failed; details: run/log.txt\n"),
        ("InputError('a wrong call')", False, 2, "instruct: a wrong call\n"),
        ("ValueError('a defect')", True, 1, "instruct: details: run/log.txt\nTraceback"),
    ],
)
def test_a_failure_points_at_what_libraries_printed(tmp_path, failure, start, code, told):
    script = f"""
import os, sys
from instruct.base.errors import InputError, InstructError
from instruct.base.output import run_guarded
from instruct.run.directory import RunDirectory
def work():
    if {start}: RunDirectory('run').start({{}})
    os.write(2, b'CUDA error\\n')
    raise {failure}
sys.exit(run_guarded(work))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(told)
    assert (tmp_path / "run" / "log.txt").exists() == start


def test_what_a_verb_prints_is_a_document(instruct):
    code, stdout, stderr = instruct("list", "judges", "--json")
    assert (code, stderr) == (0, "")
    assert {each["name"] for each in json.loads(stdout)} >= {"autoj", "smollm2_score"}


def test_a_run_whose_manifest_lacks_its_times_or_cannot_be_read_is_listed(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = {"format": 3, "created": "2026-01-01T00:00:00+00:00", "versions": {}, "machine": {}, "steps": {}}
    for name, content in {"theirs": whole, "damaged": [whole]}.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    text = instruct("list", "runs")[1]
    assert "runs/theirs" in text
    assert "manifest.json: is not a mapping; restore it or delete the run" in text


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "runs/a/x"),
        RuntimeError('Error { kind: StorageFull, message: "No space left on device (os error 28)" }'),
    ],
)
def test_a_full_disk_is_one_line_whatever_library_meets_it(error, capsys):
    def work() -> None:
        raise RuntimeError("the file could not be written") from error

    assert run_guarded(work) == 1
    line = "instruct: the disk is full; free disk space and rerun the command to resume\n"
    assert capsys.readouterr().err == line


WORK = r"""
import sys
from instruct.base.output import Result, progress, run_guarded, say, warn
from pathlib import Path

def work():
    for number in range(2000):
        say(f"\u00e9\u4f60 {number}")
    warn("\u4f60 \ud800")
    with progress("\u4f60", 2) as advance:
        advance(2)
    Path("done").write_text("done")
    return Result([1], "a line", "\u4f60 the result")
sys.exit(run_guarded(work))
"""


@pytest.mark.parametrize(("closed", "code"), [("", "ascii"), ("<&- >&- 2>&-", "utf-8"), ("| true", "utf-8")])
def test_what_nobody_can_read_does_not_end_the_work(tmp_path, closed, code):
    script = tmp_path / "work.py"
    script.write_text(WORK)
    command = f"set -o pipefail; {sys.executable} {script} {closed}"
    environment = {**os.environ, "PYTHONIOENCODING": code}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert (tmp_path / "done").read_text() == "done"
    assert done.returncode == 0
    assert b"Traceback" not in done.stdout + done.stderr
    if not closed:
        assert "\u4f60 the result".encode(code, "backslashreplace") in done.stdout


def test_stdout_on_a_full_disk_is_no_success(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(WORK)
    command = f"{sys.executable} {script} > /dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
