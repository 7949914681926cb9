"""The wheel, installed where the clone is not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def run(command: list[str], folder: Path, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may name this clone
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def needed(name: str, extras: Set[str], found: set[tuple[str, Set[str]]]) -> None:
    """Add the distributions that one needs here, with its extras, and all that those need."""
    if (name, extras) in found:
        return
    found.add((name, extras))
    for each in map(Requirement, importlib.metadata.requires(name) or []):
        if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            needed(canonicalize_name(each.name), frozenset(each.extras), found)


@pytest.mark.slow
def test_the_base_judges_by_api_and_reports_without_torch(tmp_path, monkeypatch, fake_server):
    """The wheel in an environment that has the packages of the base alone."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], ROOT)
    (wheel,) = tmp_path.glob("emo_instruct-*.whl")
    environment = tmp_path / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], tmp_path)
    commands, (packages,) = environment / "bin", environment.glob("lib/python*/site-packages")
    found: set[tuple[str, Set[str]]] = set()
    needed("emo-instruct", frozenset(), found)
    for name in {name for name, _ in found} - {"emo-instruct"}:
        files = importlib.metadata.files(name) or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(files[0].locate()).parents[len(files[0].parts) - 1] / top)
    pip = [sys.executable, "-m", "pip", "--python", str(commands / "python"), "install", "-q", "--no-deps"]
    run([*pip, "--no-index", str(wheel)], tmp_path)
    command = str(commands / "instruct")
    assert "no torch: judging by API and reports work" in run([command, "doctor"], tmp_path)
    assert str(packages / "instruct" / "_cards") in run([command, "list", "judges"], tmp_path)
    for name in ("ours", "theirs"):
        rows = [{"instruction": f"Is {n} even?", "output": f"{name} {n}"} for n in range(24)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    url, requests = fake_server()
    judge = [command, "judge", "--base-url", url, "--judge-model", "some/model", "--output", "judged"]
    out = run([*judge, "--candidate", "ours.json", "--baseline", "theirs.json"], tmp_path)
    assert len(requests()) == 48  # both orders
    assert re.search(r"pairwise@some/model: .*ours.* theirs: \d+ won, \d+ tied, \d+ lost \(n = 24\)", out), out
    assert (tmp_path / "judged" / "report" / "report.html").is_file()
    remedy = f"the package torch, which is not installed: pip install 'emo-instruct[train] @ file://{wheel}'"
    assert remedy in run([command, "run", "demo"], tmp_path, code=2)
