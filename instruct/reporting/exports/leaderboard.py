"""Rows of AlpacaEval's leaderboards."""

from __future__ import annotations

from operator import attrgetter

from instruct.reporting.model import ComparisonReport, ReportData
from instruct.reporting.tables import Column, Table, columns_table

_FIGURES = {
    "win_rate": "win_rate",
    "standard_error": "standard_error",
    "n_wins": "win",
    "n_wins_base": "loss",
    "n_draws": "tie",
    "n_total": "n_judged",
    "discrete_win_rate": "discrete_win_rate",
}


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

    def length(comparison: ComparisonReport) -> int | None:
        mean = lengths.get(comparison.candidate)
        return None if mean is None else int(mean)

    figures = [Column(header, name) for header, name in _FIGURES.items()]
    controlled = [Column("length_controlled_winrate", "win_rate"), Column("lc_standard_error", "standard_error")]
    columns = [
        Column("", "candidate", text=True),
        *(column.within(lambda comparison: comparison.policies["single"]) for column in figures),
        Column("mode", lambda _: "community"),
        Column("avg_length", length),
        *(column.within(attrgetter("length_control")) for column in controlled),
    ]
    boards: dict[tuple[str, str], list[ComparisonReport]] = {}
    for judge in report.judges:
        for comparison in judge.comparisons:
            boards.setdefault((judge.name, comparison.baseline), []).append(comparison)
    return {names: columns_table("Leaderboard", rows, columns) for names, rows in boards.items()}
