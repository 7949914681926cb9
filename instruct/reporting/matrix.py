"""More than two systems that a judge compared: the win rate of each over each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from instruct.analysis.results import Claim
from instruct.reporting.model import ReportData, compared_by
from instruct.reporting.tables import Table
from instruct.scores.claims import mirrored


def matrix_tables(report: ReportData) -> list[tuple[str, Table]]:
    """The judges with more than two systems, and for each leading policy their table; single seeds are left out."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for judge, comparison in compared_by(report.judges):
        if not comparison.one_seed and comparison.claim.value is not None:
            groups.setdefault((judge.name, str(comparison.claim.policy)), []).append(comparison.claim)
    return [
        (judge, _matrix_table(f"{judge} ({policy})", made))
        for (judge, policy), made in groups.items()
        if len({name for claim in made for name in (claim.candidate, claim.baseline)}) > 2
    ]


def _matrix_table(by: str, made: Sequence[Claim]) -> Table:
    """Systems by their mean win rate, the best first; nothing where two were not compared."""
    rates: dict[str, dict[str, float | None]] = {}
    for seen in (*map(mirrored, made), *made):
        rates.setdefault(seen.candidate, {})[seen.baseline] = seen.value
    names = sorted(rates, key=lambda name: (-fmean(rate or 0.0 for rate in rates[name].values()), name))
    rows = [[name, *(rates[name].get(other) for other in names)] for name in names]
    return Table(
        f"Win rate (%) of row over column by {by}", ["system", *names], rows, note="A tie counts as half a win"
    )
