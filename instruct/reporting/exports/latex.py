"""Win rates as tables for LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.base.errors import one_line
from instruct.reporting.model import ReportData, TallyFigures
from instruct.reporting.tables import Table
from instruct.reporting.text import number, span

_NAMED = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
    "|": "bar",
    '"': "quotedbl",
    "`": "asciigrave",
    "'": "quotesingle",
}
# Ligatures of text fonts, such as -- and ?`, are taken apart. At the start of a row brackets may be read as an optional
# argument of the previous row's end.
_SPECIAL = str.maketrans(
    {mark: rf"\text{name}{{}}" for mark, name in _NAMED.items()}
    | {mark: rf"\{mark}" for mark in "&%$#_{}"}
    | {mark: f"{{{mark}}}" for mark in "-[]"}
)


def win_rate_tables(report: ReportData) -> list[Table]:
    """For each baseline, the systems in rows and the judges in columns, win rates with standard errors in percent.

    The form of Tables 9 and 10 of the EMO paper (Ren et al., ICLR 2024). Each figure is that of the judge's leading
    policy, which the title names with the number of pairs.
    """
    baselines = dict.fromkeys(each.baseline for judge in report.judges for each in judge.comparisons)
    return [_win_rate_table(report, baseline) for baseline in baselines]


def _win_rate_table(report: ReportData, baseline: str) -> Table:
    rates: dict[str, dict[str, str | None]] = {}
    captions: dict[str, str] = {}
    notes: list[str] = []
    for judge in report.judges:
        comparisons = [each for each in judge.comparisons if each.baseline == baseline]
        for each in comparisons:
            rates.setdefault(each.candidate, {})[judge.name] = _rate(each.leading_figures)
            notes += [f"{judge.name}, {each.candidate}: {each.leads}"] if each.leads else []
        if comparisons:
            policies = "/".join(dict.fromkeys(each.leading for each in comparisons))
            sizes = "/".join(dict.fromkeys(str(each.leading_figures.n_judged) for each in comparisons))
            captions[judge.name] = f"{judge.name}: {policies}, {sizes} pair{'s' * (sizes != '1')} with a verdict"
    rows = [[candidate, *map(own.get, captions)] for candidate, own in rates.items()]
    title = f"Win rate (%) against {baseline}, ± its standard error; a tie counts as half a win"
    return Table(title, ["System", *captions], rows, note="; ".join([*captions.values(), *notes]))


def _rate(figures: TallyFigures) -> str | None:
    if figures.win_rate is None:
        return None
    # Verdicts that are all the same have no standard error to speak of.
    error = figures.standard_error
    return number(figures.win_rate) + (f" ± {number(error)}" if error else f" ({span(figures.interval)})")


def escape_latex(text: object, limit: int = 100) -> str:
    """Foreign text as one line that LaTeX prints literally, with T1-encoded fonts or a Unicode engine."""
    return one_line(text, limit).translate(_SPECIAL)


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
