"""Figures as rows for CSV and for programs: all of a report, its tasks', and those of AlpacaEval's leaderboards."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from instruct.analysis.measured_results import TaskReport
from instruct.analysis.results import Significance
from instruct.base.errors import one_line
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.model import ComparisonReport, Panel, PolicyRow, ReportData, TallyFigures, policy_rows

Row = dict[str, Any]
_COUNTS = ("kind", "n", "n_judged", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
_RATES = ("win_rate", "discrete_win_rate", "standard_error", "interval_method")
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


def figures_rows(report: ReportData) -> list[Row]:
    """Every figure of a report, a row per judge, comparison and policy, and one for each panel's majority.

    Tests and the length-adjusted rate belong to the leading policy and are given in its row only.
    """
    rows: list[Row] = [{"run": report.run} | _of_policy(row) for row in policy_rows(report.judges)]
    for panel in report.panels:
        known = {"run": report.run, "judge": f"majority of {', '.join(panel.policies)}"}
        leads, majority = not panel.one_seed, panel.majority
        rows.append(dict.fromkeys(rows[0]) | known | _claim(panel, "majority", leads, majority, panel.significance))
    return rows


def _of_policy(row: PolicyRow) -> Row:
    judge, comparison, leads = row.judge, row.comparison, row.leads
    length, style, controlled = comparison.length, comparison.style, comparison.length_control
    return {
        "judge": judge.name,
        "judge_model": judge.model,
        **_claim(comparison, row.policy, leads, row.figures, comparison.significance if leads else None),
        "length_adjusted_win_rate": length.adjusted.win_rate if length and leads else None,
        "style_controlled_win_rate": style.win_rate if style and leads else None,
        "length_controlled_win_rate": controlled.win_rate if controlled else None,
        **{key: getattr(comparison, key) for key in _COMPARED},
        "agreement_with_people": judge.agreement,
        "which_figure_leads": comparison.leads if leads else None,
        "warnings": "; ".join(map(str, [*judge_warnings(judge), *comparison.warnings])),
    }


def _claim(
    of: ComparisonReport | Panel, policy: str, leads: bool, figures: TallyFigures, tests: Significance | None
) -> Row:
    return {
        "candidate": of.candidate,
        "baseline": of.baseline,
        "policy": policy,
        "leading": leads,
        **{key: getattr(figures, key) for key in (*_COUNTS, *_RATES)},
        **ends("interval", figures.interval),
        **ends("bound", figures.bounds),
        "finding": figures.finding,
        "sign_test_p": tests and tests.sign_test.p,
        "permutation_test_p": tests and tests.permutation_test.p,
        "adjusted_p": tests and tests.adjusted_p,
        "claims": tests and tests.claims,
    }


def ends(name: str, interval: Sequence[float] | None) -> Row:
    """The cells of an interval."""
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def task_rows(report: TaskReport) -> list[Row]:
    """Every figure of the tasks, a row for each task and system."""
    return [figure.model_dump(exclude={"interval"}) | ends("interval", figure.interval) for figure in report.figures]


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
    for judge, comparison, policy in policy_rows(report.judges):
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
    writer.writerow(rows[0])
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
