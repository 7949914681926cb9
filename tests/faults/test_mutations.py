"""Files of a finished run, damaged at random: no verb ends in a traceback, or with other results and exit code 0."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from works import RUN, VERBS, complaints, products

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults"), pytest.mark.timeout(3600)]


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
    other = drawn.choice([file for file in files_of(RUN) if file != path])
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


MUTATIONS: list[Callable[[Path, random.Random], None]] = [truncated, overwritten, deleted, swapped]


def files_of(run: Path) -> list[Path]:
    """What the report is written from."""
    return sorted(
        path
        for path in run.rglob("*")
        if path.is_file() and path.stat().st_size and "report" not in path.parts and path.suffix != ".lock"
    )


def figures_of(folder: Path) -> dict[str, Any]:
    """What a report states: verdicts, win rates, figures of texts and tasks, and curves of trainings."""
    told = json.loads((folder / RUN / "report" / "report.json").read_text())
    figures = {name: told[name] for name in ("measurements", "claims", "trainings", "not_judged")}
    for judge in told["judges"]:
        for comparison in judge["comparisons"]:
            figures[f"{judge['name']}/{comparison['candidate']}"] = comparison["claim"]
    return figures


def answers_and_verdicts(folder: Path) -> dict[str, Any]:
    """What a rerun has to keep or make again; PEFT writes a set of modules in any order."""
    made = {f"{verb}: {name}": made for verb in VERBS[:-1] for name, made in products(folder, verb).items()}
    return {name: content for name, content in made.items() if not name.endswith("adapter_config.json")}


def check_told(code: int, stderr: str) -> None:
    """It ended well, or said why not in one line, or in one for each setting or row of a file."""
    assert code in (0, 1, 2, 3), stderr
    assert "Traceback" not in stderr, stderr
    files = {re.split(r": |, row ", line)[1] for line in complaints(stderr)}
    assert len(files) == bool(code), stderr


def test_a_damaged_run_is_refused_or_the_same(undisturbed, state, instruct, monkeypatch):
    """Each file is damaged twice; `run` goes on with each third."""
    folder, whole = state("all"), undisturbed.before["all"]
    monkeypatch.chdir(folder)
    figures, made = figures_of(whole), answers_and_verdicts(whole)
    kinds, wrong = cycle(MUTATIONS), []
    for place, file in enumerate(files_of(RUN)):
        for number in range(2):
            calls = [["report", RUN]]
            if (place + number) % 3 == 0:
                calls.append(["run", "mine.yaml"])
            shutil.rmtree(RUN)
            shutil.copytree(whole / RUN, RUN)
            mutate = next(kinds)
            mutate(file, random.Random(f"{file} {number}"))
            for call in calls:
                monkeypatch.setattr("instruct.run.replies._checked", set())
                try:
                    code, _, stderr = instruct(*call)
                    check_told(code, stderr)
                    if code == 0:
                        reported = figures_of(folder)
                        if file.name == "training_log.json" and not file.exists():  # as after training elsewhere
                            reported["trainings"] = figures["trainings"]
                        assert reported == figures
                    if call[0] == "run" and code == 0:
                        assert answers_and_verdicts(folder) == made or "is not what was generated" in stderr
                except Exception as error:
                    wrong.append(f"{call[0]} after {mutate.__name__} {file}, mutation {number}: {error!r:.500}")
        next(kinds)  # another kind for the first of the next file
    assert not wrong, "\n".join(wrong)
