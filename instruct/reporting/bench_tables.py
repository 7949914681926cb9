"""The tables of `instruct bench`."""

from __future__ import annotations

from collections.abc import Callable

from instruct.reporting.bench_results import Bench, BenchSystem
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import capital, signed


def bench_tables(found: Bench) -> list[Table]:
    """Every objective's figures, and their differences from those of MLE."""
    names = list(dict.fromkeys(name for system in found.systems for name in system.figures))
    columns = [
        Column("system", "name", text=True),
        Column("learning rate", lambda row: None if row.learning_rate is None else f"{row.learning_rate:g}"),
        Column("trainings"),
        *(Column(name, _cell(name)) for name in names),
        Column("minutes", lambda row: None if row.minutes is None else f"{row.minutes:.1f}"),
        Column("GiB", lambda row: None if row.gib is None else f"{row.gib:.1f}"),
    ]
    tests = [
        Column("difference", lambda row: f"{row.first} − {row.second}", text=True),
        Column("of", "measure", text=True),
        Column("seeds", "trainings"),
        Column("n"),
        Column("mean", lambda row: None if row.difference is None else signed(row.difference)),
        Column("95 % CI", lambda row: row.interval and " to ".join(map(signed, row.interval))),
        Column("p (Holm)", lambda row: None if row.p_holm is None else f"{row.p_holm:.3g}"),
        Column("finding"),
    ]
    parts = ", ".join(f"{count:,} rows to {part}" for part, count in found.rows.items())
    return [
        columns_table("Objectives", found.systems, columns, f"{parts}, with different prompts."),
        columns_table(
            "Objectives beside MLE", found.differences, tests, " ".join(f"{capital(note)}." for note in found.notes)
        ),
    ]


def _cell(name: str) -> Callable[[BenchSystem], str | None]:
    def cell(row: BenchSystem) -> str | None:
        if name not in row.figures:
            return None
        spread = f" ± {row.deviations[name]:.4f}" if name in row.deviations else ""
        return f"{row.figures[name]:.4f}{spread}"

    return cell
