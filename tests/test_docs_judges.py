"""docs/judges.md, executed: its files are written, its commands run, their output compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "judges.md"
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


CARDS = [path for _, path, _ in FENCE.findall(PAGE.read_text(encoding="utf-8")) if path.endswith("judge.yaml")]


@pytest.mark.parametrize("name", [Path(path).parent.name for path in CARDS])
def test_every_card_of_the_page_judges_as_printed(
    instruct, shared_fake_server, reward_model, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    for _, path, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
    shutil.copytree(reward_model, "runs/my_reward_model")
    for system in ("ours", "theirs"):
        rows = [{"instruction": f"Q{n}?", "output": f"{system} says {n}", "generator": system} for n in range(4)]
        Path(f"{system}.json").write_text(json.dumps(rows))
    url, _ = shared_fake_server()
    asked = ["--engine", "transformers"] if name == "scorer" else ["--base-url", url]
    files = ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/x"]
    code, _, error = instruct("judge", "--judge", name, *asked, *files)
    assert code == 0, error
    (comparison,) = json.loads(Path("runs/x/report/report.json").read_text())["judges"][0]["comparisons"]
    assert (comparison["pairs_judged"], comparison["reasons"]) == (4, [])


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_the_page_works_as_written(tmp_path):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"COLUMNS": "400"}
    printed = ""
    done = {"files": 0, "bash": 0, "python": 0, "output": 0}
    for language, path, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if path:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
            done["files"] += 1
        elif language in ("bash", "python"):
            command = ["bash", "-eo", "pipefail", "-c", text] if language == "bash" else [sys.executable, "-c", text]
            ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
            printed = ran.stdout
            done[language] += 1
        else:
            assert language == "text", f"unknown kind of block: {language}"
            lines = printed.splitlines()
            assert [line for line in text.splitlines() if line not in lines] == []
            done["output"] += 1
    assert done == {"files": 4, "bash": 2, "python": 1, "output": 2}
