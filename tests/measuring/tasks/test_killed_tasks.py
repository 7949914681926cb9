"""A run that is killed in the middle of MMLU, again and again: what it asks twice is at most a few batches a kill."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from instruct.config import make_config
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_values

pytest.importorskip("lm_eval")

from instruct.measuring.tasks.lm import BATCH, BATCHES

KILLS = int(os.environ.get("INSTRUCT_KILLS", "2"))
# `instruct` with a line in asked.log for each prompt, before it is computed.
ASKING = """
import sys
from instruct.command.main import main
from lm_eval.models.huggingface import HFLM
call = HFLM._model_call
def logged(self, ids, *more):
    with open("asked.log", "a") as file:
        file.writelines(f"{hash(tuple(row))}\\n" for row in ids.tolist())
    return call(self, ids, *more)
HFLM._model_call = logged
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_in_the_middle_of_mmlu_repeats_at_most_a_few_batches(tiny_experiment, shared_data, tmp_path):
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}}, "judges": [], "comparisons": []}
    run = RunDirectory("runs/mine")
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    flags = ["--tasks", "mmlu", "--evaluation.tasks.folder", str(shared_data / "tasks"), "--limit", "150"]

    def started(place: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", ASKING, "evaluate", str(place), *flags]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def asked() -> list[str]:
        text = Path("asked.log").read_text() if Path("asked.log").exists() else ""
        return text.split("\n")[:-1]

    undisturbed = RunDirectory("runs/whole")
    undisturbed.start(make_config(content, [], "test").model_dump(mode="json"))
    process = started(undisturbed.folder)
    assert process.wait() == 0, process.stderr and process.stderr.read().decode()[-2000:]
    total = len(asked())
    assert total == 150  # labels of one token are read off one prompt
    Path("asked.log").unlink()

    draw = random.Random(0)
    for _ in range(KILLS):
        process, before = started(run.folder), len(asked())
        limit = before + draw.randrange(40, total // KILLS)
        while len(asked()) < limit and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    process = started(run.folder)
    assert process.wait() == 0, process.stderr and process.stderr.read().decode()[-2000:]
    repeated = len(asked()) - total
    print(f"{KILLS} kills in the middle of {total} rows: {repeated} asked again")
    assert 0 <= repeated <= KILLS * BATCH * BATCHES
    part = "tasks/mmlu"
    assert read_values(run, part, "base")["answer"] == read_values(undisturbed, part, "base")["answer"]
    (path,) = run.folder.glob("metrics/replies/*.jsonl")
    keys = [json.loads(line)[0] for line in path.read_text().splitlines() if line.startswith('["') and line[-1] == "]"]
    assert len(keys) == len(set(keys)) == 4 * total
