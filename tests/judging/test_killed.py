"""A judging of 805 pairs that is killed fifty times: nothing that was paid for is lost, and the report is the same."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from instruct.config import ExperimentConfig
from instruct.runs import RunDirectory, write_atomically

PAIRS, KILLS, CONCURRENCY = 805, 50, 8


@pytest.fixture
def make_run(tmp_path, make_answers):
    def make(name: str, pairs: int = PAIRS) -> RunDirectory:
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
            sys.executable, "-m", "instruct.cli", "judge", str(run.folder), "--judge", "pandalm", "--orders", "one",
            "--base-url", url, "--concurrency", str(CONCURRENCY), "--candidate", sides[0], "--baseline", sides[1],
        ]  # fmt: skip

    return make


def stored_prompts(run: RunDirectory) -> int:
    with closing(sqlite3.connect(run.store)) as database:
        return int(database.execute("SELECT COUNT(*) FROM completions").fetchone()[0])


def figures(run: RunDirectory) -> dict:
    report = json.loads((run.report / "report.json").read_text())
    return {key: value for key, value in report.items() if key not in ("created", "phases", "spent_usd")}


@pytest.mark.full
def test_fifty_kills_lose_nothing_and_change_nothing(fake_server, make_run, command, run_and_kill):
    url, requests = fake_server(delay=0.15)  # so slow that the moment of a kill is the draw's
    run, draw = make_run("killed"), random.Random(0)
    stored, arrived = 0, 0
    for kill in range(KILLS):
        # Sixteen a life are 805 in fifty; some lives end before their first request, some between two commits.
        wanted, pause = arrived + draw.randint(0, 31) * (PAIRS - stored > 40), draw.random() / 50
        wanted = min(wanted, PAIRS - 1)

        def reached(wanted: int = wanted, pause: float = pause) -> bool:
            if not run.store.exists() or len(requests()) < wanted:
                return False
            time.sleep(pause)
            return True

        run_and_kill(command(run, url), reached, 120)
        time.sleep(0.1)  # what was under way reaches the server's log
        lost = len(requests()) - arrived - (stored_prompts(run) - stored)
        assert 0 <= lost <= CONCURRENCY, f"kill {kill}"
        arrived, stored = len(requests()), stored_prompts(run)
    assert 200 < stored < PAIRS
    done = subprocess.run(command(run, url), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stored_prompts(run) == PAIRS
    assert len(requests()) == arrived + PAIRS - stored  # none that was committed is asked for again
    prompts = {request["body"]["prompt"] for request in requests()}
    assert len(prompts) == PAIRS

    undisturbed = make_run("undisturbed")
    assert subprocess.run(command(undisturbed, url), capture_output=True).returncode == 0
    assert figures(run)["judges"] == figures(undisturbed)["judges"]
    assert figures(run)["judges"][0]["comparisons"][0]["pairs_judged"] == PAIRS


@pytest.mark.slow
def test_two_processes_on_one_run_judge_no_pair_twice(fake_server, make_run, command):
    url, requests = fake_server()
    run = make_run("together", 300)
    both = [
        subprocess.Popen(
            command(run, url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "OPENAI_ORG_ID": name},
        )
        for name in ("one", "other")
    ]
    for process in both:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    prompts = [request["body"]["prompt"] for request in requests()]
    assert len(prompts) == len(set(prompts)) == stored_prompts(run) == 300
    clients = {request["client"] for request in requests()}
    assert len(clients) == 2  # both had a share of the work
    assert figures(run)["judges"][0]["comparisons"][0]["pairs_judged"] == 300


@pytest.mark.slow
def test_a_complete_run_reports_without_a_request(fake_server, make_run, command):
    url, requests = fake_server()
    run = make_run("complete", 40)
    assert subprocess.run(command(run, url), capture_output=True).returncode == 0
    before, first = len(requests()), figures(run)
    again = subprocess.run(command(run, "http://127.0.0.1:9/v1"), capture_output=True, text=True)
    assert again.returncode == 2  # another server is another judge: nothing of it is stored, and it is not there
    same = subprocess.run(command(run, url), capture_output=True, text=True)
    assert (same.returncode, len(requests())) == (0, before)
    assert figures(run) == first
