"""The report's part about tasks: measurements, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.reporting.tables import Column, Table, columns_table, text_columns
from instruct.run.measurements import Measurement, Metrics

_NOTE = (
    "Tasks of lm-evaluation-harness, with its prompts, metrics and standard errors. `instruct compare RUN` tests the "
    "differences between systems."
)


def task_measurements(metrics: Metrics) -> list[Measurement]:
    """Every number about tasks."""
    return [row for row in metrics.measurements if row.value is not None and row.kind == "lm_eval"]


def task_tables(measurements: Sequence[Measurement]) -> list[Table]:
    """What lm-eval found in tasks."""
    rows = [row for row in measurements if row.kind == "lm_eval"]
    columns = [
        *text_columns("task", "system", "metric"),
        Column("shots", "details.shots"),
        Column("rows", "n"),
        Column("value", error="details.standard_error"),
        Column("std. error", "details.standard_error", error="details.standard_error"),
        Column(
            "prompts",
            lambda row: "chat" if row.details.chat else "text",
            when=any(row.details.chat for row in rows),
        ),
    ]
    return [columns_table("Tasks", rows, columns, _NOTE)]
