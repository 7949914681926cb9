"""A document as text for the terminal."""

from __future__ import annotations

from instruct.base.errors import one_line
from instruct.base.output import terminal_width, wrapped
from instruct.reporting.document import Block, Brief, Caution, Document, Listing, Paragraph, Verdict
from instruct.reporting.tables import Table


def render_terminal(document: Document) -> str:
    """A document's opening for a terminal: plain text without control characters."""
    lines: list[str] = []
    for block in document.opening:
        lines += _block(block)
        if not isinstance(block, Caution | Verdict):
            lines.append("")
    return wrapped("\n".join(lines).rstrip()) + "\n"


def _block(block: Block) -> list[str]:
    match block:
        case Caution():
            return [_line(": ".join(filter(None, ["WARNING", block.about, block.warning.text])))]
        case Verdict():
            warnings = [f"WARNING: {warning}" for warning in block.warnings]
            notes = [f"note: {note}" for note in block.notes]
            return [
                block.headline,
                *(f"  {_line(text)}" for text in (*block.details, *warnings, *block.missing, *notes)),
            ]
        case Paragraph():
            return [_line(block.text)]
        case Listing():
            title = f"{block.title.upper()}: " if block.missing else ""
            return [
                line for text, details in block.items for line in (title + text, *(f"  {each}" for each in details))
            ]
        case Brief(content=Table() as table):
            return table_lines(table)
        case Brief(content=list() as sentences):
            return sentences
        case Table():
            rows = table_lines(block) if block.rows else []
            return [*[_line(block.title)] * bool(block.title), *rows, *["", _line(block.note)] * bool(block.note)]
    return []


def _line(text: object) -> str:
    return one_line(text, 2000)


def table_lines(table: Table, limit: int = 40, indent: int = 0) -> list[str]:
    """A table's lines in columns, indented; names are cut to `limit` characters.

    On a terminal that is too narrow for a row, each row becomes a column, with the header on the left.
    """
    rows = [[one_line(cell, limit) for cell in row] for row in (table.header, *table.cells())]
    width = terminal_width()
    lines = _columns(rows, table.left)
    if width is not None and len(lines[0]) + indent > width:
        lines = _records(rows, width - indent)
    return [f"{'':{indent}}{line}".rstrip() for line in lines]


def _columns(rows: list[list[str]], left: int) -> list[str]:
    """The header, a rule and the rows; the first `left` columns are aligned to the left."""
    rule = ["-" * max(map(len, column)) for column in zip(*rows, strict=True)]
    return _aligned([rows[0], rule, *rows[1:]], left)


def _records(rows: list[list[str]], width: int) -> list[str]:
    """The rows as columns, as many next to each other as `width` allows, and the others below them."""
    header, *records = rows
    lines: list[str] = []
    while records:
        block = [header, records.pop(0)]
        while records and sum(max(map(len, each)) + 2 for each in (*block, records[0])) - 2 <= width:
            block.append(records.pop(0))
        lines += [*([""] if lines else []), *_aligned([list(line) for line in zip(*block, strict=True)], 1)]
    return lines


def _aligned(rows: list[list[str]], left: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
