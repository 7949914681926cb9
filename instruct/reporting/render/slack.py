"""A document as Slack's mrkdwn."""

from __future__ import annotations

import re

from instruct.base.errors import one_line
from instruct.reporting.document import Block, Caution, Document, Listing, Paragraph
from instruct.reporting.render.terminal import table_lines
from instruct.reporting.tables import Table

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escape_slack(text: object) -> str:
    """Foreign text as one line that Slack shows as it is: no mention, link or markup.

    mrkdwn has no escape for its marks, so a space of no width stands before them.
    """
    return re.sub(r"([*~`]|(?<!\w)_|_(?!\w))", "\u200b\\1", one_line(text, 2000)).translate(_ENTITIES)


def render_slack(document: Document) -> str:
    """A document's opening as a message."""
    lines = [f"*{escape_slack(document.title)}*"]
    for block in document.opening:
        lines += _block(block)
    return "\n".join(lines) + "\n"


def _block(block: Block) -> list[str]:
    match block:
        case Caution():
            about = f" ({escape_slack(block.about)})" if block.about else ""
            return [f":warning: {escape_slack(block.warning.text)}{about}"]
        case Paragraph():
            return [escape_slack(f"{block.label}: {block.text}" if block.label else block.text)]
        case Listing():
            head = [f"{escape_slack(block.title)}:"] * block.missing
            mark = "" if block.missing or not block.title else "*"
            for text, details in block.items:
                head += [f"• {mark}{escape_slack(text)}{mark}", *(f"    ◦ {escape_slack(each)}" for each in details)]
            return head
        case Table() if block.rows:
            return ["```", *(line.replace("`", "'").translate(_ENTITIES) for line in table_lines(block)), "```"]
    return []
