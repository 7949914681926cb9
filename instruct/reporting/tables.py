"""Tables as data, made of columns; Markdown, page, terminal, CSV and LaTeX render them.

Cells hold values, not markup: foreign text as it is, which each renderer escapes; numbers and intervals unrounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from instruct.reporting.text import excluded_beyond, number, span

# Text, a count, a figure, an interval, or nothing.
Value = str | int | float | Sequence[float] | None


@dataclass(frozen=True)
class Table:
    """`left`: how many of the first columns are text; the others are numbers. `note` explains the figures."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    left: int = 1
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The rows as text: figures to one decimal, a dash for nothing. Foreign text is not escaped."""
        return [[shown(value) for value in row] for row in self.rows]


@dataclass(frozen=True)
class Column:
    """A column: its header, and a row's value there, which is an attribute (the header's, if none is named) or a call.

    An attribute may be one of a part (`length.candidate_mean`): nothing where the part is missing. `text`: such columns
    stand first, aligned to the left. `when`: whether the table has the column; "known": if any of its values is neither
    None nor 0. `form`: how a value that is there is written, if not as `shown` does: a format, or a call.
    """

    header: str
    value: str | Callable[[Any], Value] = ""
    text: bool = False
    when: bool | Literal["known"] = True
    form: str | Callable[[Any], str] = ""

    def of(self, row: Any) -> Any:
        """The value of a row."""
        names = () if callable(self.value) else (self.value or self.header).split(".")
        value = self.value(row) if callable(self.value) else row
        for name in names:
            value = None if value is None else getattr(value, name)
        if value is None or not self.form:
            return value
        return self.form(value) if callable(self.form) else format(value, self.form)

    def within(self, part: Callable[[Any], Any]) -> Column:
        """The column of rows that hold, in a part, what this one is about; nothing where the part is missing."""

        def value(row: Any) -> Value:
            inner = part(row)
            return None if inner is None else self.of(inner)

        return replace(self, value=value, form="")


# Of claims; beside p, so that no difference is not read as equality.
EXCLUDED = Column("excluded beyond ±", excluded_beyond, when="known")
# Of rows with a win rate.
RATE = (Column("win rate %", "win_rate"), Column("95 % CI", "interval"))


def text_columns(*names: str) -> list[Column]:
    """Columns of text that are called as their attributes."""
    return [Column(name, text=True) for name in names]


def columns_table(title: str, rows: Sequence[Any], columns: Sequence[Column], note: str = "") -> Table:
    """The table of some rows, with the columns that it is to have."""
    values = [(column, [column.of(row) for row in rows]) for column in columns if column.when]
    kept = [(column, cells) for column, cells in values if column.when != "known" or any(cells)]
    left = sum(column.text for column, _ in kept)
    cells = list(zip(*(cells for _, cells in kept), strict=True))
    return Table(title, [column.header for column, _ in kept], cells, left, note)


def shown(value: Value) -> str:
    """A cell as text."""
    if value is None or isinstance(value, float):
        return number(value)
    return str(value) if isinstance(value, str | int) else span(value)
