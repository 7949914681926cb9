"""A file of verdicts in a run, as `instruct report --annotations` puts it there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.judging.interchange.exchange import importing
from instruct.run.directory import RunDirectory


def import_into_run(path: str | Path, folder: str | Path, **given: Any) -> RunDirectory:
    with importing(path, folder, **given):
        pass
    return RunDirectory(folder)
