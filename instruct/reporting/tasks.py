"""The report's part about few-shot tasks: measurements, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from instruct.reporting.tables import (
    Column,
    Table,
    Value,
    columns_table,
    text_columns,
)
from instruct.run.measurements import Measurement, Metrics

ACCURACY = "accuracy"

_OVERVIEW = (
    "Accuracy in percent; the mean is over the tasks that every system answered. Retrieval alone: the vote of the "
    "demonstrations' labels, without a model. A system has to beat it to show that it uses the text. `instruct compare "
    "RUN` tests the differences between systems."
)
_HARNESS = "Tasks of lm-evaluation-harness, with its own prompts, metrics and standard errors."
_DRAWS = (
    "A value of several draws of demonstrations is their mean, also of each row, so that the standard error and the "
    "tests are of the test rows; beside it the lowest and the highest draw. One draw: fixed demonstrations or none."
)


def task_measurements(metrics: Metrics) -> list[Measurement]:
    """Every number about tasks, task by task."""
    rows = [row for row in metrics.measurements if row.value is not None and row.kind in ("tasks", "lm_eval")]
    parts = list(dict.fromkeys(row.part for row in rows))
    return sorted(rows, key=lambda row: parts.index(row.part) if row.kind == "tasks" else len(parts))


def scored_rows(
    part: str, systems: Mapping[str, Mapping[str, Sequence[Any]]]
) -> tuple[str, dict[str, dict[Any, float]]]:
    """A task's metric, and what each row of each system has of it."""
    if part.startswith("tasks/"):
        return ACCURACY, {name: _row_scores(columns, ACCURACY) for name, columns in systems.items()}
    theirs = part.startswith("lm_eval/")
    values = {system: columns for system, columns in systems.items() if theirs and len(columns) > 1}
    names = [name for columns in values.values() for name in columns if name not in ("id", "cluster")]
    whole = (name for name in names if all(None not in columns.get(name, [None]) for columns in values.values()))
    metric = next(whole, names[0] if names else ACCURACY)
    return metric, {name: _row_scores(columns, metric) for name, columns in values.items()}


def _row_scores(columns: Mapping[str, Sequence[Any]], metric: str) -> dict[Any, float]:
    """What each row of a task counts: of labels, whether the answer is right."""
    if "answer" in columns:
        rows = zip(columns["id"], columns["answer"], columns["label"], strict=True)
        return {place: float(answer == label) for place, answer, label in rows}
    values = zip(columns["id"], columns.get(metric, ()), strict=False)
    return {place: value for place, value in values if value is not None}


def accuracies(measurements: Iterable[Measurement]) -> list[Measurement]:
    """The accuracies in tasks of cards."""
    return [row for row in measurements if row.kind == "tasks" and row.metric == ACCURACY]


def task_tables(measurements: Sequence[Measurement]) -> list[Table]:
    """Accuracies by system, and lm-eval's tasks."""
    harness = [row for row in measurements if row.kind == "lm_eval"]
    drawn = any(row.details.draws > 1 for row in harness)
    chats = any(row.details.chat for row in harness)
    of_harness = [
        *text_columns("task", "system", "metric"),
        Column("shots", "details.shots"),
        Column("rows", "n"),
        Column("clusters", "details.clusters", when="known"),
        Column("value", error="details.standard_error"),
        Column("std. error", "details.standard_error", error="details.standard_error"),
        Column("prompts", lambda row: "chat" if row.details.chat else "text", when=chats),
        Column("shortened", "details.shortened", when="known"),
        Column("draws", "details.draws", when=drawn, note=_DRAWS),
        *(Column(key, f"details.{key}") for key in ("lowest", "highest")),
    ]
    return [_overview(accuracies(measurements)), columns_table("lm-eval", harness, of_harness, _HARNESS)]


def _overview(figures: Sequence[Measurement]) -> Table:
    """A row for each system, as in Table 3 of the paper; the mean is over the tasks that all systems have."""
    tasks = list(dict.fromkeys(row.task for row in figures))
    systems = list(dict.fromkeys(row.system for row in figures))
    accuracy = {(row.task, row.system): row.value or 0.0 for row in figures}
    common = [task for task in tasks if all((task, system) in accuracy for system in systems)]
    rows: list[list[Value]] = []
    for system in systems:
        values = [accuracy[task, system] for task in common]
        mean = sum(values) / len(values) if values else None
        rows.append([system, *(accuracy.get((task, system)) for task in tasks), mean])
    floors = {row.task: row.details.floor for row in figures}
    rows.append(["retrieval alone", *(floors[task] for task in tasks), None])
    return Table("Tasks", ["system", *tasks, "mean"], rows, left=1, note=_OVERVIEW)
