"""Two verbs on one run at once, each in a process of its own: one is refused, or both end as they would alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROMPTS = 40


def start(folder: Path, *call: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "instruct", *map(str, call)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(*processes: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """The exit code and the errors of each."""
    return [(process.returncode, errors) for process in processes for _, errors in [process.communicate(timeout=300)]]


def wait_for(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def one_is_refused(ends: list[tuple[int, str]], doing: str) -> None:
    ends = sorted(ends)
    assert [code for code, _ in ends] == [0, 2], ends
    assert f"{doing}; wait until it ends, or stop it, and run the command again" in ends[1][1]
    assert len([line for line in ends[1][1].splitlines() if line.startswith("instruct: ")]) == 1
    assert "Traceback" not in ends[0][1] + ends[1][1]


@pytest.fixture
def answering(tmp_path, fake_server) -> tuple[Path, Callable[[], list[dict]]]:
    """A folder with the config of a run whose only system is on a slow server, and the server's requests."""
    url, requests = fake_server(delay=0.1)
    rows = [{"instruction": f"Question {number}?"} for number in range(PROMPTS)]
    (tmp_path / "prompts.json").write_text(json.dumps(rows))
    config = {
        "name": "mine",
        "model": {"name": "a-model"},
        "systems": {"base": {"objective": "none"}},
        "comparisons": [],
        "answers": {
            "files": ["prompts.json"],
            "generation": {"engine": "server", "base_url": url, "batch_size": 4},
        },
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(config))
    return tmp_path, requests


def test_two_generate_on_one_run_ask_each_prompt_once(answering):
    folder, requests = answering
    first = start(folder, "generate", "mine.yaml")
    wait_for(lambda: bool(requests()), first)
    second = start(folder, "generate", "runs/mine")
    one_is_refused(ended(first, second), "is writing the outputs of base")
    rows = json.loads((folder / "runs" / "mine" / "outputs" / "base.json").read_text())
    assert [row["instruction"] for row in rows] == [f"Question {number}?" for number in range(PROMPTS)]
    assert len(requests()) == PROMPTS


def test_two_train_on_one_run_leave_one_adapter(tmp_path, tiny_model_folder):
    rows = [json.dumps({"instruction": f"Say {n}.", "input": "", "output": f"It is {n}."}) for n in range(64)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    config = {
        "name": "mine",
        "model": {"name": str(tiny_model_folder), "dtype": "float32"},
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": {"max_steps": 300, "per_device_train_batch_size": 8, "save_steps": 50},
        "systems": {"emo": {"objective": "emo"}},
        "answers": None,
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(config))
    run = tmp_path / "runs" / "mine"
    processes = [start(tmp_path, "train", "mine.yaml") for _ in range(2)]
    one_is_refused(ended(*processes), "is training emo")
    assert any((run / "adapters" / "emo").glob("*.safetensors"))
    assert json.loads((run / "manifest.json").read_text())["steps"]["train/emo"]["status"] == "done"


@pytest.mark.parametrize("other", ["judge", "report", "doctor", "export", "list"])
def test_a_verb_beside_judging(answering, fake_server, other):
    folder, _ = answering
    assert ended(start(folder, "generate", "mine.yaml"))[0][0] == 0
    run, (url, asked) = folder / "runs" / "mine", fake_server(delay=0.3)
    rows = json.loads((run / "outputs" / "base.json").read_text())
    (folder / "theirs.json").write_text(
        json.dumps([{**row, "output": "Another answer", "generator": "theirs"} for row in rows])
    )
    call = ["judge", "runs/mine", "--judge", "pandalm", "--orders", "one", "--base-url", url, "--concurrency", 4]
    call += ["--candidate", "base", "--baseline", "theirs.json"]
    first = start(folder, *call)
    wait_for(lambda: len(asked()) > 1, first)
    calls: dict[str, list[object]] = {
        "judge": call,
        "report": ["report", "runs/mine"],
        "doctor": ["doctor", "runs/mine"],
        "export": ["export", "runs/mine", "--judge", "pandalm", "--format", "jsonl", "--output", "x.jsonl"],
        "list": ["list", "runs"],
    }
    ends = ended(first, start(folder, *calls[other]))
    if other == "judge":
        one_is_refused(ends, "is judging this run")
    elif other == "export" and ends[1][0] == 2:  # the first verdicts may not be stored yet
        assert "has no verdicts of pandalm; judge first" in ends[1][1]
        assert ends[0][0] == 0
    else:
        assert [code for code, _ in ends] == [0, 0], ends
    report = json.loads((run / "report" / "report.json").read_text())
    assert report["judges"][0]["comparisons"][0]["policies"]["single"]["n"] == PROMPTS
