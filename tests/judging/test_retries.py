"""What a rerun asks again: failed requests, at most twice; what was refused for good, on demand alone."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from instruct.base.files import write_atomically
from instruct.engines.server import ATTEMPTS
from instruct.run.directory import RunDirectory


@pytest.fixture
def run(tmp_path, make_run) -> RunDirectory:
    return make_run(tmp_path / "a-run", 64)


@pytest.fixture
def judge(instruct, run):
    def call(url: str, *more: str) -> tuple[int, str, str]:
        return instruct(
            "judge", str(run.folder), "--judge", "pandalm", "--orders", "one", "--base-url", url,
            "--candidate", "ours", "--baseline", "theirs", *more,
        )  # fmt: skip

    return call


def verdicts(run: RunDirectory) -> list[str]:
    with closing(sqlite3.connect(run.store)) as database:
        return [verdict for (verdict,) in database.execute("SELECT verdict FROM judgments")]


@pytest.mark.slow
def test_a_rerun_asks_failed_requests_again_at_most_twice(judge, run, fake_server):
    url, requests = fake_server({"Question 3?": "500", "Question 5?": ["500"] * ATTEMPTS})  # all of the first call
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
    assert verdicts(run).count("failed") == 1  # the other one has been answered


def test_losing_access_midway_loses_no_verdict(judge, run, fake_server):
    url, requests = fake_server({"Question 63?": "401"})
    code, _, error = judge(url)
    assert code == 2, error
    answered = sum(each["fault"] is None for each in requests())
    assert len(verdicts(run)) == answered > 0


@pytest.mark.slow
def test_what_a_server_refuses_for_good_is_asked_again_on_demand_alone(judge, run, fake_server):
    url, requests = fake_server({f"Question {n}?": ["400"] for n in range(64)})
    code, _, error = judge(url)
    assert code == 3
    assert (len(requests()), verdicts(run).count("failed")) == (64, 64)
    code, _, error = judge(url)  # nothing is sent, and that is no success
    assert (code, len(requests())) == (3, 64)
    assert "none of its requests was answered (HTTP 400); once that is settled, --retry-failed asks them" in error
    assert judge(url, "--retry-failed")[0] == 0
    assert (len(requests()), verdicts(run).count("failed")) == (128, 0)


def test_a_comparison_that_is_refused_does_not_keep_the_judge_from_the_next(instruct, run, fake_server, make_answers):
    rows = [{**row, "instruction": f"Other {row['instruction']}"} for row in make_answers("x", 8, "x to").rows]
    for side in ("refused", "base"):
        answers = [{**row, "output": f"{side} {place}"} for place, row in enumerate(rows)]
        write_atomically(run.outputs / f"{side}.json", json.dumps(answers))
    systems = {name: {"objective": "none"} for name in ("refused", "base", "ours", "theirs")}
    run.write_config({**run.config(), "systems": systems, "comparisons": [["refused", "base"], ["ours", "theirs"]]})
    url, _ = fake_server({"Other Question": "400"})
    code, _, error = instruct("judge", str(run.folder), "--judge", "pandalm", "--orders", "one", "--base-url", url)
    assert code == 3
    assert "none of its requests was answered" in error
    assert run.manifest()["steps"]["judge/pandalm/ours_vs_theirs"]["status"] == "done"


def test_a_finished_comparison_stays_so_if_its_judge_cannot_be_asked_again(judge, run, fake_server):
    url, _ = fake_server({"Question 3?": [*["500"] * ATTEMPTS, "401"]})
    assert judge(url)[0] == 0
    steps = run.manifest()["steps"]
    code, _, error = judge(url)
    assert code == 0, error
    assert "failed requests are not asked again: " in error
    assert run.manifest()["steps"] == steps
    assert (run.report / "report.json").is_file()
