"""Judging on a Ray cluster of two nodes: the replies of a single process, one writer, and no key asked twice."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from nodes import driven, is_gone, wait

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig
from instruct.engines.ray_cluster import ClusterOptions
from instruct.judging.asking import Judge
from instruct.judging.options import JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.phases.judge import judge_run
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]


def make_run(folder: Path, pairs: int) -> RunDirectory:
    run = RunDirectory(folder)
    run.start(ExperimentConfig(name="a").model_dump(mode="json"))
    for side, text in (("ours", "A good answer to "), ("theirs", "Another, longer answer to ")):
        rows = [
            {"dataset": "", "instruction": f"Why {n}?", "output": text * (1 + n % 3) + str(n), "generator": side}
            for n in range(pairs)
        ]
        write_atomically(run.outputs / f"{side}.json", json.dumps(rows))
    return run


def completions(run: RunDirectory) -> dict[str, str]:
    if not run.store.is_file():
        return {}
    with closing(sqlite3.connect(run.store)) as database, suppress(sqlite3.OperationalError):  # not created yet
        return dict(database.execute("SELECT key, text FROM completions"))
    return {}


def verdicts(run: RunDirectory) -> list[Any]:
    with closing(sqlite3.connect(run.store)) as database:
        return database.execute("SELECT * FROM judgments ORDER BY instruction, position").fetchall()


@pytest.fixture
def options(reward_model):
    return {"card": "skywork_reward", "model": str(reward_model), "engine": "transformers"}


@pytest.mark.full
def test_verdicts_are_those_of_a_single_process(cluster, options, tiny_model_folder, tmp_path):
    labels = str(Path(__file__).parents[1] / "judges" / "smollm2_labels")
    by_text = {"card": labels, "model": str(tiny_model_folder), "engine": "transformers", "dtype": "float32"}
    for name, given in (("reward", options), ("text", by_text)):
        alone, spread = make_run(tmp_path / name / "alone", 40), make_run(tmp_path / name / "spread", 40)
        judge_run(alone, [Judge(JudgeOptions(**given))], [("ours", "theirs")], JudgingMode())
        where = ClusterOptions(address=cluster.address)
        judge_run(spread, [Judge(JudgeOptions(**given), where=where)], [("ours", "theirs")], JudgingMode())
        assert len(completions(alone)) == 80
        assert completions(spread) == completions(alone)
        assert verdicts(spread) == verdicts(alone)
        (record,) = spread.manifest()["steps"].values()
        assert sum(worker["replies"] for worker in record["results"]["workers"].values()) == 80
        assert "workers" not in next(iter(alone.manifest()["steps"].values()))["results"]
        # What a cluster has finished needs none: it is the same step.
        judge_run(spread, [Judge(JudgeOptions(**given))], [("ours", "theirs")], JudgingMode())


def test_killed_judging_resumes_and_asks_no_key_twice(cluster, options, batch_log, tmp_path):
    run = make_run(tmp_path / "killed", 150)
    given = {
        "run": str(run.folder),
        "judge": options,
        "log": str(batch_log),
        "seconds": 1.0,
        "address": cluster.address,
    }
    with driven(given, tmp_path / "driver.log") as driver:
        wait(lambda: driver.poll() is not None or bool(completions(run)), 240)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
        with pytest.raises(InputError, match="is judging this run"), only_process(run, VERDICTS):
            pass
    wait(lambda: is_gone(batch_log), 60)
    kept, lines = completions(run), len(batch_log.read_text().splitlines())
    assert 0 < len(kept) < 300
    judge = Judge(JudgeOptions(**options), where=ClusterOptions(address=cluster.address))
    judge_run(run, [judge], [("ours", "theirs")], JudgingMode())
    assert len(completions(run)) == 300
    assert kept.items() <= completions(run).items()
    again = [key for line in batch_log.read_text().splitlines()[lines:] for key in line.split()[1:]]
    assert len(again) == len(set(again)) == 300 - len(kept)
    assert set(again) & set(kept) == set()
    assert len({key for line in batch_log.read_text().splitlines() for key in line.split()[1:]}) == 300
