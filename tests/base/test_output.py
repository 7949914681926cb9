"""`--json` and `--quiet`: one document on stdout, or the result alone; errors on stderr in either form."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instruct.base.output import Result, printed_log, progress, progress_bar, run_guarded, say, show


@pytest.fixture
def two_files(tmp_path, monkeypatch) -> list[str]:
    """The flags that compare two files of answers."""
    monkeypatch.chdir(tmp_path)
    for name, answer in (("ours", "It is Paris."), ("theirs", "I do not know.")):
        rows = [{"instruction": f"Question {n}?", "output": answer, "generator": name} for n in range(2)]
        Path(f"{name}.json").write_text(json.dumps(rows))
    return ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/x"]


LIBRARIES = {"python", "descriptor", "child", "warning"}


@pytest.mark.parametrize(
    ("how", "stdout", "stderr", "on_stdout"),
    [
        ("", "said\ntext\n", {"warned"}, False),
        ("json=True", '{\n  "figure": null\n}\n', {"said", "warned"}, False),
        ("quiet=True", "line\n", set(), False),
        ("verbose=True", "python\ndescriptor\nchild\nsaid\ntext\n", {"warning", "warned"}, True),
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
        ("InstructError('it failed')", False, 1, "instruct: it failed; details: rerun with --verbose\n"),
        ("InputError('a wrong call')", True, 2, "instruct: a wrong call\n"),
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


def test_python_is_quiet_unless_its_logging_is_not(capsys, caplog):
    caplog.set_level("WARNING")  # a library of another test may have set Python's own logging to INFO
    say("progress")
    assert (capsys.readouterr(), caplog.messages) == (("", ""), [])
    with caplog.at_level("INFO", logger="instruct"):
        say("progress")
    assert caplog.messages == ["progress"]


def test_only_the_main_process_of_a_training_prints(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with printed_log():
        say("progress")
    assert run_guarded(lambda: Result({}, "line", "text")) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_the_report_is_the_document_of_judge_and_report(instruct, two_files, fake_server):
    url, _ = fake_server()
    judge = ["judge", "--judge", "pandalm", "--base-url", url, *two_files]
    code, stdout, stderr = instruct(*judge, "--json")
    assert code == 0, stderr
    assert json.loads(stdout) == json.loads(Path("runs/x/report/report.json").read_text())
    code, stdout, stderr = instruct(*judge, "--quiet")
    assert (code, stderr) == (0, "")
    headline, *warnings = stdout.splitlines()
    assert headline.startswith("pandalm: ")
    assert [line.startswith("WARNING: ") and line.endswith(" in report.md") for line in warnings] == [True]
    code, stdout, stderr = instruct("report", "runs/x", "--fail-under", 99, "--json")
    assert code == 4
    assert json.loads(stdout)["run"] == "x"
    assert stderr.splitlines()[-1].startswith("instruct: below --fail-under 99: pandalm on ours against theirs")
    code, stdout, stderr = instruct("report", "runs/x", "--fail-under", 99, "-q")
    assert (code, stdout.splitlines(), stderr.count("\n")) == (4, [headline, *warnings], 1)
    code, stdout, stderr = instruct("report", "runs/nothing", "--json")
    assert (code, stdout) == (2, "")
    assert stderr.startswith("instruct: runs/nothing/manifest.json: no such file")


@pytest.mark.parametrize(
    ("call", "holds"),
    [
        (["list", "judges"], lambda found: {each["name"] for each in found} >= {"autoj", "smollm2_score"}),
        (["list", "data"], lambda found: next(each for each in found if each["name"] == "starter")["rows"] > 300),
        (["list", "runs"], lambda found: found == []),
        (["config", "--schema"], lambda found: Path(found["schema"]).is_file()),
    ],
)
def test_what_a_verb_prints_is_a_document(instruct, tmp_path, monkeypatch, call, holds):
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = instruct(*call, "--json")
    assert (code, stderr) == (0, "")
    assert holds(json.loads(stdout))


def test_control_characters_are_inert_in_a_document(capsys):
    show(Result({"text": "\x1b[2J\x9b2J\u202e"}), json=True, quiet=False)
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert json.loads(printed) == {"text": "\x1b[2J\x9b2J\u202e"}


def test_quiet_lists_names(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "autoj" in instruct("list", "judges", "--quiet")[1].splitlines()


def test_a_run_whose_manifest_lacks_its_times_or_cannot_be_read_is_listed(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = {"format": 3, "created": "2026-01-01T00:00:00+00:00", "versions": {}, "machine": {}, "steps": {}}
    for name, content in {"theirs": whole, "damaged": [whole]}.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    text = instruct("list", "runs")[1]
    assert "runs/theirs" in text
    assert "manifest.json: is not a mapping; restore it or delete the run" in text


def test_preview_is_a_document(instruct, tmp_path, monkeypatch, tiny_model_folder):
    monkeypatch.chdir(tmp_path)
    row = {"instruction": "Say hello.", "input": "", "output": "Hello."}
    Path("my.jsonl").write_text(json.dumps(row) + "\n")
    code, stdout, stderr = instruct("preview", "--model", tiny_model_folder, "--data.files", "my.jsonl", "--json")
    found = json.loads(stdout)
    assert code == 0, stderr
    assert found["counts"]["kept"] == 1
    assert [part["trained_on"] for part in found["rows"][0]["parts"]] == [False, True]
    assert "Hello." in found["rows"][0]["parts"][1]["text"]
    assert found["step"]["objective"] == "mle"


def test_a_progress_bar_shows_a_name_as_it_is(capsys):
    with progress_bar() as progress:
        progress.add_task("judging (my[v2] of [red]one[/red])", total=2)
    assert "judging (my[v2] of [red]one[/red])" in capsys.readouterr().err


def test_a_pipe_gets_a_line_when_work_begins(capsys):
    with progress("reading [3] texts", 3) as done:
        assert capsys.readouterr().err == "reading [3] texts …\n"
        done(3)
    assert "3/3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "runs/a/x"),
        OSError("Not enough disk space. Needed: 4 GB"),
        RuntimeError('Error { kind: StorageFull, message: "No space left on device (os error 28)" }'),
    ],
)
def test_a_full_disk_is_one_line_whatever_library_meets_it(error, capsys):
    def work() -> None:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("the file could not be written") from cause

    assert run_guarded(work) == 1
    line = "instruct: the disk is full; free disk space and rerun the command to resume\n"
    assert capsys.readouterr().err == line


WORK = r"""
import sys
from instruct.base.output import Result, progress, run_guarded, say, warn
from pathlib import Path

def work():
    for number in range(2000):
        say(f"\u00e9\u4f60 {{number}}")
    warn("\u4f60 \ud800")
    with progress("\u4f60", 2) as advance:
        advance(2)
    Path("done").write_text("done")
    return Result([1], "a line", "\u4f60 the result", {failure})
sys.exit(run_guarded(work))
"""
FAILURE = "__import__('instruct.base.errors').base.errors.StoppedError('no money')"


@pytest.mark.parametrize(
    ("closed", "code"),
    [
        ("", "ascii"),
        ("", "latin-1"),
        (">&-", "utf-8"),
        ("<&- >&- 2>&-", "utf-8"),
        ("| true", "utf-8"),
        ("2>&1 | head -n 2", "ascii"),
    ],
)
def test_what_nobody_can_read_does_not_end_the_work(tmp_path, closed, code):
    environment = {**os.environ, "PYTHONIOENCODING": code}
    failure = {"ascii": FAILURE}.get(code)
    script = tmp_path / "work.py"
    script.write_text(WORK.format(failure=failure))
    command = f"set -o pipefail; {sys.executable} {script} {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert (tmp_path / "done").read_text() == "done"
    assert done.returncode == (3 if failure else 0)
    assert b"Traceback" not in done.stdout + done.stderr
    if not closed:
        assert "\u4f60 the result".encode(code, "backslashreplace") in done.stdout


def test_stdout_on_a_full_disk_is_no_success(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(WORK.format(failure=None))
    command = f"{sys.executable} {script} > /dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
