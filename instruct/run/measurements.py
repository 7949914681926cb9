"""metrics.json: what `instruct evaluate` measured, a row for each number; values of each text are beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_serializer,
)

from instruct.analysis.results import Interval
from instruct.base.errors import InputError, InstructError, first_problem, one_line
from instruct.base.files import lock_file, open_to_read, open_to_write, sha256_of, valid_name, write_atomically
from instruct.run.directory import RunDirectory

VERSION: Literal[2] = 2
LOWER, HIGHER, NEAR_HUMAN = "lower is better", "higher is better", "near human"
Point = Annotated[list[float], Field(min_length=2, max_length=2)]


class Details(BaseModel):
    """What a row says beside its value: what reports need of it, and other facts; docs/text_metrics.md and
    docs/tasks.md explain them.

    `curve`: of a distance, temperatures and values there. `human`: the same metric of the human texts. `system`: that a
    control was matched to; `reason`: why a system has none.
    `trainings` that it is the mean of.
    `better`: which values of a task's metric are.
    """

    model_config = ConfigDict(extra="allow")

    tokens: int = 0
    temperature: float = 1.0
    curve: list[Point] = []
    human: float | None = None
    features: str = ""
    max_length: int = 0
    other_variance: float = 0.0
    without_tokens: int = 0
    empty: int = 0
    continuations: int = 0
    system: str | None = None
    reason: str | None = None
    task: str = ""
    shots: int | None = None
    standard_error: float | None = None
    chat: bool = False
    trainings: int = 1
    better: Literal["higher", "lower"] = "higher"


class MetricTraits(NamedTuple):
    """What a report says of a metric: `label` for people; `reading`: what is better, or how to read it; `most`: its
    largest value, if the smallest is 0."""

    label: str
    reading: str
    most: float = 1.0

    @property
    def better(self) -> Literal["higher", "lower", ""]:
        """Which values are better; empty: neither side is."""
        return "lower" if self.reading == LOWER else "higher" if self.reading == HIGHER else ""


class Number(BaseModel):
    """A number, before it is said whose. `value` None: it is not defined. `n`: the texts or rows that it is of."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    value: float | None = None
    interval: Interval | None = None
    n: int | None = None
    details: Details = Details()


def numbers(figures: Mapping[str, float | None], n: int | None, **details: Any) -> list[Number]:
    """Numbers of one metric's `n` texts or rows, which share their details."""
    about = Details(**details)
    return [Number(metric=metric, value=value, n=n, details=about) for metric, value in figures.items()]


def _folders(part: str) -> str:
    """A part names the folder of its values, below the run's."""
    if any(name in ("", ".", "..") or len(name.encode()) > 255 or "\0" in name for name in part.split("/")):
        raise ValueError("not the name of a folder below metrics/")
    return part


class Measurement(Number):
    """A number about a system. `part`: what one step measures, such as `mauve` and `lm_eval/arc_easy`."""

    system: Annotated[str, AfterValidator(valid_name)]
    part: Annotated[str, AfterValidator(_folders)]

    @property
    def kind(self) -> str:
        """`lm_eval`, or the part."""
        return self.part.partition("/")[0]

    @property
    def task(self) -> str:
        """A task's name in results: of a group of lm-eval's tasks one of these."""
        return self.details.task

    @model_serializer
    def content(self) -> dict[str, Any]:
        """As metrics.json and report.json have it: without what is not set."""
        fields = {name: getattr(self, name) for name in Number.model_fields if name in self.model_fields_set}
        if "details" in fields:
            fields["details"] = self.details.model_dump(mode="json", exclude_unset=True)
        return {"system": self.system, "part": self.part, **fields}


class Metrics(BaseModel):
    """The content of metrics.json."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[2] = VERSION
    measurements: list[Measurement] = []

    @property
    def texts(self) -> dict[str, dict[str, Measurement]]:
        """The rows about texts, by system and metric."""
        return by_system((row, row.metric) for row in self.measurements if row.kind != "lm_eval")

    def value(self, system: str, metric: str) -> float | None:
        """A number about a system's texts; None: it was not measured, or is not defined."""
        row = self.texts.get(system, {}).get(metric)
        return row.value if row else None

    @property
    def tasks(self) -> dict[str, dict[str, Measurement]]:
        """The accuracies in tasks of lm-eval, by system and task."""
        accuracies = (row for row in self.measurements if row.kind == "lm_eval" and row.metric == "acc")
        return by_system((row, row.task) for row in accuracies)


def by_system(rows: Iterable[tuple[Measurement, str]]) -> dict[str, dict[str, Measurement]]:
    """The rows by system and what each is called."""
    systems: dict[str, dict[str, Measurement]] = {}
    for row, name in rows:
        systems.setdefault(row.system, {})[name] = row
    return systems


@dataclass(frozen=True)
class PartResult:
    """What one step measures: rows; columns with values of each text; rows' values without each group of texts; files
    in `files_folder` that another tool wrote."""

    numbers: Sequence[Number]
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    without: Mapping[str, Sequence[float]] = field(default_factory=dict)
    files: Sequence[Path] = ()


def metrics_path(run: RunDirectory) -> Path:
    """Where a run's metrics are."""
    return run.folder / "metrics.json"


def read_metrics(run: RunDirectory, whole: bool = False) -> Metrics:
    """A run's metrics; empty if nothing was measured.

    Args:
        whole: also refuse metrics.json if it lacks what was measured, which `instruct evaluate` measures again.

    Raises:
        InputError: metrics.json cannot be read, or has other numbers than were measured.
    """
    path = metrics_path(run)
    metrics = _read(path, run) if path.is_file() else Metrics()
    recorded = recorded_hashes(run)
    rows: dict[tuple[str, str], list[Measurement]] = {}
    for row in metrics.measurements if recorded else ():
        rows.setdefault((row.part, row.system), []).append(row)
    for key, hashes in recorded.items():
        part, system = key
        if whole and key not in rows:
            raise InputError(
                f"{path}: lacks {one_line(part, 60)} of {one_line(system, 60)}, which was measured; restore the file, "
                f"or run `instruct evaluate {run.folder}`"
            )
        if key in rows and _sha256(rows[key]) != hashes["numbers"]:
            raise InputError(
                f"{path}: its numbers about {one_line(part, 60)} of {one_line(system, 60)} are not those that were "
                f"measured; restore it, or {_again(run)}"
            )
    return metrics


def recorded_hashes(run: RunDirectory) -> dict[tuple[str, str], dict[str, Any]]:
    """By part and system that were measured, SHA-256 of their `numbers` in metrics.json and, if they have `values` of
    each text, of that file; by name, of the `files` of another tool.
    """
    if not (run.folder / "manifest.json").is_file():
        return {}
    recorded = {}
    for step, record in run.manifest()["steps"].items():
        kind, _, name = step.partition("/")
        hashes = (record.get("results") or {}).get("sha256")
        if kind == "evaluate" and record["status"] == "done" and isinstance(hashes, dict) and "numbers" in hashes:
            part, _, system = name.rpartition("/")
            recorded[part, system] = hashes
    return recorded


def _sha256(rows: Iterable[Measurement]) -> str:
    content = [row.content() for row in rows]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _again(run: RunDirectory) -> str:
    return f"delete the file and run `instruct evaluate {run.folder}`"


def measure(
    run: RunDirectory,
    part: str,
    system: str,
    inputs: dict[str, Any],
    compute: Callable[[], PartResult],
    **about: Any,
) -> None:
    """Compute a part of a system's metrics as a step of the run, unless it was computed from the same inputs.

    Args:
        about: of the step's record, see `RunDirectory.step`.
    """
    step = metric_step(part, system)
    written = any((row.system, row.part) == (system, part) for row in read_metrics(run).measurements)
    before, folder = recorded_hashes(run).get((part, system), {}), files_folder(run, part, system)
    kept = [folder / name for name in before.get("files", ())]
    kept += [values_path(run, part, system)] if "values" in before else []
    if written and all(path.is_file() for path in kept) and run.is_done(step, inputs):
        return
    with run.step(step, inputs, **about) as recorded:
        measured = compute()
        if measured.values:
            write_values(run, part, system, measured.values, measured.without)
        rows = write_numbers(run, part, system, measured.numbers)
        recorded |= {row.metric: row.value for row in rows}
        recorded["sha256"] = {"numbers": _sha256(rows)}
        if measured.values:
            recorded["sha256"]["values"] = sha256_of(values_path(run, part, system))
        if measured.files:
            recorded["sha256"]["files"] = {path.name: sha256_of(path) for path in measured.files}


def write_numbers(run: RunDirectory, part: str, system: str, numbers: Iterable[Number]) -> list[Measurement]:
    """Put rows in place of a system's rows of the same part; those of others are kept. Returns the new rows.

    Raises:
        InstructError: a number is not finite.
    """
    new = [Measurement(system=system, part=part, **dict(number)) for number in numbers]
    run.folder.mkdir(parents=True, exist_ok=True)
    with open_to_write(run.folder / ".metrics.lock") as lock:  # another process may measure something else
        lock_file(lock.fileno(), wait=True)
        old = read_metrics(run).measurements
        # A system keeps its place, and so does a part of it.
        places = {key: place for place, key in enumerate(dict.fromkeys((row.system, row.part) for row in [*old, *new]))}
        systems = {name: place for place, name in enumerate(dict.fromkeys(row.system for row in [*old, *new]))}
        rows = [row for row in old if (row.system, row.part) != (system, part)] + new
        rows.sort(key=lambda row: (systems[row.system], places[row.system, row.part]))
        try:
            lines = ",\n".join(json.dumps(row.content(), ensure_ascii=False, allow_nan=False) for row in rows)
        except ValueError:
            raise InstructError(
                f"{run.folder}: a number about {part} of {system} is not finite; its training may have diverged: "
                "train it with another learning rate, or leave it out of the config"
            ) from None
        write_atomically(metrics_path(run), f'{{"version": {VERSION}, "measurements": [\n{lines}\n]}}\n')
    return new


def metric_step(part: str, system: str) -> str:
    """The name of the step that measures a part of a system's metrics."""
    return f"evaluate/{part}/{system}"


def values_path(run: RunDirectory, part: str, system: str) -> Path:
    """Where the values of each text are: runs/NAME/metrics/PART/SYSTEM.json."""
    return run.folder / "metrics" / part / f"{system}.json"


def files_folder(run: RunDirectory, part: str, system: str) -> Path:
    """Where the files of another tool are: runs/NAME/metrics/PART/SYSTEM."""
    return run.folder / "metrics" / part / system


def read_files(run: RunDirectory, part: str, system: str) -> list[Path]:
    """The files of another tool that were kept.

    Raises:
        InputError: one of them is not what was kept.
    """
    paths = []
    for name, recorded in recorded_hashes(run).get((part, system), {}).get("files", {}).items():
        paths.append(path := files_folder(run, part, system) / name)
        _check_same(path, recorded, run)
    return paths


def _check_same(path: Path, recorded: str, run: RunDirectory) -> None:
    if not (path.is_file() and sha256_of(path) == recorded):
        raise InputError(f"{path}: is not what was measured; restore it, or {_again(run)}")


def write_values(
    run: RunDirectory,
    part: str,
    system: str,
    values: Mapping[str, Sequence[Any]],
    without: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Keep the values of each text, as columns of one length; `id` (and of samples, `seed` and `sample`) says which
    text. Paired tests between systems read them.

    Args:
        without: of metrics of whole samples, the value without each group of texts (instruct.analysis.jackknife).
    """
    assert len({len(column) for column in values.values()}) == 1, "columns of one length"
    content: dict[str, Any] = {name: list(column) for name, column in values.items()}
    if without:
        content["without"] = {metric: list(column) for metric, column in without.items()}
    write_atomically(values_path(run, part, system), json.dumps(content, ensure_ascii=False) + "\n")


def read_values(run: RunDirectory, part: str, system: str) -> dict[str, Any] | None:
    """What `write_values` wrote, `without` under its name; None: it did not.

    Raises:
        InputError: it is not what was measured.
    """
    path = values_path(run, part, system)
    recorded = recorded_hashes(run).get((part, system), {}).get("values")
    if recorded:
        _check_same(path, recorded, run)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def clusters_of(columns: Mapping[str, Sequence[Any]]) -> dict[Any, str]:
    """The cluster of each text by its id, of what `read_values` read; {}: each is one of its own."""
    return dict(zip(columns["id"], columns["cluster"], strict=True)) if "cluster" in columns else {}


def _read(path: Path, run: RunDirectory) -> Metrics:
    """The content of a metrics.json.

    Raises:
        InputError: it cannot be read; the message names the first place.
    """
    remedy = _again(run)
    try:
        with open_to_read(path) as file:
            content = Metrics.model_validate_json(file.read(), strict=True)
        json.dumps(content.model_dump(), allow_nan=False)
        return content
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; {remedy}") from None
    except ValueError:
        raise InputError(f"{path}: has a number that is not finite; {remedy}") from None
