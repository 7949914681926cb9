"""manifest.json: which steps of a run were made, from what and how. config.yaml: what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Len
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from instruct.base.errors import InputError, first_problem
from instruct.base.files import read_text
from instruct.base.parsing import RepeatedKeyError, parse_json, parse_yaml


class _Comparison(BaseModel):
    model_config = ConfigDict(extra="forbid")

    judge: str
    candidate: str
    baseline: str


_Section = dict[str, Any] | None


class _StepConfig(BaseModel):
    """What is read of the configuration that a step really ran with."""

    model_config = ConfigDict(strict=True)

    model: _Section | str = None  # a judge's is a name
    data: _Section = None
    lora: _Section = None
    train: _Section = None
    system: _Section = None


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
    config: _StepConfig = _StepConfig()
    comparison: _Comparison | None = None
    comparisons: list[_Comparison] = []

    @model_validator(mode="after")
    def _has_results(self) -> _Step:
        if self.status == "done" and self.results is None:
            raise ValueError("is done, and has no results")
        return self


# By step and by part of its record, the keys without which a step that is done cannot be read.
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "overlap": {
        "inputs": ("data", "prompts"),
        "results": ("prompts", "rows", "exact", "shared", "short", "found"),
    },
    "bench": {"inputs": ("rows", "rates")},
}


FORMAT = 3  # of a run directory
_EARLIER = "0e90001"  # reads run directories whose manifest names no format


class _Manifest(BaseModel):
    """What is read of a manifest; more is not looked at."""

    model_config = ConfigDict(strict=True)

    created: str
    versions: dict[str, str | None]
    machine: dict[str, Any]
    steps: dict[str, _Step]

    @model_validator(mode="after")
    def _records_are_whole(self) -> _Manifest:
        for name, parts in _NEEDED.items():
            step = self.steps.get(name)
            for part, keys in parts.items() if step and step.status == "done" else ():
                if missing := [key for key in keys if key not in getattr(step, part)]:
                    raise ValueError(f"steps.{name}.{part}: has no {missing[0]}")
        for name, record in self.steps.items():
            if not name.startswith("judge/"):
                continue
            if record.comparison is None:
                raise ValueError(f"steps.{name}: has no comparison")
            for part in ("answers", "judge"):
                if not isinstance(record.inputs.get(part, {}), dict):
                    raise ValueError(f"steps.{name}.inputs.{part}: must be a mapping")
        return self


_Pairs = list[Annotated[list[str], Len(2, 2)]] | None


class _Answers(BaseModel):
    generation: _Section = None


class _System(BaseModel):
    model_config = ConfigDict(strict=True)

    objective: str = ""
    objective_args: _Section = None
    learning_rate: float | None = None
    seed: int | None = None


class _Judge(BaseModel):
    model_config = ConfigDict(strict=True)

    card: str
    comparisons: _Pairs = None


class _Config(BaseModel):
    """What is read of a config, whose steps may have changed options since."""

    model_config = ConfigDict(strict=True)

    model: _Section = None
    data: _Section = None
    lora: _Section = None
    train: _Section = None
    systems: dict[str, _System] | None = None
    answers: _Answers | None = None
    continuations: _Section = None
    evaluation: _Section = None
    judges: list[_Judge] | None = None
    comparisons: _Pairs = None


def read_manifest(path: Path) -> dict[str, Any]:
    """The content of a manifest.

    Raises:
        InputError: there is none, or it has another format or shape; the message names the first place.
    """
    manifest = _read(path, _Manifest, parse_json)
    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{path}: is of another format than {FORMAT}; use the version of instruct that wrote the run (commit "
            f"{_EARLIER} if it names no format)"
        )
    return manifest


def read_config(path: Path) -> dict[str, Any]:
    """The content of a run's config.yaml.

    Raises:
        InputError: there is none, or it has another shape; the message names the first place.
    """
    return _read(path, _Config, parse_yaml)


def _read(path: Path, shape: type[BaseModel], load: Callable[[str], Any]) -> dict[str, Any]:
    try:
        content: dict[str, Any] = load(read_text(path))
        shape.model_validate(content)
        return content
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file; {path.parent} is not a run directory") from None
    except ValidationError as error:
        problem = first_problem(error)
    except RepeatedKeyError as error:
        problem = str(error)
    except (ValueError, RecursionError, yaml.YAMLError):
        problem = f"is not valid {'JSON' if load is parse_json else 'YAML'}"
    raise InputError(f"{path}: {problem}; restore it or delete the run")
