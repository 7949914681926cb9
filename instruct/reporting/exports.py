"""The report for other tools: its claims as CSV, and rows for AlpacaEval's leaderboards."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct.analysis.results import Claim
from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.reporting.model import JudgeReport, ReportData, compared_by, policy_rows
from instruct.reporting.sides import about, baselines
from instruct.run.directory import RunDirectory

Row = dict[str, Any]
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


def write_exports(run: RunDirectory, report: ReportData) -> list[Path]:
    """Write report/exports/: claims.csv and leaderboard-JUDGE-vs-BASELINE.csv, each whole or not at all.

    Returns:
        The files' paths.
    """
    folder = run.report / "exports"
    texts = {"claims.csv": csv_text(claim_rows(claims_of(report)))}
    for (judge, baseline), board in leaderboards(report).items():
        texts[_unique(f"leaderboard-{_stem(judge)}-vs-{_stem(baseline)}", ".csv", texts)] = csv_text(board)
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]


def claims_of(report: ReportData) -> Iterator[Claim]:
    """Every claim that a report makes; figures under a policy that does not lead make none."""
    for _, comparison in compared_by(report.judges):
        yield comparison.leading_figures.claim
        if comparison.leading_figures.preferred:
            yield comparison.leading_figures.preferred
        if comparison.with_labels:
            yield comparison.with_labels.claim
    yield from report.claims


def claim_rows(claims: Iterable[Claim]) -> list[Row]:
    """A row for each claim: what CSV files and data frames have."""
    about = ("judge", "policy", "task", "measure", "candidate", "baseline", "through", "family", "n", "trainings")
    tested = ("test", "p", "adjusted_p", "claims", "finding", "missing")
    return [
        {
            **{key: getattr(claim, key) for key in (*about, "value")},
            **ends("interval", claim.interval),
            "unit": claim.kind,
            "excluded_beyond": claim.excluded,
            **{key: getattr(claim, key) for key in tested},
        }
        for claim in claims
    ]


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


def ends(name: str, interval: Sequence[float] | None) -> Row:
    """The cells of an interval."""
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def leaderboards(report: ReportData) -> dict[tuple[str, str], list[Row]]:
    """By judge and baseline, a leaderboard with a row per candidate.

    The columns are those of weighted_alpaca_eval_gpt4_turbo_leaderboard.csv in the package alpaca_eval
    (leaderboards/data_AlpacaEval_2): the first one, without a header, is the system's name. Of judges whose policy is
    `single`, one order per pair, as in AlpacaEval. `n_total` counts the pairs with a verdict, as AlpacaEval
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


def _against_each(judge: JudgeReport) -> JudgeReport:
    """A judge with the comparisons that are shown against each baseline."""
    made = judge.comparisons
    seen = [each for baseline in baselines(made) for each in about(made, baseline, "baseline")]
    return judge.model_copy(update={"comparisons": seen})


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
    return harmless(one_line(value, 1000))


def harmless(text: str) -> str:
    """Text after an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
