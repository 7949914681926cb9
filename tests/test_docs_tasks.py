"""docs/tasks.md, executed: the tasks that it adds are listed, answered and reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tasks.md"
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_tasks_are_added_as_the_page_says(tmp_path):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["HF_DATASETS_CACHE"] = str(tmp_path / "cache")
    section = PAGE.read_text(encoding="utf-8").partition("## Add a task")[2].partition("\n## Read the results")[0]
    printed, done = "", {"files": 0, "bash": 0, "text": 0}
    for language, path, text in FENCE.findall(section):
        if path:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
            done["files"] += 1
        elif language == "bash":
            command = ["bash", "-eo", "pipefail", "-c", text]
            ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
            printed = ran.stdout
            done["bash"] += 1
        else:
            assert language == "text", f"unknown kind of block: {language}"
            assert [line for line in text.splitlines() if line not in printed.splitlines()] == []
            done["text"] += 1
    assert done == {"files": 7, "bash": 3, "text": 3}
