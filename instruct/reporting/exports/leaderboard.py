"""Rows of AlpacaEval's leaderboards."""

from __future__ import annotations

import csv
import io
from typing import Any

from instruct.reporting.exports.csv_table import cell
from instruct.reporting.schema import Comparison, Report

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


def leaderboards(report: Report) -> dict[tuple[str, str], str]:
    """By judge and baseline, a leaderboard's CSV with a row per candidate: a leaderboard has one of each.

    The columns are those of weighted_alpaca_eval_gpt4_turbo_leaderboard.csv in the package alpaca_eval
    (leaderboards/data_AlpacaEval_2): the first one, without a header, is the system's name. The figures are those of
    the policy `single`, one order a pair, as AlpacaEval asks. `n_total` counts the pairs with a verdict, as its win
    rate does; `avg_length` is the whole mean of characters of the candidate's answers (alpaca_eval.main.evaluate),
    empty where they are not at hand; `mode` is the package's default for rows that its authors did not make.
    """
    lengths = {system["name"]: system["mean_characters"] for system in report["systems"]}
    boards: dict[tuple[str, str], list[list[Any]]] = {}
    for judge in report["judges"]:
        for comparison in judge["comparisons"]:
            row = _row(comparison, lengths.get(comparison["candidate"]))
            boards.setdefault((judge["name"], comparison["baseline"]), []).append(row)
    return {names: _csv(rows) for names, rows in boards.items()}


def _row(comparison: Comparison, length: float | None) -> list[Any]:
    figures = comparison["policies"]["single"]
    controlled = comparison["length_control"]
    return [
        comparison["candidate"],
        figures["win_rate"],
        figures["standard_error"],
        figures["win"],
        figures["loss"],
        figures["tie"],
        figures["n_judged"],
        figures["discrete_win_rate"],
        "community",
        None if length is None else int(length),
        controlled["win_rate"] if controlled else None,
        controlled["standard_error"] if controlled else None,
    ]


def _csv(rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["", *COLUMNS])
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()
