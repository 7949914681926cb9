"""A table as CSV."""

from __future__ import annotations

import csv
import io

from instruct.base.errors import one_line
from instruct.reporting.tables import Table

# What makes a cell a formula to a spreadsheet (OWASP, CSV injection); tabs and line breaks are gone by then.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def csv_text(table: Table) -> str:
    """RFC 4180 with line feeds; empty cells for undefined figures, an empty text for a table without rows.

    Foreign names are one line, and cannot be formulas: see `cell`.
    """
    if not table.rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows([cell(value) for value in row] for row in table.rows)
    return text.getvalue()


def cell(value: object) -> object:
    """A value for a cell: text on one line, after an apostrophe if a spreadsheet would take it for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    line = one_line(value, 1000)
    return f"'{line}" if line.startswith(_FORMULA) else line
