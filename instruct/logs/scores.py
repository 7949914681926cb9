"""Reads scores.csv, the unit scores that `instruct bench` writes beside its report."""

from __future__ import annotations

from typing import cast, get_args

from instruct.base.errors import InputError, one_line
from instruct.data.formats import word_field
from instruct.data.sources import RawRow
from instruct.logs.source import Source, read_number
from instruct.scores.scores import Better, Row, Scores

SCORES = "scores.csv"
# `against`: the opponent of a judge's verdicts. `reason`: why there is no value.
COLUMNS = (
    "system", "seed", "task", "against", "measure", "unit", "cluster", "value", "reason", "weight", "better"
)  # fmt: skip


def read_scores(source: Source) -> list[Scores] | None:
    """A log for each system, seed and task, with a metric for each measure; None if the header is another one.

    Raises:
        InputError: an invalid row.
    """
    if source.suffix != ".csv" or tuple(source.first) != COLUMNS:
        return None
    logs: dict[tuple[str, str, str], Scores] = {}
    for row in source.rows():
        system, task, measure, unit = (_name(row, field) for field in ("system", "task", "measure", "unit"))
        seed, against, cluster, reason, better = (
            word_field(row, field) for field in ("seed", "against", "cluster", "reason", "better")
        )
        if better not in get_args(Better):
            raise InputError(f"{row.place}: better: is {one_line(better, 40)!r}; write higher, lower or nothing")
        if read_number(row, "weight") not in (None, 1):
            raise InputError(f"{row.place}: weight: is not 1; give rows that all count alike")
        task = f"{task} against {against}" if against else task
        log = logs.setdefault((system, seed, task), Scores("instruct", source.path, system, task, seed=seed or None))
        if log.better.setdefault(measure, cast(Better, better)) != better:
            raise InputError(f"{row.place}: better: is another one than in an earlier row of this measure; correct it")
        value = read_number(row, "value")
        why = (reason or "no value") if value is None else None
        log.add(Row(unit, {measure: value}, why, part=measure, cluster=cluster or None, doc=unit), row.place)
    return list(logs.values())


def _name(row: RawRow, field: str) -> str:
    if not (name := word_field(row, field)):
        raise InputError(f"{row.place}: {field}: is empty; name the {field} of each row")
    return name
