"""Reads a table of values (CSV, JSON, JSON lines, Parquet) whose columns the user names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import InputError, one_line
from instruct.data.formats import text_field, word_field
from instruct.data.sources import RawRow
from instruct.logs.source import Columns, Source, read_number
from instruct.scores.scores import Row, Scores

if TYPE_CHECKING:
    import pandas as pd

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
        if not (unit := _word(row, columns.unit)):
            raise InputError(f"{row.place}: {one_line(columns.unit or '', 60)}: is empty; name the unit of each row")
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
