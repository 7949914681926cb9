"""The wheel, installed as a user installs it: by pip alone, into an empty environment, without the pinned lists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(command: list[str], folder: Path, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_NO_INDEX")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if "No matching distribution found" in done.stderr and "Failed to establish a new connection" in done.stderr:
        pytest.skip("the package index is out of reach")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(folder: Path, extra: str = "") -> Path:
    """The folder of the environment's commands."""
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT)
    (wheel,) = folder.glob("emo_instruct-*.whl")
    run([sys.executable, "-m", "venv", "environment"], folder)
    commands = folder / "environment" / "bin"
    run([str(commands / "pip"), "install", "-q", "--no-compile", f"{wheel}{extra}"], folder)
    return commands


@pytest.mark.slow
def test_the_base_judges_by_api_and_reports_without_torch(tmp_path, monkeypatch, fake_server):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    commands = install(tmp_path)
    command = str(commands / "instruct")
    installed = run([str(commands / "pip"), "list"], tmp_path)
    assert "torch" not in installed
    assert "transformers" not in installed
    assert "no torch: judging by API and reports work" in run([command, "doctor"], tmp_path)
    for name in ("ours", "theirs"):
        rows = [f'"Is {n} even?\nSay why, briefly.",{name} {n}' for n in range(24)]  # a line break within a cell
        (tmp_path / f"{name}.csv").write_text("\n".join(["question,answer", *rows]))
    url, requests = fake_server()
    judge = [command, "judge", "--base-url", url, "--judge-model", "some/model", "--output", "judged"]
    judge += ["--candidate", "ours.csv", "--baseline", "theirs.csv"]
    refused = run(judge, tmp_path, code=2)
    assert "ours.csv, row 1: no column 'output' (columns: question, answer)" in refused
    out = run([*judge, "--prompt-column", "question", "--response-column", "answer"], tmp_path)
    assert len(requests()) == 48  # both orders
    assert re.search(r"pairwise@some/model: .*ours.* theirs: \d+ won, \d+ tied, \d+ lost \(n = 24\)", out), out
    assert "agreement with people: not measured" in out
    assert (tmp_path / "judged" / "report" / "report.html").is_file()
    assert "n = 24" in run([command, "report", "judged", "-q"], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    needed = f"the package torch, which is not installed: pip install 'emo-instruct[train] @ file://{wheel}'"
    assert needed in run([command, "run", "demo"], tmp_path, code=2)
    assert needed in run([str(commands / "python"), "-c", "from instruct import EMOTrainer"], tmp_path, code=1)


@pytest.mark.full
def test_the_train_extra_trains_and_reports(tmp_path):
    from conftest import save_model

    commands = install(tmp_path, "[train]")
    save_model(tmp_path / "model")
    rows = [{"prompt": f"Q{n}?", "completion": f"A{n}."} for n in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = ["train", "--model", "model", "--data.files", "rows.jsonl", "--train.max_steps", "2", "--name", "two"]
    run([str(commands / "instruct"), *train], tmp_path)
    assert list((tmp_path / "runs" / "two" / "adapters").glob("*/adapter_model.safetensors"))
