"""Ctrl-C ends each phase in time, with the real model: as it imports, loads and computes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from instruct.base.interrupts import INTERRUPTED

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_runs"
LINE = "instruct: interrupted; rerun the command to resume"
MODEL = {"name": "smollm2-135m-instruct", "dtype": "float32"}
# Five seconds are promised; a busy machine gets ten more.
LIMIT = 15
# Seconds after the start: imports, the model, its work.
MOMENTS = (1.5, 6, 15, 30)
# Of these phases alone, and at two moments, the slow tests see the end.
OFTEN = ("preview", "train", "generate in vLLM", "judge")
ANSWERS = ["--answers.generation.engine", "transformers", "--answers.generation.max_new_tokens", "256"]
JUDGED = ["--candidate", "a.json", "--baseline", "b.json", "--output", "runs/judged"]
CALLS = {
    "preview": ["preview", "mine.yaml", "--rows", "30"],
    "check": ["check", "gem"],
    "train": ["train", "mine.yaml"],
    "generate": ["generate", "base.yaml", *ANSWERS],
    "generate in vLLM": ["generate", "base.yaml", "--name", "served"],
    "perplexity": ["evaluate", "base.yaml", "--evaluation.texts.held_out.files", "human.txt"],
    "tasks": ["evaluate", "base.yaml", "--tasks", "choice.yaml"],
    "judge": ["judge", "--judge", "smollm2_score", *JUDGED],
    "bench": ["bench", "mine.yaml", "--objectives", "mle,emo", "--name", "compared"],
    "run": ["run", "mine.yaml", "--train.max_steps", "1"],
    "validate": ["validate", "--judge", "smollm2_score", "--against", "own.json"],
    "report": ["report", "two_judges"],
    "merge": ["merge", "seeds"],
}

TASK = {
    "task": "mood_choice",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"train": "mood.csv", "test": "mood.csv"}},
    "training_split": "train",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{text}} It is",
    "doc_to_choice": ["bad", "good enough"],
    "doc_to_target": "label",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("interrupted")
    shutil.copytree(RECORDED, place, dirs_exist_ok=True)
    rows = [json.loads(line) for line in (ROOT / "data" / "starter" / "starter.jsonl").read_text().splitlines()]
    rows = list({row["instruction"]: row for row in rows}.values())
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = [{"instruction": row["instruction"], "output": row["output"], "generator": "us"} for row in rows]
    (place / "a.json").write_text(json.dumps(answers))
    (place / "b.json").write_text(json.dumps([{**row, "output": row["output"][::-1]} for row in answers]))
    (place / "human.txt").write_text("".join(row["output"].replace("\n", " ") + "\n" for row in rows))
    labels = [
        {"instruction": row["instruction"], "output_1": row["output"], "output_2": row["output"][::-1]}
        | {"label": "first"}
        for row in rows
    ]
    (place / "own.json").write_text(json.dumps(labels))
    mine = {
        "name": "mine",
        "model": MODEL,
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 8},
        "train": {"max_steps": 100, "per_device_train_batch_size": 8, "report_to": "none"},
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "answers": {"files": ["a.json"]},
    }
    (place / "mine.yaml").write_text(yaml.safe_dump(mine))
    base = {**mine, "name": "base", "systems": {"base": {"objective": "none"}}}
    (place / "base.yaml").write_text(
        yaml.safe_dump({name: base[name] for name in base if name not in ("lora", "train")})
    )
    (place / "choice.yaml").write_text(yaml.safe_dump(TASK))
    lines = [f"a {word} day,{number % 2}\n" for number, word in enumerate(["grim", "fine", "cold", "warm"] * 200)]
    (place / "mood.csv").write_text("text,label\n" + "".join(lines))
    return place


def interrupted(call: list[str], folder: Path, moment: float) -> tuple[float, str] | None:
    """The seconds until a call that is interrupted after `moment` seconds has ended, with all that it has started, and
    what it printed; None: it had ended before."""
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "instruct", *call], cwd=folder, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
    with suppress(subprocess.TimeoutExpired):
        process.wait(moment)
        assert process.returncode == 0, log.read_text()
        return None
    started = [process, *psutil.Process(process.pid).children(recursive=True)]
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(4 * LIMIT)
        seconds = time.monotonic() - begun
        _, left = psutil.wait_procs(started[1:], timeout=LIMIT)
        assert not left
    finally:
        for each in started:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    printed = log.read_text()
    # Python ends itself by the signal if that has passed an `exec`; a shell calls both 130.
    assert code in (INTERRUPTED, -signal.SIGINT), printed[-2000:]
    if code == INTERRUPTED:
        assert printed.endswith(f"{LINE}\n"), printed[-2000:]
    return seconds, printed


def assert_ends_in_time(
    folder: Path, name: str, moments: tuple[float, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {}
    for moment in moments:
        found = interrupted(CALLS[name], folder, moment)
        if found is None:
            break
        ends[moment], printed = found
        assert "Traceback" not in printed, printed[-3000:]
    with capsys.disabled():
        print(f"\n{name}: " + ", ".join(f"after {moment:g} s in {seconds:.1f} s" for moment, seconds in ends.items()))
    assert ends
    assert max(ends.values()) < LIMIT


@pytest.mark.parametrize("name", OFTEN)
def test_an_interrupted_phase_ends_in_time(folder, name, capsys):
    assert_ends_in_time(folder, name, (1.5, 12), capsys)


@pytest.mark.full
@pytest.mark.parametrize("name", CALLS)
def test_each_phase_ends_in_time_at_each_moment(folder, name, capsys):
    assert_ends_in_time(folder, name, MOMENTS, capsys)
