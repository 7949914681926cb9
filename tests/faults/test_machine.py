"""Faults of the machine over all verbs: each ends in one line, and a rerun makes what an undisturbed run has made."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from works import RUN, VERBS, Started, call_of, changes, in_one_line, on_disk, products, resize

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults"), pytest.mark.parametrize("verb", VERBS)]


def rerun(folder: Path, verb: str, undisturbed) -> None:
    code, printed = Started(call_of(verb), folder).end()
    assert code == 0, printed
    assert products(folder, verb) == undisturbed.products[verb]


def test_a_signal_loses_nothing(undisturbed, state, verb):
    folder = state(verb)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        shutil.rmtree(folder / RUN / "report", ignore_errors=True)
        before = changes(folder / RUN)
        process = Started(call_of(verb), folder)
        while process.running and changes(folder / RUN) == before:
            time.sleep(0.005)
        process.send(number)
        code, printed = process.end(20)
        assert "Traceback" not in printed, printed
        if number == signal.SIGINT:
            assert code == 130, printed
            assert printed.splitlines()[-1] == "instruct: interrupted; rerun the command to resume"
        else:
            assert code == -number, printed
    rerun(folder, verb, undisturbed)


@pytest.mark.parametrize("midway", [False, True], ids=["from the start", "midway"])
def test_a_full_disk_loses_nothing(undisturbed, state, disk, tmp_path, verb, midway):
    folder = on_disk(disk, state(verb))
    shutil.rmtree(folder / RUN / "report", ignore_errors=True)
    for left in (40, 4) if midway else (0,):
        before = changes(folder / RUN)
        if not midway:
            resize(disk, left)
        process = Started(call_of(verb), folder, place=tmp_path)
        while midway and process.running and changes(folder / RUN) == before:
            time.sleep(0.005)
        if midway:
            resize(disk, left)
        code, printed = process.end()
        in_one_line(code, printed)
        if code:
            assert re.search("free disk space|disk and .* are free; free some", printed), printed
        assert midway or code
        resize(disk, None)
    rerun(folder, verb, undisturbed)


def test_a_read_only_run_stays(undisturbed, state, disk, tmp_path, verb):
    folder = on_disk(disk, state(verb))
    before = changes(folder)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        code, printed = Started(call_of(verb), folder, place=tmp_path).end()
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    in_one_line(code, printed)
    assert code, printed
    assert changes(folder) == before
    rerun(folder, verb, undisturbed)


# What a verb reads, and what is damaged of it.
READ = {
    "train": ["rows.jsonl", "model/model.safetensors", "model/tokenizer.json"],
    "generate": [
        "runs/mine/adapters/emo/adapter_model.safetensors", "model/model.safetensors", "prompts.json",
        "runs/mine/manifest.json", "runs/mine/config.yaml", "model/tokenizer.json",
    ],
    "evaluate": ["model/model.safetensors", "texts.txt", "runs/mine/adapters/emo/adapter_model.safetensors"],
    "judge": ["runs/mine/outputs/emo.json", "runs/mine/outputs/baseline.json", "judges/in_words/judge.yaml"],
    "report": ["runs/mine/judgments.sqlite", "runs/mine/metrics.json", "runs/mine/outputs/emo.json"],
}  # fmt: skip


def test_a_damaged_file_changes_no_result(undisturbed, state, verb):
    for number, name in enumerate(READ[verb]):
        folder = state(verb)
        path = folder / name
        content = path.read_bytes()
        path.write_bytes([content[: len(content) // 2], b"\x00" * len(content), b""][number % 3])
        code, printed = Started(call_of(verb), folder).end()
        in_one_line(code, printed)
        assert code or products(folder, verb) == undisturbed.products[verb], f"{name}: {printed}"


def test_a_clock_set_back_confuses_nothing(undisturbed, state, verb):
    folder, before = state(verb), len(undisturbed.requests())
    code, printed = Started(call_of(verb), folder, clock=True).end()
    in_one_line(code, printed)
    assert code == 0
    assert products(folder, verb) == undisturbed.products[verb]
    steps = json.loads((folder / RUN / "manifest.json").read_text())["steps"]
    assert all(step["minutes"] >= 0 and step["cpu_minutes"] >= 0 for step in steps.values())
    rerun(folder, verb, undisturbed)
    assert len(undisturbed.requests()) - before == (undisturbed.asked if verb == "judge" else 0)
