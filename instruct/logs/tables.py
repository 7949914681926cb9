"""Reads tables of values: those whose columns the user names (CSV, JSON, JSON lines, Parquet), and scores.csv, the unit
scores that `instruct bench` writes beside its report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from instruct.base.errors import InputError, one_line
from instruct.data.formats import text_field, word_field
from instruct.data.sources import RawRow
from instruct.logs.source import Columns, Source, read_number
from instruct.scores.scores import Better, Row, Scores

if TYPE_CHECKING:
    import pandas as pd

SCORES = "scores.csv"
# Of scores.csv. `against`: the opponent of a judge's verdicts. `reason`: why there is no value.
COLUMNS = (
    "system", "seed", "task", "against", "measure", "unit", "cluster", "value", "reason", "weight", "better"
)  # fmt: skip
# What tables call the texts.
_QUESTIONS = ("question", "instruction", "input")
_RESPONSES = ("response", "output", "completion", "answer")


def read_table(source: Source) -> list[Scores] | None:
    """A log for each system and task; None if the table lacks the column with the units.

    Raises:
        InputError: it lacks another column that is named, or a row is not valid.
    """
    columns = source.columns
    if not columns.unit or not columns.metric or columns.unit not in source.first:
        return None
    return _logs(source.path, list(source.first), source.rows(), columns)


def read_frame(frame: pd.DataFrame, columns: Columns, name: str) -> list[Scores]:
    """The same of a data frame; `name` stands for the file."""
    rows = (RawRow(name, number, row) for number, row in enumerate(frame.to_dict("records"), start=1))
    return _logs(Path(name), list(map(str, frame.columns)), rows, columns)


def read_scores(source: Source) -> list[Scores] | None:
    """A log for each system, seed and task, with a metric for each measure; None if the header is another one.

    Raises:
        InputError: an invalid row.
    """
    if source.suffix != ".csv" or tuple(source.first) != COLUMNS:
        return None
    logs: dict[tuple[str, str, str], Scores] = {}
    for row in source.rows():
        system, task, measure, unit = (_name(row, field, field) for field in ("system", "task", "measure", "unit"))
        seed, against, cluster, reason, better = (
            word_field(row, field) for field in ("seed", "against", "cluster", "reason", "better")
        )
        if better not in get_args(Better):
            raise InputError(f"{row.place}: better: is {one_line(better, 40)!r}; write higher, lower or nothing")
        if read_number(row, "weight") not in (None, 1):
            raise InputError(f"{row.place}: weight: is not 1; give rows that all count alike")
        task = f"{task} against {against}" if against else task
        if (log := logs.get((system, seed, task))) is None:
            log = logs[system, seed, task] = Scores("instruct", source.path, system, task, seed=seed or None)
        if log.better.setdefault(measure, cast(Better, better)) != better:
            raise InputError(f"{row.place}: better: is another one than in an earlier row of this measure; correct it")
        value = read_number(row, "value")
        why = (reason or "no value") if value is None else None
        log.add(Row(unit, {measure: value}, why, part=measure, cluster=cluster or None, doc=unit), row.place)
    return list(logs.values())


def _logs(path: Path, header: Sequence[str], rows: Iterable[RawRow], columns: Columns) -> list[Scores]:
    named = (columns.unit, *columns.metric, columns.cluster, columns.system, columns.task, columns.epoch)
    if lacking := [name for name in named if name is not None and name not in header]:
        raise InputError(
            f"{path}, row 1: has no column {one_line(repr(lacking[0]), 60)}; name one of those there: "
            f"{one_line(', '.join(header), 120)}"
        )
    question, prompt, response = (
        next((name for name in names if name in header), None) for names in (_QUESTIONS, ("prompt",), _RESPONSES)
    )
    logs: dict[tuple[str, str], Scores] = {}
    for row in rows:
        system, task = _word(row, columns.system), _word(row, columns.task) or "table"
        if (log := logs.get((system, task))) is None:
            log = logs[system, task] = Scores("table", path, system, task)
        unit = _name(row, columns.unit, "unit")
        values = {name: read_number(row, name) for name in columns.metric}
        asked, shown = _text(row, question), _text(row, prompt)
        log.add(
            Row(
                unit,
                values,
                "empty in the table" if None in values.values() else None,
                epoch=_word(row, columns.epoch) or None,
                cluster=_word(row, columns.cluster) or None,
                doc=asked or None,
                prompt=shown or None,
                question=asked or shown,
                response=_text(row, response),
            ),
            row.place,
        )
    return list(logs.values())


def _name(row: RawRow, column: str | None, what: str) -> str:
    if not (name := _word(row, column)):
        raise InputError(f"{row.place}: {one_line(column or '', 60)}: is empty; name the {what} of each row")
    return name


def _word(row: RawRow, column: str | None) -> str:
    """A name or a number; empty without one."""
    if column is None:
        return ""
    value = row.fields.get(column)
    # A column of Parquet with empty cells has integers as such.
    if isinstance(value, float):
        return "" if value != value else f"{value:.0f}" if value.is_integer() else repr(value)
    return word_field(row, column)


def _text(row: RawRow, column: str | None) -> str:
    """A text; empty where there is something else, such as a chat."""
    return text_field(row, column) if column is not None and isinstance(row.fields.get(column), str) else ""
