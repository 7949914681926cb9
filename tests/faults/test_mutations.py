"""Files of a finished run, damaged at random: no verb ends in a traceback, or with other results and exit code 0."""

from __future__ import annotations

import json
import random
import re
import shutil
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


def files_of(run: Path) -> list[Path]:
    """What the report is written from."""
    return sorted(
        path
        for path in run.rglob("*")
        if path.is_file() and path.stat().st_size and "report" not in path.parts and path.suffix != ".lock"
    )


def figures_of(folder: Path) -> list[Any]:
    """What a report states: win rates, and figures of texts and tasks."""
    told = json.loads((folder / RUN / "report" / "report.json").read_text())
    win_rates = [comparison["claim"] for judge in told["judges"] for comparison in judge["comparisons"]]
    return [win_rates, told["measurements"], told["claims"], told["not_judged"]]


def made_in(folder: Path) -> dict[str, Any]:
    """What a rerun has to keep or make again; PEFT writes a set of modules in any order."""
    made = {name: content for verb in VERBS[:-1] for name, content in products(folder, verb).items()}
    return {name: content for name, content in made.items() if not name.endswith("adapter_config.json")}


def check_told(code: int, stderr: str) -> None:
    """It ended well, or said why not in one line, or in one for each setting or row of a file."""
    assert code in (0, 1, 2, 3), stderr
    assert "Traceback" not in stderr, stderr
    files = {re.split(r": |, row ", line)[1] for line in complaints(stderr)}
    assert len(files) == bool(code), stderr


def test_a_damaged_run_is_refused_or_the_same(undisturbed, state, instruct, monkeypatch):
    """A report is written after each damage; `run` goes on after each fourth."""
    folder, whole, wrong = state("all"), undisturbed.before["all"], []
    monkeypatch.chdir(folder)
    for number, file in enumerate(files_of(RUN)):
        shutil.rmtree(RUN)
        shutil.copytree(whole / RUN, RUN)
        damage = (truncated, overwritten, deleted)[number % 3]
        damage(file, random.Random(str(file)))
        for call in [["report", str(RUN)], ["run", "mine.yaml"]][: 1 + (number % 4 == 0)]:
            monkeypatch.setattr("instruct.run.replies._checked", set())
            try:
                code, _, stderr = instruct(*call)
                check_told(code, stderr)
                assert code or figures_of(folder) == figures_of(whole)
                if call[0] == "run" and code == 0:
                    assert made_in(folder) == made_in(whole) or "is not what was generated" in stderr
            except Exception as error:
                wrong.append(f"{call[0]} after {damage.__name__} {file}: {error!r:.500}")
    assert not wrong, "\n".join(wrong)
