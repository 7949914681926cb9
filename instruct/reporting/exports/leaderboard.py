"""Rows of AlpacaEval's leaderboards."""

from __future__ import annotations

from instruct.reporting.model import Comparison, ReportData
from instruct.reporting.tables import Table, Value

COLUMNS = (
    "win_rate",
    "standard_error",
    "n_wins",
    "n_wins_base",
    "n_draws",
    "n_total",
    "discrete_win_rate",
    "mode",
    "avg_length",
    "length_controlled_winrate",
    "lc_standard_error",
)


def leaderboards(report: ReportData) -> dict[tuple[str, str], Table]:
    """By judge and baseline, a leaderboard with a row per candidate.

    The columns are those of weighted_alpaca_eval_gpt4_turbo_leaderboard.csv in the package alpaca_eval
    (leaderboards/data_AlpacaEval_2): the first one, without a header, is the system's name. The figures are those of
    the policy `single`, one order per pair, as in AlpacaEval. `n_total` counts the pairs with a verdict, as AlpacaEval
    does; `avg_length` is the truncated mean of characters of the candidate's answers
    (alpaca_eval.main.evaluate), empty if these are missing; `mode` is the package's default for rows that its authors
    did not make.
    """
    lengths = {system.name: system.mean_characters for system in report.systems}
    boards: dict[tuple[str, str], list[list[Value]]] = {}
    for judge in report.judges:
        for comparison in judge.comparisons:
            row = _row(comparison, lengths.get(comparison.candidate))
            boards.setdefault((judge.name, comparison.baseline), []).append(row)
    return {names: Table("Leaderboard", ["", *COLUMNS], rows) for names, rows in boards.items()}


def _row(comparison: Comparison, length: float | None) -> list[Value]:
    figures, controlled = comparison.policies["single"], comparison.length_control
    return [
        comparison.candidate,
        figures.win_rate,
        figures.standard_error,
        figures.win,
        figures.loss,
        figures.tie,
        figures.n_judged,
        figures.discrete_win_rate,
        "community",
        None if length is None else int(length),
        controlled.win_rate if controlled else None,
        controlled.standard_error if controlled else None,
    ]
