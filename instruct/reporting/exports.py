"""The report's figures for other tools: CSV, AlpacaEval's leaderboard, LaTeX, a model card for the Hub."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yaml import YAMLError

from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.comparison_tables import FIGURES
from instruct.reporting.digits import number, span
from instruct.reporting.model import (
    MAJORITY,
    ComparisonReport,
    JudgeReport,
    Panel,
    PolicyRow,
    ReportData,
    TallyFigures,
    policy_rows,
)
from instruct.reporting.rankings import matrix_table, system_tables
from instruct.reporting.render.lines import escape_markdown, markdown_table
from instruct.reporting.sides import about, baselines, candidates
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.tasks import accuracies, macro_f1
from instruct.reporting.text import EXPLORATORY, headline, judge_errors, trust
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

Row = dict[str, Any]
_COUNTS = ("kind", "n", "n_judged", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
_RATES = ("win_rate", "standard_error")
_COMPARED = ("pairs_judged", "pairs_expected", "partial", "consistency", "first_position_rate")
# AlpacaEval's names of what this package calls otherwise.
_LEADERBOARD = {
    "win_rate": "win_rate",
    "standard_error": "standard_error",
    "n_wins": "win",
    "n_wins_base": "loss",
    "n_draws": "tie",
    "n_total": "n_judged",
    "discrete_win_rate": "discrete_win_rate",
}
# What makes a cell a formula to a spreadsheet (OWASP, CSV injection); tabs and line breaks are gone by then.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
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
_EMPTY = "---\n\n---\n"
_HEADING = "## Evaluation"
_CARD_COLUMNS = [
    Column("judge", "judge.name", text=True),
    Column("against", "comparison.baseline", text=True),
    Column("policy", text=True),
    Column("n", "figures.n_judged"),
    Column("no verdict", "figures.unread"),
    *FIGURES,
]
# The section, up to the next of its level.
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write_exports(run: RunDirectory, report: ReportData) -> list[Path]:
    """Write report/exports/: figures.csv, tables.tex, leaderboard-JUDGE-vs-BASELINE.csv, model-card-SYSTEM.md; with
    more than two systems, matrix-JUDGE.csv; of a run with few-shot tasks, tasks.csv.

    Each file whole or not at all. A system that the run trained has a model card: a copy of
    adapters/SYSTEM/README.md with its figures; the original is not changed.

    Returns:
        The files' paths.
    """
    folder = run.report / "exports"
    texts = {"figures.csv": csv_text(figures_rows(report)), "tables.tex": latex_tables(latex_content(report))}
    if rows := task_rows(report.measurements):
        texts["tasks.csv"] = csv_text(rows)
    for ranked in report.ranked:
        matrix = matrix_table(report, ranked)
        cells = [dict(zip(matrix.header, row, strict=True)) for row in matrix.rows]
        texts[_unique(f"matrix-{_stem(ranked.judge)}", ".csv", texts)] = csv_text(cells)
    for (judge, baseline), board in leaderboards(report).items():
        texts[_unique(f"leaderboard-{_stem(judge)}-vs-{_stem(baseline)}", ".csv", texts)] = csv_text(board)
    for system, text in evaluated_model_cards(run, report).items():
        texts[_unique(f"model-card-{_stem(system)}", ".md", texts)] = text
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", one_line(name, 60)).strip("-.") or "unnamed"


def _unique(stem: str, suffix: str, taken: dict[str, str]) -> str:
    """A file name that differs from all others, ignoring case."""
    lower = {name.lower() for name in taken}
    name, number = f"{stem}{suffix}", 1
    while name.lower() in lower:
        number += 1
        name = f"{stem}-{number}{suffix}"
    return name


def figures_rows(report: ReportData) -> list[Row]:
    """Every figure of a report, a row per judge, comparison and policy, and one for each panel's majority.

    Findings, tests and the length-adjusted rate belong to the leading policy and are given in its row only.
    """
    rows: list[Row] = [{"run": report.run} | _of_policy(row) for row in policy_rows(report.judges)]
    for panel in report.panels:
        known = {"run": report.run, "judge": f"majority of {', '.join(panel.policies)}"}
        rows.append(dict.fromkeys(rows[0]) | known | _claim(panel, MAJORITY, not panel.one_seed, panel.majority, True))
    return rows


def _of_policy(row: PolicyRow) -> Row:
    judge, comparison, leads = row.judge, row.comparison, row.leads
    length, style, controlled = comparison.length, comparison.style, comparison.length_control
    corrected = comparison.judge_errors[-1] if comparison.judge_errors and leads else None
    return {
        "judge": judge.name,
        "judge_model": judge.model,
        **_claim(comparison, row.policy, leads, row.figures, leads),
        "exploratory_length_adjusted_win_rate": length.adjusted.win_rate if length and leads else None,
        "exploratory_style_controlled_win_rate": style.win_rate if style and leads else None,
        "exploratory_length_controlled_win_rate": controlled.win_rate if controlled else None,
        "exploratory_corrected_win_rate": corrected.win_rate if corrected else None,
        **ends("exploratory_corrected", corrected.interval if corrected else None),
        **{key: getattr(comparison, key) for key in _COMPARED},
        "agreement_with_people": judge.agreement,
        "preferred": comparison.leads if leads else None,
        "warnings": "; ".join(map(str, [*judge_warnings(judge), *comparison.warnings])),
    }


def _claim(of: ComparisonReport | Panel, policy: str, leads: bool, figures: TallyFigures, tested: bool) -> Row:
    claim = figures.claim
    return {
        "candidate": of.candidate,
        "baseline": of.baseline,
        "policy": policy,
        "leading": leads,
        **{key: getattr(figures, key) for key in (*_COUNTS, *_RATES)},
        "exploratory_discrete_win_rate": figures.discrete_win_rate,
        "test": claim.test,
        **ends("interval", claim.interval),
        **ends("complete_case", claim.complete.interval),
        **ends("bound", figures.bounds),
        **{key: getattr(claim, key) if tested else None for key in ("finding", "p", "adjusted_p", "claims")},
        "excluded_beyond": claim.excluded,
        "primary": claim.primary,
        "margin": claim.equivalent and claim.equivalent.params["margin"],
        "equivalent_p": claim.equivalent and claim.equivalent.adjusted_p,
        "not_worse_p": claim.not_worse and claim.not_worse.adjusted_p,
    }


def ends(name: str, interval: Sequence[float] | None) -> Row:
    """The cells of an interval."""
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def task_rows(measurements: Sequence[Measurement]) -> list[Row]:
    """Every figure of the tasks of cards, a row for each task and system."""
    f1 = macro_f1(measurements)
    return [
        {
            "task": row.task,
            "system": row.system,
            "rule": row.details.rule,
            "shots": row.details.shots or 0,
            "rows": row.n or 0,
            "of": row.details.of,
            "accuracy": row.value,
            "macro_f1": f1.get((row.part, row.system)),
            **{key: getattr(row.details, key) for key in ("floor", "most_frequent", "in_training", "shortened")},
            **ends("interval", row.interval or [0.0, 100.0]),
        }
        for row in accuracies(measurements)
    ]


def leaderboards(report: ReportData) -> dict[tuple[str, str], list[Row]]:
    """By judge and baseline, a leaderboard with a row per candidate.

    The columns are those of weighted_alpaca_eval_gpt4_turbo_leaderboard.csv in the package alpaca_eval
    (leaderboards/data_AlpacaEval_2): the first one, without a header, is the system's name. The figures are those of
    the policy `single`, one order per pair, as in AlpacaEval. `n_total` counts the pairs with a verdict, as AlpacaEval
    does; `avg_length` is the truncated mean of characters of the candidate's answers
    (alpaca_eval.main.evaluate), empty if these are missing; `mode` is the package's default for rows that its authors
    did not make.
    """
    lengths = {system.name: system.mean_characters for system in report.systems}
    boards: dict[tuple[str, str], list[Row]] = {}
    for judge, comparison, policy in policy_rows(map(_against_each, report.judges)):
        if policy == "single":
            length, controlled = lengths.get(comparison.candidate), comparison.length_control
            row = {
                "": comparison.candidate,
                **{theirs: getattr(comparison.policies[policy], ours) for theirs, ours in _LEADERBOARD.items()},
                "mode": "community",
                "avg_length": None if length is None else int(length),
                "length_controlled_winrate": controlled and controlled.win_rate,
                "lc_standard_error": controlled and controlled.standard_error,
            }
            boards.setdefault((judge.name, comparison.baseline), []).append(row)
    return boards


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """RFC 4180 with line feeds; empty cells for undefined figures, an empty text without rows.

    Foreign names are one line, and cannot be formulas: see `cell`.
    """
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, rows[0]))
    writer.writerows([cell(value) for value in row.values()] for row in rows)
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


def latex_content(report: ReportData) -> list[Table]:
    """The tables of tables.tex: the systems ranked, if there are more than two, and against each baseline."""
    return [*system_tables(report), *win_rate_tables(report)]


def _against_each(judge: JudgeReport) -> JudgeReport:
    """A judge with the comparisons that are shown against each baseline."""
    made = judge.comparisons
    seen = [each for baseline in baselines(made) for each in about(made, baseline, "baseline")]
    return judge.model_copy(update={"comparisons": seen})


def win_rate_tables(report: ReportData) -> list[Table]:
    """For each baseline, the systems in rows and the judges in columns, win rates with standard errors in percent.

    The form of Tables 9 and 10 of the EMO paper (Ren et al., ICLR 2024). Each figure is that of the judge's leading
    policy, which the title names with the number of pairs.
    """
    judges = [_against_each(judge) for judge in report.judges]
    names = dict.fromkeys(comparison.baseline for judge in judges for comparison in judge.comparisons)
    return [_win_rate_table(judges, baseline) for baseline in names]


def _win_rate_table(judges: Sequence[JudgeReport], baseline: str) -> Table:
    rates: dict[str, dict[str, str | None]] = {}
    captions: dict[str, str] = {}
    notes: list[str] = []
    for judge in judges:
        comparisons = [comparison for comparison in judge.comparisons if comparison.baseline == baseline]
        for comparison in comparisons:
            rates.setdefault(comparison.candidate, {})[judge.name] = _rate(comparison.leading_figures)
            said = [*filter(None, [comparison.leads]), *(f"{EXPLORATORY}: {line}" for line in judge_errors(comparison))]
            notes += [f"{judge.name}, {comparison.candidate}: {sentence}" for sentence in said]
        if comparisons:
            policies = "/".join(dict.fromkeys(comparison.leading for comparison in comparisons))
            sizes = "/".join(dict.fromkeys(str(comparison.leading_figures.n_judged) for comparison in comparisons))
            captions[judge.name] = f"{judge.name}: {policies}, {sizes} pair{'s' * (sizes != '1')} with a verdict"
    rows = [[candidate, *map(own.get, captions)] for candidate, own in rates.items()]
    title = f"Win rate (%) against {baseline}, ± its standard error; a tie counts as half a win"
    return Table(title, ["System", *captions], rows, note="; ".join([*captions.values(), *notes]))


def _rate(figures: TallyFigures) -> str | None:
    if figures.win_rate is None:
        return None
    # Verdicts that are all the same have no standard error to speak of.
    error = figures.standard_error
    spread = f" ± {number(error, figures.error)}" if error else f" ({span(figures.claim.interval)})"
    return number(figures.win_rate, figures.error) + spread


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
    return "\n".join(lines + [line for table in tables for line in _latex_table(table)])


def _latex_table(table: Table) -> list[str]:
    rows = [
        [_latex_cell(cell) if index >= table.left else escape_latex(cell) for index, cell in enumerate(row)]
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


def _latex_cell(cell: str) -> str:
    return "--" if cell == "-" else _plus_minus(cell)


def _plus_minus(text: str) -> str:
    return text.replace("±", r"$\pm$")


def evaluated_model_cards(run: RunDirectory, report: ReportData) -> dict[str, str]:
    """By candidate, its model card with the judges' verdicts.

    For a system that the run trained this is adapters/SYSTEM/README.md with the metadata and the section inserted; of
    any other, only the metadata and the section.
    """
    shown_for = dict.fromkeys(name for judge in report.judges for name in candidates(judge.comparisons))
    # A candidate's name may be any text, so it is looked up among the folders.
    trained = {path.name: path / "README.md" for path in run.adapters.iterdir()} if run.adapters.is_dir() else {}
    cards = {}
    for candidate in shown_for:
        path = trained.get(candidate)
        text = path.read_text(encoding="utf-8", errors="replace") if path and path.is_file() else ""
        cards[candidate] = _with_evaluation(text, report, candidate)
    return cards


def _with_evaluation(text: str, report: ReportData, candidate: str) -> str:
    """The card with its metadata and section inserted or replaced; a card that cannot be read is left out."""
    from huggingface_hub import ModelCard

    try:
        card = ModelCard(text if text.startswith("---\n") else _EMPTY + text, ignore_metadata_errors=True)
    except (YAMLError, ValueError, TypeError):  # such as a key that YAML takes for a bool
        card = ModelCard(_EMPTY + text.partition("\n---\n")[2])
    results = _results(report, candidate)
    if results:
        card.data["model_name"], card.data["eval_results"] = one_line(candidate, 100), results
    body = _SECTION.sub("", card.text).strip()
    card.text = "\n" + (f"{body}\n\n" if body else "") + evaluation_section(report, candidate)
    return str(card) if card.data.to_dict() else card.text.lstrip()


def _results(report: ReportData, candidate: str) -> list[EvalResult]:
    """The comparisons of a candidate as the Hub's evaluation results; one without a rate has none.

    A result is the win rate under the leading policy in percent, with what it rests on as its arguments.
    """
    from huggingface_hub import EvalResult

    data = evaluation_set(report)
    return [
        EvalResult(
            task_type="text-generation",
            dataset_type=data,
            dataset_name=data,
            metric_type="win_rate",
            metric_name=f"win rate against {one_line(comparison.baseline, 60)}, judge {one_line(judge.name, 60)}",
            metric_value=round(figures.win_rate, 2),
            metric_args={
                "judge_model": one_line(judge.model, 100),
                "policy": policy,
                "n": figures.n_judged,
                "without_verdict": figures.unread,
                "standard_error": figures.standard_error,
                "interval_95": figures.claim.interval,
            },
        )
        for judge, comparison, policy in _leading(report, candidate)
        if (figures := comparison.leading_figures).win_rate is not None
    ]


def evaluation_section(report: ReportData, candidate: str) -> str:
    """Markdown: each comparison's headline and figures; then how far the judge can be trusted."""
    lines = [_HEADING, "", f"Answers to `{evaluation_set(report).replace('`', '')}`, judged in pairs.", ""]
    rows = _leading(report, candidate)
    for judge, comparison, _ in rows:
        lines += [f"- {escape_markdown(headline(judge, comparison))}"]
        lines += [f"  - Warning: {escape_markdown(warning)}" for warning in comparison.warnings]
    lines += ["", *markdown_table(columns_table("", rows, _CARD_COLUMNS)), ""]
    for judge in {row.judge.name: row.judge for row in rows}.values():
        lines += [f"> **Warning:** {escape_markdown(warning)}\n" for warning in judge_warnings(judge)]
        lines += [escape_markdown(trust(judge)), ""]
    return "\n".join(lines).rstrip() + "\n"


def evaluation_set(report: ReportData) -> str:
    """The name of the evaluation set that was answered; the run's name if the verdicts are from elsewhere."""
    return one_line(report.config.get("answered", report.run).partition(",")[0].partition(" (")[0], 100)


def _leading(report: ReportData, candidate: str) -> list[PolicyRow]:
    """A system's comparisons under their leading policies."""
    judges = [
        judge.model_copy(update={"comparisons": list(about(judge.comparisons, candidate))}) for judge in report.judges
    ]
    return [row for row in policy_rows(judges) if row.leads]
