"""Judging that is killed repeatedly loses nothing that was paid for; one process at a time judges a run."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from instruct.base.errors import InputError, InstructError
from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process

CONCURRENCY = 8


@pytest.fixture
def make_run(tmp_path, make_answers):
    def make(name: str, pairs: int) -> RunDirectory:
        run = RunDirectory(tmp_path / name / "a-run")
        run.start(ExperimentConfig(name="a-run", comparisons=[("ours.json", "theirs.json")]).model_dump(mode="json"))
        for side, text in (("ours", "One answer to"), ("theirs", "Another answer to")):
            write_atomically(run.outputs / f"{side}.json", json.dumps(make_answers(side, pairs, text).rows))
        return run

    return make


@pytest.fixture
def command(make_run):
    def make(run: RunDirectory, url: str) -> list[str]:
        sides = [str(run.outputs / f"{side}.json") for side in ("ours", "theirs")]
        return [
            sys.executable, "-m", "instruct", "judge", str(run.folder), "--judge", "pandalm", "--orders", "one",
            "--base-url", url, "--concurrency", str(CONCURRENCY), "--candidate", sides[0], "--baseline", sides[1],
        ]  # fmt: skip

    return make


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_quiet(requests: Callable[[], list]) -> None:
    """Wait until the requests that a killed process had sent are in the server's log."""
    seen = -1
    while len(requests()) != seen:
        seen = len(requests())
        time.sleep(0.25)


def stored_prompts(run: RunDirectory) -> int:
    with closing(sqlite3.connect(run.store)) as database:
        return int(database.execute("SELECT COUNT(*) FROM completions").fetchone()[0])


def figures(run: RunDirectory) -> dict:
    report = json.loads((run.report / "report.json").read_text())
    return {key: value for key, value in report.items() if key not in ("created", "spent_usd")}


@pytest.mark.parametrize(
    ("pairs", "kills"), [pytest.param(160, 10, marks=pytest.mark.slow), pytest.param(805, 50, marks=pytest.mark.full)]
)
def test_kills_lose_nothing_and_change_nothing(fake_server, make_run, command, run_and_kill, pairs, kills):
    url, requests = fake_server(delay=0.15)  # slow, so that the draw decides when a kill comes
    run, draw = make_run("killed", pairs), random.Random(0)
    stored, arrived = 0, 0
    for kill in range(kills):
        # Sixteen requests per life make 805 in fifty lives; some end before their first request, some between commits.
        wanted = min(arrived + draw.randint(0, 31) * (pairs - stored > 40), pairs - 1)
        pause = draw.random() / 50

        def reached(wanted: int = wanted, pause: float = pause) -> bool:
            if not run.store.exists() or len(requests()) < wanted:
                return False
            time.sleep(pause)
            return True

        run_and_kill(command(run, url), reached, 120)
        wait_until_quiet(requests)
        lost = len(requests()) - arrived - (stored_prompts(run) - stored)
        assert 0 <= lost <= CONCURRENCY, f"kill {kill}"
        arrived, stored = len(requests()), stored_prompts(run)
    assert pairs / 4 < stored < pairs
    done = subprocess.run(command(run, url), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stored_prompts(run) == pairs
    assert len(requests()) == arrived + pairs - stored  # no committed reply is requested again
    prompts = {request["body"]["prompt"] for request in requests()}
    assert len(prompts) == pairs

    undisturbed = make_run("undisturbed", pairs)
    assert subprocess.run(command(undisturbed, url), capture_output=True).returncode == 0
    assert figures(run)["judges"] == figures(undisturbed)["judges"]
    assert figures(run)["judges"][0]["comparisons"][0]["pairs_judged"] == pairs


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_a_lock_that_cannot_be_opened_is_one_line(tmp_path):
    (tmp_path / ".verdicts.lock").mkdir()  # like a read-only directory, also for root
    with (
        pytest.raises(InstructError, match=r"\.verdicts\.lock: cannot be opened \(.*\); make .* writable$"),
        only_process(RunDirectory(tmp_path), VERDICTS),
    ):
        pass


@pytest.mark.slow
def test_a_second_process_on_the_same_run_is_refused(fake_server, make_run, command):
    url, requests = fake_server(delay=0.5)
    run = make_run("together", 40)
    first = start(command(run, url))
    wait_for(lambda: len(requests()) > 0)
    second = subprocess.run(command(run, url), capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert line.startswith(f"instruct: {run.folder / '.verdicts.lock'}: process {first.pid} on ")
    assert "is judging this run; wait until it ends, or stop it, and run the command again" in line
    assert first.poll() is None
    reported = subprocess.run(
        [sys.executable, "-m", "instruct", "report", str(run.folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert reported.returncode == 0, reported.stderr  # reading takes no lock
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    assert len(requests()) == stored_prompts(run) == 40
    done = subprocess.run(command(run, url), capture_output=True, text=True, timeout=60)
    assert (done.returncode, len(requests())) == (0, 40), done.stderr


@pytest.mark.slow
def test_a_complete_run_reports_without_a_request(fake_server, make_run, command):
    url, requests = fake_server()
    run = make_run("complete", 40)
    assert subprocess.run(command(run, url), capture_output=True).returncode == 0
    before, first = len(requests()), figures(run)
    again = subprocess.run(command(run, "http://127.0.0.1:9/v1"), capture_output=True, text=True)
    # A different server is a different judge: it has no stored replies, and it is unreachable.
    assert again.returncode == 2
    same = subprocess.run(command(run, url), capture_output=True, text=True)
    assert (same.returncode, len(requests())) == (0, before)
    assert figures(run) == first


def test_a_deleted_lock_file_does_not_let_a_second_process_judge(tmp_path):
    run = RunDirectory(tmp_path)
    lock = tmp_path / ".verdicts.lock"
    code = (
        "import sys; from instruct.run.directory import RunDirectory; from instruct.run.lock import *\n"
        "with only_process(RunDirectory(sys.argv[1]), VERDICTS): print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "locked\n"
    lock.unlink()
    with pytest.raises(InputError, match="another process is judging this run"), only_process(run, VERDICTS):
        pass
    holder.communicate()
    with only_process(run, VERDICTS):
        pass


def test_a_lock_that_leads_elsewhere_is_refused_and_empties_nothing(tmp_path):
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".verdicts.lock").symlink_to(other)
    with (
        pytest.raises(InstructError, match=r"cannot be opened \(is a link; put the file itself there\)"),
        only_process(RunDirectory(tmp_path / "run"), VERDICTS),
    ):
        pass
    assert other.read_text() == "theirs"
