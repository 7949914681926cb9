"""What the HTML pages share: their templates, and how foreign text and scripts get into them."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import one_line
from instruct.reporting.tables import Table

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
# Escaped in JSON, because they could end a script block or be read as markup.
_ESCAPES = {mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def render(template: str, style: str, script: str | None = None, **values: Any) -> str:
    """A page from a template, with its style sheet and script inside it; values are escaped.

    The template's policy (Content-Security-Policy) allows just those two, by their hashes.
    """
    for name, file in (("style", style), ("script", script)):
        if file is not None:
            text = (_TEMPLATES / file).read_text(encoding="utf-8")
            values |= {name: text, f"{name}_hash": _hash(text)}
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    """Compiles each template once."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def tables_page(title: str, warnings: Sequence[str], tables: Sequence[Table], sentences: Sequence[str] = ()) -> str:
    """A page of tables; above them sentences and warnings."""
    known = {"sentences": sentences, "warnings": warnings, "tables": tables}
    return render("compare.html.jinja", "report.css", None, title=title, clean=one_line, **known)


def image(svg: str) -> str:
    """The address of an image inside the page; nothing in it can run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def escaped_json(content: Any) -> str:
    """JSON for a script block, which nothing in it can end."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    for mark, escape in _ESCAPES.items():
        text = text.replace(mark, escape)
    return text


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
