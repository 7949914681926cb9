"""What a shell completes, asked as a shell asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instruct.run.directory import RunDirectory


@pytest.fixture
def completed(tmp_path, monkeypatch):
    """`completed("judge --ju")`: what argcomplete answers in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def ask(typed: str) -> list[str]:
        line = f"instruct {typed}"
        asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
        asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / ".answer"), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
        command = [sys.executable, "-c", "from instruct.command.main import main; main()"]
        subprocess.run(command, env=os.environ | asked, check=True, capture_output=True)
        return (tmp_path / ".answer").read_text().split("\n")

    return ask


def test_verbs_judges_configs_and_runs_are_completed(completed):
    assert completed("val") == ["validate"]
    assert {"autoj", "pandalm", "smollm2_score"} <= {*completed("judge --judge ")}
    assert completed("judge --judge smoll") == ["smollm2_score"]
    assert completed("run alpaca_emo_sm") == ["alpaca_emo_smollm2"]
    RunDirectory("runs/mine").start({"name": "mine"})
    assert completed("report ru") == ["runs/mine", "runs/"]
    assert completed("judge runs/mine --st") == ["--start-over", "--stop-when"]


def test_files_are_completed_where_a_name_may_be_a_path(completed):
    Path("my.yaml").touch()
    Path("my.jsonl").touch()
    assert completed("train my") == ["my.yaml"]
    Path("judges/own").mkdir(parents=True)
    assert "judges/own/" in completed("judge --judge judges/")


def test_bash_registers_the_completion(tmp_path):
    """The line of docs/installation.md, in a real shell."""
    script = """
    eval "$(register-python-argcomplete instruct)"
    COMP_LINE="instruct list ju" COMP_POINT=16 COMP_WORDS=(instruct list ju) COMP_CWORD=2
    $(complete -p instruct | sed 's/.*-F //; s/ .*//') instruct ju list; echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert done.stdout.split() == ["judges"], done.stderr
