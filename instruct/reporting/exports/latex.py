"""The report's win rates as LaTeX tables, in the form of Tables 9 and 10 of the EMO paper (Ren et al., ICLR 2024)."""

from __future__ import annotations

from instruct.errors import one_line
from instruct.reporting.schema import Report, TallyFigures

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
    # In an array's cell these may be read as an optional argument of the row's end before it.
    "[": "{[}",
    "]": "{]}",
}


def escape_latex(text: object, limit: int = 100) -> str:
    """Foreign text as one line that LaTeX sets as it stands, with the fonts of T1 encoding or of Unicode engines."""
    return "".join(_SPECIAL.get(character, character) for character in one_line(text, limit))


def latex_tables(report: Report) -> str:
    r"""A table per baseline: systems in rows, judges in columns, win rates with their standard errors in percent.

    Each figure is that of the judge's leading policy, which the caption names with the number of pairs. Needs
    `\usepackage{booktabs}`, and `\usepackage[T1]{fontenc}` and `\usepackage{textcomp}` with pdfLaTeX.
    """
    baselines = dict.fromkeys(
        comparison["baseline"] for judge in report["judges"] for comparison in judge["comparisons"]
    )
    lines = [
        r"% Needs \usepackage{booktabs}; with pdfLaTeX also \usepackage[T1]{fontenc} and \usepackage{textcomp}.",
        "",
    ]
    return "\n".join(lines + [line for baseline in baselines for line in _table(report, baseline)])


def _table(report: Report, baseline: str) -> list[str]:
    """The systems that were compared with one baseline."""
    found: dict[str, dict[str, TallyFigures]] = {}
    captions: list[str] = []
    judges: list[str] = []
    for judge in report["judges"]:
        comparisons = [each for each in judge["comparisons"] if each["baseline"] == baseline]
        if not comparisons:
            continue
        judges.append(judge["name"])
        leading = {each["candidate"]: each["policies"][each["leading"]] for each in comparisons}
        for candidate, figures in leading.items():
            found.setdefault(candidate, {})[judge["name"]] = figures
        policies = "/".join(dict.fromkeys(each["leading"] for each in comparisons))
        sizes = "/".join(dict.fromkeys(str(figures["n_judged"]) for figures in leading.values()))
        captions.append(f"{escape_latex(judge['name'])}: {policies}, {sizes} pairs with a verdict")
    rows = [
        " & ".join([escape_latex(candidate), *(_cell(figures.get(judge)) for judge in judges)]) + r" \\"
        for candidate, figures in found.items()
    ]
    return [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{Win rate (\%) against {escape_latex(baseline)}, $\pm$ its standard error; a tie is half a win. "
        + f"{'; '.join(captions)}.}}",
        rf"\begin{{tabular}}{{l{'r' * len(judges)}}}",
        r"\toprule",
        " & ".join(["System", *map(escape_latex, judges)]) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]


def _cell(figures: TallyFigures | None) -> str:
    if figures is None or figures["win_rate"] is None:
        return "--"
    error = figures["standard_error"]
    return f"{figures['win_rate']:.1f}" + ("" if error is None else rf" $\pm$ {error:.1f}")
