"""A small run that every verb works on, and processes that do so."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import forked
import yaml

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_runs"
VERBS = ("train", "generate", "evaluate", "judge", "report")  # in this order
PROMPTS = 16
TASK = """
task: mood
dataset_path: csv
dataset_kwargs: {data_files: {train: train.csv, test: test.csv}}
doc_to_text: "{{text}} It is"
doc_to_choice: [bad., good.]
num_fewshot: 2
output_type: multiple_choice
test_split: test
fewshot_split: train
doc_to_target: label
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {licence: MIT}
"""
RUN = Path("runs") / "mine"


def write_inputs(folder: Path, url: str) -> None:
    """A config with two systems, the data and the model that it names; a server at `url` judges."""
    for name in ("model", "judges"):
        shutil.copytree(RECORDED / name, folder / name)
    (folder / "data" / "tasks").mkdir(parents=True)
    (folder / "data" / "tasks" / "mood.yaml").write_text(TASK)
    for name in ("train.csv", "test.csv", "texts.txt"):
        shutil.copy(RECORDED / name, folder)
    doors = [{"instruction": f"Name door {n}.", "input": "", "output": f"A door with {n} locks."} for n in range(32)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in doors))
    prompts = [{"instruction": f"Which door is {n}?", "output": "That.", "generator": "us"} for n in range(PROMPTS)]
    (folder / "prompts.json").write_text(json.dumps(prompts))
    model = {"name": "./model", "dtype": "float32"}
    config = {
        "name": "mine",
        "model": model,
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": {
            "max_steps": 24, "per_device_train_batch_size": 4, "save_steps": 4, "logging_steps": 4, "max_length": 128,
            "learning_rate": 0.01, "report_to": "none", "use_cpu": True,
        },
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "answers": {
            "files": ["prompts.json"],
            "generation": {"engine": "transformers", "max_new_tokens": 16, "batch_size": 2},
        },
        "evaluation": {
            "texts": {"held_out": {"files": ["texts.txt"]}},
            "tasks": {"names": ["mood"]},
        },
        "comparisons": [["emo", "baseline"]],
        "judges": [{"card": "in_words", "base_url": url, "concurrency": 2, "budget_usd": 1.0}],
    }  # fmt: skip
    card = yaml.safe_load((folder / "judges" / "prices.yaml").read_text())
    card["prices"][0]["endpoint"] = url.removeprefix("http://").removesuffix("/v1")
    (folder / "judges" / "prices.yaml").write_text(yaml.safe_dump(card))
    (folder / "mine.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def call_of(verb: str) -> list[str]:
    return [verb, "mine.yaml" if verb == "train" else str(RUN)]


def products(folder: Path, verb: str) -> dict[str, Any]:
    """What a verb makes, by file: to be the same whatever disturbed it."""
    run = folder / RUN
    if verb == "judge":
        if not (run / "judgments.sqlite").is_file():
            return {}
        with closing(sqlite3.connect(run / "judgments.sqlite")) as store:
            verdicts = store.execute("SELECT * FROM judgments").fetchall()
            replies = store.execute("SELECT key, text FROM completions").fetchall()
        return {"verdicts": sorted(map(repr, verdicts)), "replies": sorted(replies)}
    if verb == "report":  # what it says of times is left out
        told = json.loads((run / "report" / "report.json").read_text())
        kept = {name: told[name] for name in ("judges", "panels", "measurements", "claims", "figures", "not_judged")}
        exports = (run / "report" / "exports").rglob("*.*")
        return kept | {str(path.relative_to(run)): path.read_bytes() for path in exports if path.suffix != ".json"}
    if verb == "evaluate":
        files = [path for path in (run / "metrics").rglob("*.json*") if not path.name.startswith("results_")]
        return {  # lm-eval's files have dates
            re.sub(r"_\d{4}-.*(?=\.jsonl)", "", str(path.relative_to(run))): re.sub(
                r'"seconds": [\d.]+', "", path.read_text()
            )
            for path in (run / "metrics.json", *files)
        }
    patterns = {"train": ["adapters/*/*.safetensors", "adapters/*/adapter_config.json"], "generate": ["outputs/*.json"]}
    paths = [path for pattern in patterns[verb] for path in run.glob(pattern)]
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def run_verb(call: list[str], folder: Path, log: Path) -> None:
    """A process that is `instruct CALL` in a folder."""
    with suppress(OSError):
        os.setsid()  # what it starts is killed with it
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["instruct", *call]
    from instruct.__main__ import main

    try:
        code = main()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    sys.exit(code)


class Started:
    """A verb at work in a process of its own, whose log is in `place`.

    Args:
        target: what the process does, called with the call, the folder and the log.
    """

    def __init__(
        self,
        call: list[str],
        folder: Path,
        place: Path | None = None,
        target: Callable[[list[str], Path, Path], None] = run_verb,
    ) -> None:
        self.log = (place or folder) / f"{time.monotonic_ns()}.log"
        self.log.touch()
        self.process = forked.start(target, call, folder, self.log)

    @property
    def running(self) -> bool:
        return self.process.is_alive()

    def send(self, number: int) -> None:
        """Send a signal; SIGKILL to all that it has started, too."""
        assert self.process.pid
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
            os.kill(self.process.pid, number)

    def end(self, seconds: float = 300) -> tuple[int, str]:
        """Its exit code, and all that it has printed."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.send(signal.SIGKILL)
            raise AssertionError(f"it does not end: {self.log.read_text()[-3000:]}")
        return self.process.exitcode, self.log.read_text()


def changes(run: Path) -> dict[Path, int]:
    """When the files of a run were last written."""
    times = {}
    for path in run.rglob("*"):
        try:
            times[path] = path.stat().st_mtime_ns
        except FileNotFoundError:  # it was there for a moment
            continue
    return times


def on_disk(disk: Path, folder: Path) -> Path:
    place = disk / "work"
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(folder, place)


def resize(disk: Path, left: int | None) -> None:
    """Leave so many KiB of a disk free; None: all that it had."""
    for _ in range(100):  # it fails if more was written after the space was measured
        space = os.statvfs(disk)
        used = (space.f_blocks - space.f_bfree) * space.f_frsize // 1024
        size = f"{used + left}k" if left is not None else "1g"
        resized = subprocess.run(["mount", "-o", f"remount,size={size}", disk], capture_output=True)
        if not resized.returncode:
            return
    raise AssertionError(resized.stderr)


def complaints(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("instruct: ")]


def in_one_line(code: int, printed: str) -> None:
    """It ended well, or said in one line why not."""
    assert "Traceback" not in printed, printed[-3000:]
    assert code in (0, 1, 2, 3), (code, printed[-3000:])
    assert len(complaints(printed)) == (code != 0), printed[-3000:]
