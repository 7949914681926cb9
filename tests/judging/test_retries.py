"""What a rerun asks again: failed requests, at most twice; what was refused for good, on demand alone."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig
from instruct.run.directory import RunDirectory


@pytest.fixture
def run(tmp_path, make_answers) -> RunDirectory:
    run = RunDirectory(tmp_path / "runs" / "a-run")
    run.start(ExperimentConfig(name="a-run").model_dump(mode="json"))
    for side in ("ours", "theirs"):
        write_atomically(run.outputs / f"{side}.json", json.dumps(make_answers(side, 64, f"{side} to").rows))
    return run


@pytest.fixture
def judge(instruct, run):
    def call(url: str, *more: str) -> tuple[int, str, str]:
        return instruct(
            "judge", str(run.folder), "--judge", "pandalm", "--orders", "one", "--base-url", url,
            "--candidate", "ours", "--baseline", "theirs", *more,
        )  # fmt: skip

    return call


def failed(run: RunDirectory) -> int:
    with closing(sqlite3.connect(run.store)) as database:
        return int(database.execute("SELECT COUNT(*) FROM judgments WHERE verdict = 'failed'").fetchone()[0])


def test_a_rerun_asks_failed_requests_again_at_most_twice(judge, run, fake_server):
    url, requests = fake_server({"Question 3?": "500"})
    asked = []
    for _ in range(4):
        before = len(requests())
        code, output, error = judge(url)
        assert code == 0, error
        asked.append((len(requests()) > before, "1 request failed; --retry-failed asks them again" in output))
    assert asked == [(True, False), (True, False), (True, False), (False, True)]
    before = len(requests())
    assert judge(url, "--retry-failed")[0] == 0
    assert len(requests()) > before
    assert failed(run) == 1


def test_a_rerun_gets_the_verdicts_that_a_broken_server_did_not_give(judge, run, fake_server):
    url, requests = fake_server({"Question 3?": ["500"] * 8})  # all the attempts of the first call
    assert judge(url)[0] == 0
    assert failed(run) == 1
    before = len(requests())
    assert judge(url)[0] == 0
    assert (failed(run), len(requests())) == (0, before + 1)


def test_what_a_server_refuses_for_good_is_asked_again_on_demand_alone(judge, run, fake_server):
    url, requests = fake_server({f"Question {n}?": ["400"] for n in range(64)})
    code, _, error = judge(url)
    assert code == 3
    assert "20 requests in a row failed" in error
    assert "; --retry-failed also sends 64 refused requests again" in error
    assert (len(requests()), failed(run)) == (64, 64)
    code, _, error = judge(url)  # nothing is sent, and that is no success
    assert (code, len(requests())) == (3, 64)
    assert "judge pandalm: none of its requests was answered; --retry-failed asks them again" in error
    assert judge(url, "--retry-failed")[0] == 0
    assert (len(requests()), failed(run)) == (128, 0)


def test_failures_in_a_store_of_version_3_are_asked_again_unless_refused(judge, run, fake_server):
    url, requests = fake_server({"Question 3?": ["500"] * 8, "Question 5?": "400", "Question 7?": "filter"})
    assert judge(url)[0] == 0
    before = len(requests())
    with closing(sqlite3.connect(run.store)) as database:
        database.executescript("DROP TABLE attempts; PRAGMA user_version = 3")
    assert (judge(url)[0], len(requests()), failed(run)) == (0, before + 1, 2)
