"""metrics.json: what `instruct evaluate` measured in a run, in parts that are computed and merged one by one."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError, model_validator

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.files import write_atomically
from instruct.measuring.tasks.model import HarnessResults, TaskResults
from instruct.measuring.texts.model import SystemTexts
from instruct.run.directory import RunDirectory

Model = TypeVar("Model", bound=BaseModel)


class Metrics(BaseModel):
    """The content of metrics.json, by system: numbers about texts, results of few-shot tasks."""

    model_config = ConfigDict(extra="forbid")

    texts: dict[str, SystemTexts] = {}
    tasks: dict[str, TaskResults] = {}
    lm_eval: dict[str, HarnessResults] = {}


def metrics_path(run: RunDirectory) -> Path:
    """Where a run's metrics are."""
    return run.folder / "metrics.json"


def read_metrics(run: RunDirectory) -> Metrics:
    """A run's metrics; empty if nothing was measured.

    Raises:
        InputError: metrics.json cannot be read.
    """
    path = metrics_path(run)
    return _read(Metrics, path, run) if path.is_file() else Metrics()


def merge_metrics(run: RunDirectory, part: str, system: str, values: BaseModel) -> None:
    """Write the fields that are set in `values` into a system's part, a field of `Metrics`; the rest is kept.

    Raises:
        InstructError: a number is not finite.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    with (run.folder / ".metrics.lock").open("w") as lock:  # another process may measure something else
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = read_metrics(run).model_dump(mode="json", exclude_none=True)
        systems = content.setdefault(part, {})
        systems[system] = {**systems.get(system, {}), **values.model_dump(mode="json", exclude_unset=True)}
        checked = Metrics.model_validate(content).model_dump(mode="json", exclude_none=True)
        try:
            text = json.dumps(checked, indent=1, ensure_ascii=False, allow_nan=False)
        except ValueError:
            raise InstructError(
                f"{run.folder}: a number about {part} of {system} is not finite; its training may have diverged: "
                "train it with another learning rate, or leave it out of the config"
            ) from None
        write_atomically(metrics_path(run), text + "\n")


def is_measured(run: RunDirectory, metric: str, system: str, inputs: dict[str, Any]) -> bool:
    """Whether a metric about a system's texts was computed from these inputs and is in metrics.json."""
    texts = read_metrics(run).texts.get(system)
    written = texts is not None and getattr(texts, metric) is not None
    return written and run.is_done(metric_step(metric, system), inputs)


def metric_step(metric: str, system: str) -> str:
    """The name of the step that computes a metric about a system's texts."""
    return f"evaluate/{metric}/{system}"


def values_path(run: RunDirectory, metric: str, system: str) -> Path:
    """Where the values of each text are: runs/NAME/metrics/METRIC/SYSTEM.json."""
    return run.folder / "metrics" / metric / f"{system}.json"


def write_values(run: RunDirectory, metric: str, system: str, values: Mapping[str, Sequence[Any]]) -> None:
    """Keep a metric's values for each text, as columns of one length; `id` (and of samples, `seed` and `sample`) says
    which text. Paired tests between systems read them."""
    assert len({len(column) for column in values.values()}) == 1, "columns of one length"
    text = json.dumps({name: list(column) for name, column in values.items()}, ensure_ascii=False)
    write_atomically(values_path(run, metric, system), text + "\n")


def read_values(run: RunDirectory, metric: str, system: str, needed: Sequence[str] = ()) -> dict[str, list[Any]] | None:
    """What `write_values` wrote; None: it did not.

    Raises:
        InputError: the file cannot be read, or lacks a column that is needed.
    """
    path = values_path(run, metric, system)
    if not path.is_file():
        return None
    columns: dict[str, list[Any]] = _read(_Values, path, run).model_dump(exclude_none=True)
    if lacking := [name for name in needed if name not in columns]:
        raise InputError(
            f"{path}: {lacking[0]}: Field required; delete the file and run `instruct evaluate {run.folder}`"
        )
    return columns


# Finite, and small enough to be added up.
_Number = Annotated[float, Field(strict=True, ge=-1e15, le=1e15)]
_MOST_NATS = 700  # per token: exp() of more overflows


class _Values(BaseModel):
    """The columns of a file of values: numbers, apart from these."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, list[_Number | None]]

    id: list[StrictStr | StrictInt]
    label: list[str] | None = None
    answer: list[str] | None = None
    vote: list[str | None] | None = None
    scores: list[list[float]] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> _Values:
        columns = self.model_dump(exclude_none=True)
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("the columns have different lengths")
        if ("nats" in columns) != ("tokens" in columns):
            raise ValueError("nats and tokens require each other")
        for nats, tokens in zip(columns.get("nats", ()), columns.get("tokens", ()), strict=True):
            if nats is None or tokens is None or abs(nats) > _MOST_NATS * tokens:
                raise ValueError(f"{nats} nats of {tokens} tokens")
        return self


def _read(model: type[Model], path: Path, run: RunDirectory) -> Model:
    """A file that `instruct evaluate` wrote.

    Raises:
        InputError: it cannot be read; the message names the first place.
    """
    try:
        found = model.model_validate_json(path.read_bytes(), strict=True)
        json.dumps(found.model_dump(), allow_nan=False)
        return found
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = one_line(".".join(map(str, first["loc"])), 80) or "(top level)"
        raise InputError(
            f"{path}: {place}: {one_line(first['msg'], 120)}; delete the file and run `instruct evaluate {run.folder}`"
        ) from None
    except ValueError:
        raise InputError(
            f"{path}: has a number that is not finite; delete the file and run `instruct evaluate {run.folder}`"
        ) from None
