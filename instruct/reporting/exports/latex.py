"""Tables as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.base.errors import one_line
from instruct.reporting.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # Ligatures of text fonts, and the quotation marks ?` and !`.
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "{-}",
    # At the start of a row these may be read as an optional argument of the previous row's end.
    "[": "{[}",
    "]": "{]}",
}


def escape_latex(text: object, limit: int = 100) -> str:
    """Foreign text as one line that LaTeX prints literally, with T1-encoded fonts or a Unicode engine."""
    return "".join(_SPECIAL.get(character, character) for character in one_line(text, limit))


def latex_tables(tables: Sequence[Table]) -> str:
    r"""Tables for LaTeX.

    Needs `\usepackage{booktabs}`, and `\usepackage[T1]{fontenc}` and `\usepackage{textcomp}` with pdfLaTeX.
    """
    lines = [
        r"% Needs \usepackage{booktabs}; with pdfLaTeX also \usepackage[T1]{fontenc} and \usepackage{textcomp}.",
        "",
    ]
    return "\n".join(lines + [line for table in tables for line in _table(table)])


def _table(table: Table) -> list[str]:
    rows = [
        [_figure(cell) if index >= table.left else escape_latex(cell) for index, cell in enumerate(row)]
        for row in table.cells()
    ]
    caption = _plus_minus(escape_latex(table.title, 400)) + (
        f". {escape_latex(table.note, 1000)}" if table.note else ""
    )
    return [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}.}}",
        rf"\begin{{tabular}}{{{'l' * table.left}{'r' * (len(table.header) - table.left)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, table.header)) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]


def _figure(cell: str) -> str:
    return "--" if cell == "-" else _plus_minus(cell)


def _plus_minus(text: str) -> str:
    return text.replace("±", r"$\pm$")
