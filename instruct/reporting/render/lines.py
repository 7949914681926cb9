"""A document as lines of text: as Markdown, and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from instruct.base.errors import one_line
from instruct.base.output import terminal_width, wrapped
from instruct.reporting.document import Block, Brief, Caution, Document, Listing, Paragraph, Verdict
from instruct.reporting.tables import Table

_SPECIAL = re.compile(r"[\\`*\[\]|~$#!{}]|(?<![^\W_])_|_(?![^\W_])")
_MARKDOWN = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//"}


def escape_markdown(text: object, limit: int = 2000) -> str:
    """Foreign text as one line of Markdown that shows it and does nothing else: no markup, table cell, HTML or link."""
    line = _SPECIAL.sub(lambda match: "\\" + match.group(), one_line(text, limit))
    for mark, entity in _MARKDOWN.items():
        line = line.replace(mark, entity)
    return re.sub(r"(www)\.", r"\1&#46;", line, flags=re.IGNORECASE)


def render_markdown(document: Document) -> str:
    """A document's opening: what a terminal shows, too."""
    lines = _blocks(document.opening)
    return "\n".join([f"# {escape_markdown(document.title)}", "", *lines]).rstrip() + "\n"


def _blocks(blocks: Sequence[Block]) -> list[str]:
    lines: list[str] = []
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        lines += _markdown_block(block)
        if not (isinstance(block, Verdict) and isinstance(following, Verdict)):  # the items of one list
            lines.append("")
    return lines


def _markdown_block(block: Block) -> list[str]:
    match block:
        case Caution():
            about = f", {escape_markdown(block.about)}" if block.about else ""
            return [f"> **Warning{about}:** {escape_markdown(block.warning.text)}"]
        case Verdict():
            lines = [f"{'  ' * depth}- {escape_markdown(text)}" for depth, text in block.lines()]
            return [f"- **{escape_markdown(block.headline)}**", *lines]
        case Paragraph():
            return [escape_markdown(block.text)]
        case Listing():
            return _listing(block)
        case Brief(content=Table() as table):
            return markdown_table(table)
        case Brief(content=list() as sentences):
            return [f"- {escape_markdown(sentence)}" for sentence in sentences]
        case Table():
            note = ["", escape_markdown(block.note)] * bool(block.note)
            return [f"## {escape_markdown(block.title)}", "", *markdown_table(block), *note]
    return []


def _listing(block: Listing) -> list[str]:
    """The title of what is missing, and each sentence, in bold letters if it is titled, with those that explain it."""
    bold = "" if block.missing or not block.title else "**"
    lines = [f"{escape_markdown(block.title)}:", ""] if block.missing else []
    for text, details in block.items:
        lines += [f"- {bold}{escape_markdown(text)}{bold}", *(f"  - {escape_markdown(detail)}" for detail in details)]
    return lines


def markdown_table(table: Table) -> list[str]:
    """A table's lines, every cell escaped."""
    rule = ["---" if index < table.left else "---:" for index in range(len(table.header))]
    rows = [[escape_markdown(cell, 400) for cell in row] for row in (table.header, *table.cells())]
    return ["| " + " | ".join(cells) + " |" for cells in (rows[0], rule, *rows[1:])]


def render_terminal(document: Document) -> str:
    """A document's opening for a terminal: plain text without control characters."""
    lines: list[str] = []
    for block in document.opening:
        lines += _terminal_block(block)
        if not isinstance(block, Caution | Verdict):
            lines.append("")
    return wrapped("\n".join(lines).rstrip()) + "\n"


def _terminal_block(block: Block) -> list[str]:
    match block:
        case Caution():
            return [_terminal_line(": ".join(filter(None, ["WARNING", block.about, block.warning.text])))]
        case Verdict():
            return [block.headline, *(f"{'  ' * depth}{_terminal_line(text)}" for depth, text in block.lines())]
        case Paragraph():
            return [_terminal_line(block.text)]
        case Listing():
            title = f"{block.title.upper()}: " if block.missing else ""
            return [
                line for text, details in block.items for line in (title + text, *(f"  {detail}" for detail in details))
            ]
        case Brief(content=Table() as table):
            return terminal_table(table)
        case Brief(content=list() as sentences):
            return sentences
        case Table():
            return [
                _terminal_line(block.title),
                *terminal_table(block),
                *["", _terminal_line(block.note)] * bool(block.note),
            ]
    return []


def _terminal_line(text: object) -> str:
    return one_line(text, 2000)


def terminal_table(table: Table, limit: int = 40, indent: int = 0) -> list[str]:
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
        while records and sum(max(map(len, record)) + 2 for record in (*block, records[0])) - 2 <= width:
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
