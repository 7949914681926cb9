"""A document as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from instruct.base.errors import one_line
from instruct.reporting.document import Block, Brief, Caution, Document, Listing, Paragraph, Section, Verdict
from instruct.reporting.model import Figure
from instruct.reporting.tables import Table

_SPECIAL = re.compile(r"[\\`*\[\]|~$#!{}]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//"}


def escape_markdown(text: object, limit: int = 2000) -> str:
    """Foreign text as one line of Markdown that shows it and does nothing else: no markup, table cell, HTML or link."""
    line = _SPECIAL.sub(lambda match: "\\" + match.group(), one_line(text, limit))
    for mark, entity in _ENTITIES.items():
        line = line.replace(mark, entity)
    return re.sub(r"(www)\.", r"\1&#46;", line, flags=re.IGNORECASE)


def render_markdown(document: Document) -> str:
    """The whole document, with links to its figures."""
    lineage = [Section("Lineage", list(document.lineage))] if document.lineage else []
    lines = _blocks([*document.opening, *document.numbers, *lineage], 2)
    return "\n".join([f"# {escape_markdown(document.title)}", "", *lines]).rstrip() + "\n"


def _blocks(blocks: Sequence[Block], level: int) -> list[str]:
    lines: list[str] = []
    shown = [block for block in blocks if not isinstance(block, Brief)]
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        lines += _block(block, level)
        if not (isinstance(block, Verdict) and isinstance(following, Verdict)):  # the items of one list
            lines.append("")
    return lines


def _block(block: Block, level: int) -> list[str]:
    match block:
        case Caution():
            about = f", {escape_markdown(block.about)}" if block.about else ""
            return [f"> **Warning{about}:** {escape_markdown(block.warning.text)}"]
        case Verdict():
            details = [*block.details, *(f"Warning: {warning}" for warning in block.warnings)]
            return [f"- **{escape_markdown(block.headline)}**", *(f"  - {escape_markdown(text)}" for text in details)]
        case Paragraph():
            return [escape_markdown(f"{block.label}: {block.text}" if block.label else block.text)]
        case Listing():
            return _listing(block)
        case Section():
            return [f"{'#' * level} {escape_markdown(block.title)}", "", *_blocks(block.blocks, level + 1)[:-1]]
        case Figure():
            return [f"![{escape_markdown(block.title)}]({block.png})"]
        case Table():
            return section(block, level)[:-1]
    return []


def _listing(block: Listing) -> list[str]:
    mark = "" if block.missing or not block.title else "**"
    lines = [f"{escape_markdown(block.title)}:", ""] if block.missing else []
    for text, details in block.items:
        lines += [f"- {mark}{escape_markdown(text)}{mark}", *(f"  - {escape_markdown(each)}" for each in details)]
    return lines


def section(table: Table, level: int = 3) -> list[str]:
    """A table under its title, followed by its note."""
    note = [escape_markdown(table.note), ""] if table.note else []
    title = [f"{'#' * level} {escape_markdown(table.title)}", ""] if table.title else []
    return [*title, *(table_lines(table) if table.rows else []), *[""] * bool(table.rows), *note]


def table_lines(table: Table) -> list[str]:
    """A table's lines, every cell escaped."""
    rule = ["---" if index < table.left else "---:" for index in range(len(table.header))]
    rows = [[escape_markdown(cell, 400) for cell in row] for row in (table.header, *table.cells())]
    return ["| " + " | ".join(cells) + " |" for cells in (rows[0], rule, *rows[1:])]
