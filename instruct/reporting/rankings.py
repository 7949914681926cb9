"""More than two systems that a judge compared, ranked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from instruct.analysis.ranking import rank_systems
from instruct.analysis.results import Ranked
from instruct.reporting.model import ComparisonReport, ReportData
from instruct.reporting.read import Judged
from instruct.reporting.sides import mirrored
from instruct.reporting.tables import Column, Table, columns_table

_STRENGTHS = (
    "Bradley–Terry strengths in log-odds, mean 0, with 95 % bootstrap intervals over prompts: a system beats one that "
    "is 1 weaker with probability 73 %. A tie is half a win for either."
)
_UNDETERMINED = (
    "Not determined: some systems won no point against the others, or two groups of systems were never "
    "compared. Judge more pairs between them."
)


def rank_judged(compared: Iterable[tuple[Judged, ComparisonReport]]) -> list[Ranked]:
    """All systems of each judge and policy that compared more than two; single training seeds are left out."""
    groups: dict[tuple[str, str], list[tuple[str, str, Mapping[str, float | None]]]] = {}
    for judged, comparison in compared:
        if not comparison.spread:
            judge, *names = judged.key
            groups.setdefault((judge, judged.leading), []).append((names[0], names[1], judged.scores()))
    return [
        rank_systems(*group, games)
        for group, games in groups.items()
        if len({name for *names, scores in games if any(s is not None for s in scores.values()) for name in names}) > 2
    ]


def _strengths_table(ranked: Ranked) -> Table:
    columns = [
        Column("system", "name", text=True),
        Column("opponents"),
        Column("mean win rate %", "win_rate"),
        Column("strength", error="interval", sign=True),
        Column("95 % CI", "interval", sign=True),
    ]
    note = _UNDETERMINED if ranked.systems[0].strength is None else _STRENGTHS
    return columns_table(f"Ranked by {ranked.judge} ({ranked.policy})", ranked.systems, columns, note)


def system_tables(report: ReportData) -> list[Table]:
    """By judge with more than two systems, their ranking, and the win rate of each over each."""
    return [table for ranked in report.ranked for table in (_strengths_table(ranked), matrix_table(report, ranked))]


def matrix_table(report: ReportData, ranked: Ranked) -> Table:
    """The win rates of the systems in rows over those in columns; nothing where they were not compared."""
    made = [
        comparison
        for judge in report.judges
        if judge.name == ranked.judge
        for comparison in judge.comparisons
        if comparison.leading == ranked.policy and not comparison.spread
    ]
    rates = {
        (seen.candidate, seen.baseline): seen.leading_figures.win_rate
        for seen in (*map(mirrored, made), *made)
        if seen.candidate != seen.baseline
    }
    names = [system.name for system in ranked.systems]
    rows = [[name, *(rates.get((name, other)) for other in names)] for name in names]
    title = f"Win rate (%) of row over column by {ranked.judge} ({ranked.policy})"
    return Table(title, ["system", *names], rows, note="A tie counts as half a win")
