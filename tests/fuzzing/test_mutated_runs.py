"""Files of a run, damaged at random: no verb ends in a traceback, and none reports other figures with exit code 0."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics

RECORDED = Path(__file__).resolve().parents[1] / "recorded_runs"
RUNS = ("two_judges", "mixture_and_task", "texts")


def truncated(path: Path, drawn: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: drawn.randrange(path.stat().st_size)])


def overwritten(path: Path, drawn: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(drawn.choice([1, 5])):
        length = drawn.choice([1, 4, 64])
        place = drawn.randrange(max(1, len(content) - length))
        content[place : place + length] = drawn.randbytes(length)
    path.write_bytes(content)


def deleted(path: Path, drawn: random.Random) -> None:
    path.unlink()


def swapped(path: Path, drawn: random.Random) -> None:
    """Two files of the run take each other's place."""
    run = next(folder for folder in path.parents if (folder / "config.yaml").exists() or folder.parent.name == "runs")
    other = drawn.choice([file for file in files_of(run) if file != path])
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def files_of(run: Path) -> list[Path]:
    """What a run is made of: its report is written from it."""
    return sorted(
        path
        for path in run.rglob("*")
        if path.is_file() and path.stat().st_size and "report" not in path.parts and path.suffix != ".lock"
    )


MUTATIONS: list[Callable[[Path, random.Random], None]] = [truncated, overwritten, deleted, swapped]


def figures_of(run: Path) -> dict[str, Any]:
    """What a report found: win rates with their counts, metrics and accuracies."""
    content = json.loads((run / "report" / "report.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for judge in content["judges"]:
        for comparison in judge["comparisons"]:
            name = "/".join([judge["name"], comparison["candidate"], comparison["baseline"]])
            policies = comparison["policies"].items()
            found |= {f"{name}/{policy}": (figures["win_rate"], figures["n"]) for policy, figures in policies}
    rows = read_metrics(RunDirectory(run)).measurements
    return found | {f"{row.system}/{row.part}/{row.metric}": row.value for row in rows}


@pytest.mark.parametrize(
    "mutations",
    [pytest.param(8, marks=pytest.mark.slow), pytest.param(200, marks=[pytest.mark.slow, pytest.mark.full])],
)
@pytest.mark.parametrize("name", RUNS)
def test_a_damaged_run_is_refused_in_one_line_or_reported_as_it_was(instruct, tmp_path, monkeypatch, name, mutations):
    monkeypatch.chdir(tmp_path)
    for folder in ("judges", "data"):
        shutil.copytree(RECORDED / folder, folder)
    whole, run = tmp_path / "whole", Path("runs") / name
    shutil.copytree(RECORDED / name, run)
    assert instruct("report", run)[0] == 0
    known = figures_of(run)
    assert known
    run.rename(whole)
    files = [path.relative_to(whole) for path in files_of(whole)]
    for number in range(mutations):
        monkeypatch.setattr("instruct.run.replies._checked", set())
        drawn = random.Random(f"{name} {number}")
        shutil.rmtree("runs", ignore_errors=True)
        shutil.copytree(whole, run)
        path, mutate = run / drawn.choice(files), drawn.choice(MUTATIONS)
        mutate(path, drawn)
        for call in (["report", run], ["doctor", run], ["list", "runs"]):
            code, _, stderr = instruct(*call)  # an exception ends the test
            place = f"{mutate.__name__} {path}, mutation {number}: {stderr}"
            assert code in (0, 1, 2), place
            assert code == 0 or len(stderr.splitlines()) == 1, place
            if call[0] == "report" and code == 0:
                changed = figures_of(run)
                wrong = {key: value for key, value in changed.items() if value != known.get(key)}
                assert not wrong, place
