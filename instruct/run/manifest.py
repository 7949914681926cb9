"""manifest.json: which steps of a run were made, from what and how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from instruct.base.errors import InputError, one_line


class _Comparison(BaseModel):
    model_config = ConfigDict(extra="forbid")

    judge: str
    candidate: str
    baseline: str


class _Step(BaseModel):
    """The record of a step, see `RunDirectory.step`; a step that is not done need not have results."""

    model_config = ConfigDict(strict=True)

    status: Literal["started", "stopped", "done"]
    inputs: dict[str, Any]
    started: str = ""
    attempts: int = 1
    minutes: float | None = None
    cpu_minutes: float | None = None
    versions: dict[str, str | None] = {}
    results: dict[str, Any] | None = None
    config: dict[str, Any] = {}
    comparison: _Comparison | None = None
    comparisons: list[_Comparison] = []

    @model_validator(mode="after")
    def _has_results(self) -> _Step:
        if self.status == "done" and self.results is None:
            raise ValueError("is done, and has no results")
        return self


class _Manifest(BaseModel):
    """What every version has written; more is not looked at."""

    model_config = ConfigDict(strict=True)

    created: str
    versions: dict[str, str | None]
    machine: dict[str, Any]
    steps: dict[str, _Step]


def read_manifest(path: Path) -> dict[str, Any]:
    """The content of a manifest.

    Raises:
        InputError: there is none, or it has another shape; the message names the first place.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _Manifest.model_validate(content)
        return content
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file; {path.parent} is not a run directory") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = one_line(".".join(map(str, first["loc"])), 80) or "(top level)"
        problem = f"{place}: {one_line(first['msg'].removeprefix('Value error, '), 120)}"
    except (ValueError, RecursionError):
        problem = "is not valid JSON"
    raise InputError(f"{path}: {problem}; restore it or delete the run")
