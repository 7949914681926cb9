"""The report for other tools: its claims as CSV, and rows for AlpacaEval's leaderboards."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct.analysis.results import Claim, rounded
from instruct.base.errors import one_line
from instruct.base.files import new_stem, write_atomically
from instruct.reporting.model import ComparisonReport, ReportData, compared_by
from instruct.run.directory import RunDirectory
from instruct.scores.claims import mirrored

Row = dict[str, Any]
# What makes a cell a formula to a spreadsheet (OWASP, CSV injection): a sign at its start, or after a semicolon, which
# ends a cell where a comma is the decimal sign.
_FORMULA = re.compile(r"^(?=\s*[=+\-@＝＋－＠])|(?<=[;\t])(?=[=+\-@＝＋－＠])")


def write_exports(run: RunDirectory, report: ReportData) -> list[Path]:
    """Write report/exports/: claims.csv and leaderboard-JUDGE-vs-BASELINE.csv, each whole or not at all.

    Returns:
        The files' paths.
    """
    folder = run.report / "exports"
    texts = {"claims": csv_text(claim_rows(claims_of(report)))}
    for (judge, baseline), board in leaderboards(report).items():
        texts[new_stem(["leaderboard", judge, "vs", baseline], texts)] = csv_text(board)
    files = {folder / f"{stem}.csv": text for stem, text in texts.items()}
    for path, text in files.items():
        write_atomically(path, text)
    return list(files)


def claims_of(report: ReportData) -> Iterator[Claim]:
    """Every claim that a report makes; figures under a policy that does not lead make none."""
    for _, comparison in compared_by(report.judges):
        yield comparison.claim
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
    for judge in report.judges:
        beside = _baselines(judge.comparisons)
        for comparison in judge.comparisons:
            if comparison.claim.policy != "single":
                continue
            controlled = comparison.length_control
            rate = controlled.win_rate if controlled else None
            seen = [(comparison.claim, rate)] if comparison.baseline in beside else []
            if comparison.candidate in beside:
                seen.append((mirrored(comparison.claim), None if rate is None else rounded(100 - rate)))
            for claim, rate in seen:
                counts, length = claim.counts, lengths.get(claim.candidate)
                assert counts is not None
                row = {
                    "": claim.candidate,
                    "win_rate": claim.value,
                    "standard_error": claim.standard_error,
                    "n_wins": counts.win,
                    "n_wins_base": counts.loss,
                    "n_draws": counts.tie,
                    "n_total": claim.n,
                    "discrete_win_rate": counts.discrete_win_rate,
                    "mode": "community",
                    "avg_length": None if length is None else int(length),
                    "length_controlled_winrate": rate,
                }
                boards.setdefault((judge.name, claim.baseline), []).append(row)
    return boards


def _baselines(comparisons: Sequence[ComparisonReport]) -> list[str]:
    """The systems that others are shown against: the baselines; all, if one stands on both sides."""
    ours, theirs = ([getattr(each, side) for each in comparisons] for side in ("baseline", "candidate"))
    return list(dict.fromkeys(ours if set(ours).isdisjoint(theirs) else [*ours, *theirs]))


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
    """Text with an apostrophe before whatever a spreadsheet would take for a formula."""
    return _FORMULA.sub("'", text)
