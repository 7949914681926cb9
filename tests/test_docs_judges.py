"""docs/judges.md, executed: its files are written, its commands run, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "judges.md"
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
    assert done == {"files": 13, "bash": 6, "python": 7, "output": 6}
