"""A file of verdicts, and how `instruct report --annotations` puts it in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.judging.interchange.exchange import importing
from instruct.run.directory import RunDirectory


def annotation(number: int, preference: object = 2, **more: object) -> dict[str, object]:
    return {
        "instruction": f"Question {number}?",
        "generator_1": "theirs",
        "generator_2": "ours",
        "output_1": f"their answer {number}",
        "output_2": f"our answer {number}",
        "annotator": "alpaca_eval_gpt4",
        "preference": preference,
    } | more


def import_into_run(path: str | Path, folder: str | Path, **given: Any) -> RunDirectory:
    with importing(path, folder, **given):
        pass
    return RunDirectory(folder)
