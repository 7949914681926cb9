"""Tables as data, made of columns; Markdown, page and terminal render them.

Cells hold values, not markup: foreign text as it is, which each renderer escapes; numbers and intervals unrounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instruct.reporting.digits import Error, number, span
from instruct.reporting.text import EXPLORATORY, excluded_beyond, probability

# Text, a count, a figure, an interval, or nothing.
Value = str | int | float | Sequence[float] | None


@dataclass
class Table:
    """`left`: how many of the first columns are text; the others are numbers. `note` explains the figures.

    What has nothing to say is left out: columns without a value, and rows without one in a column of numbers.
    `exploratory`: no claim rests on these figures, and the title says so.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    left: int = 1
    note: str = ""
    exploratory: bool = False

    def __post_init__(self) -> None:
        places = [place for place in range(len(self.header)) if any(row[place] is not None for row in self.rows)]
        left = sum(place < self.left for place in places)
        rows = [[row[place] for place in places] for row in self.rows]
        if self.left < len(self.header):
            rows = [row for row in rows if any(value is not None for value in row[left:])]
        self.header, self.rows, self.left = [self.header[place] for place in places], rows, left

    def cells(self) -> list[list[str]]:
        """The rows as text: a dash for nothing. Foreign text is not escaped."""
        return [[shown(value) for value in row] for row in self.rows]


@dataclass(frozen=True)
class Column:
    """A column: its header, and a row's value there, which is an attribute (the header's, if none is named) or a call.

    An attribute may be one of a part (`length.candidate_mean`): nothing where the part is missing. `text`: such columns
    stand first, aligned to the left. `when`: whether the table has the column; "known": if any of its values is neither
    None nor 0. `error`: the attribute whose digits it has: an interval, or a standard error. `sign`: it is a
    difference. `form`: how a value that is there is written, if not by these: a format, or a call. `note`: what it
    means.
    """

    header: str
    value: str | Callable[[Any], Value] = ""
    text: bool = False
    when: bool | Literal["known"] = True
    form: str | Callable[[Any], str] = ""
    error: str = ""
    sign: bool = False
    note: str = ""

    def of(self, row: Any) -> Any:
        """The value of a row."""
        value = self.value(row) if callable(self.value) else _part(row, self.value or self.header)
        if value is None:
            return None
        if self.error or self.sign:
            return shown(value, _part(row, self.error) if self.error else None, self.sign)
        if not self.form:
            return value
        return self.form(value) if callable(self.form) else format(value, self.form)

    def within(self, part: Callable[[Any], Any]) -> Column:
        """The column of rows that hold, in a part, what this one is about; nothing where the part is missing."""
        return Column(
            self.header,
            lambda row: None if (inner := part(row)) is None else self.of(inner),
            self.text,
            self.when,
            note=self.note,
        )


# Of claims; beside p, so that no difference is not read as equality.
EXCLUDED = Column(
    "excluded beyond ±",
    excluded_beyond,
    note="Excluded beyond: larger differences, by the 90 % interval, corrected as p is.",
)
# Of comparisons and claims: "baseline" is the name of a system, the evaluation set's answers.
PAIR = (Column("candidate", text=True), Column("against", "baseline", text=True))
# Of claims: their units, where these are not the texts or rows themselves.
CLUSTERS = Column("clusters", "params.clusters")
# Of claims about a difference.
DIFFERENCE = (Column("difference", "value", error="interval", sign=True), Column("95 % CI", "interval", sign=True))
TESTED = (
    Column("p, not corrected", "p", form=probability),
    Column("p (Holm)", "adjusted_p", form=probability),
    EXCLUDED,
)
# Of rows with a win rate.
RATE = (Column("win rate %", "win_rate", error="interval"), Column("95 % CI", "interval"))


def text_columns(*names: str) -> list[Column]:
    """Columns of text that are called as their attributes."""
    return [Column(name, text=True) for name in names]


def columns_table(
    title: str, rows: Sequence[Any], columns: Sequence[Column], note: str = "", exploratory: bool = False
) -> Table:
    """The table of some rows, with the columns that it is to have."""
    values = [(column, [column.of(row) for row in rows]) for column in columns if column.when]
    kept = [(column, cells) for column, cells in values if column.when != "known" or any(cells)]
    notes = [column.note for column, cells in kept if any(cell is not None for cell in cells)]
    note = " ".join(filter(None, [note, *notes]))
    left = sum(column.text for column, _ in kept)
    cells = list(zip(*(cells for _, cells in kept), strict=True))
    title = f"{title} ({EXPLORATORY})" if exploratory else title
    return Table(title, [column.header for column, _ in kept], cells, left, note, exploratory)


def _part(row: Any, path: str) -> Any:
    """What an attribute of a row has, or of a part of it; None where the part is missing."""
    for name in path.split("."):
        if row is not None:
            row = row.get(name) if isinstance(row, dict) else getattr(row, name)
    return row


def shown(value: Value, error: Error = None, sign: bool = False) -> str:
    """A cell as text, with the digits of its error."""
    if value is None or isinstance(value, float):
        return number(value, error, sign)
    return str(value) if isinstance(value, str | int) else span(value, error, sign)
