"""A store that is gone or damaged: no report is made of it, and no reply that is there is paid again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from instruct.command.main import main
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

PAIRS = 30


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory, shared_fake_server, make_run):
    """The folder of a run that was judged by a fake server; the call that judges it, and the server's requests."""
    folder = tmp_path_factory.mktemp("judged")
    url, requests = shared_fake_server()
    call = ["judge", "runs/mine", "--judge", "pandalm", "--orders", "one", "--base-url", url]
    call += ["--candidate", "ours", "--baseline", "theirs"]
    make_run(folder / "runs" / "mine", PAIRS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["instruct", *call])
        assert main() == 0
    assert len(requests()) == PAIRS
    return folder, call, requests


@pytest.fixture
def judged(tmp_path, monkeypatch, judged_once):
    """A copy of the run, the call that judged it, and the requests since."""
    folder, call, requests = judged_once
    shutil.copytree(folder / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    others = len(requests()) - PAIRS
    return RunDirectory("runs/mine"), call, lambda: requests()[others:]


@pytest.mark.parametrize("how", ["missing", "a new store"])
def test_a_store_that_is_gone_is_refused_by_the_report_and_judged_again(judged, instruct, how):
    run, call, requests = judged
    before = {path: path.read_bytes() for path in run.report.rglob("*") if path.is_file()}
    for path in run.folder.glob("judgments.sqlite*"):
        path.unlink()
    if how == "a new store":
        with JudgmentStore(run.store):
            pass
    code, _, stderr = instruct("report", str(run.folder))
    assert code == 2, stderr
    assert "judgments.sqlite" in stderr
    assert {path: path.read_bytes() for path in run.report.rglob("*") if path.is_file()} == before
    assert instruct(*call)[0] == 0
    assert len(requests()) == 2 * PAIRS


def verdicts(run) -> list[tuple]:
    with closing(sqlite3.connect(run.store)) as store:
        return store.execute("SELECT * FROM judgments ORDER BY 1, 2, 3, 4, 5").fetchall()


def test_verdicts_that_are_not_those_recorded_are_refused_until_they_are_read_again(judged, instruct):
    run, call, requests = judged
    known = verdicts(run)
    with closing(sqlite3.connect(run.store)) as database:
        database.execute("UPDATE judgments SET pair = 99 WHERE pair = 1")
        database.commit()
    code, stdout, stderr = instruct("report", str(run.folder))
    assert code
    assert "its verdicts are not those that were recorded (pandalm, ours, theirs)" in stdout + stderr
    assert instruct(*call)[0] == 0
    assert verdicts(run) == known
    assert len(requests()) == PAIRS


def test_verdicts_without_a_reply_that_are_not_those_recorded_are_asked_for(judged, instruct):
    run, call, requests = judged
    known = verdicts(run)
    with closing(sqlite3.connect(run.store)) as database:
        database.execute("DELETE FROM completions WHERE key = (SELECT key FROM judgments WHERE pair = 2)")
        database.execute("DELETE FROM judgments WHERE pair IN (1, 2)")
        database.commit()
    assert "its verdicts are not those that were recorded" in instruct("report", str(run.folder))[2]
    assert instruct(*call)[0] == 0
    assert verdicts(run) == known
    assert len(requests()) == PAIRS + 1
