"""The tables of a report that belong to no single comparison: seeds, pairs, answers, trainings, lineage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from instruct.analysis.results import SeedSpread
from instruct.data.overlap import overlap_text
from instruct.reporting.health import REPEATED_RULE
from instruct.reporting.model import ReportData, SystemReport
from instruct.reporting.tables import Column, Table, columns_table, text_columns
from instruct.reporting.text import number, probability

_SEEDS = (
    "The same comparison with systems trained with different seeds. The standard deviation is between the seeds' "
    "win rates. The interval over seeds (Student's t) covers other trainings, answering these prompts; the one "
    "over both also covers other prompts. The intervals above cover other prompts for one training."
)
_PAIRED = (
    "The first's win rate minus the second's, in points, over the prompts judged for both, with its bootstrap "
    "interval and the p-value of the paired permutation test. Not corrected for the number of comparisons."
)
_ANSWERS = (
    "Truncated: cut off at the length limit. Tokens are the model's own, without the end token. Repeated: "
    f"{REPEATED_RULE}. A dash: unknown, for answers from elsewhere."
)


def report_tables(report: ReportData) -> list[Table]:
    """What belongs to no single comparison; tables without rows are left out."""
    tables = [seeds_table(report.seeds), _paired(report), _systems(report), _trainings(report)]
    return [table for table in tables if table.rows]


def seeds_table(spreads: Sequence[SeedSpread], run: str = "") -> Table:
    """Comparisons made with several training seeds, over all of them; `run`: which run's, if there are several."""
    columns = [
        *text_columns("judge", "policy", "candidate", "baseline"),
        Column("seeds", lambda spread: ", ".join(map(str, spread.seeds)), text=True),
        Column("win rates", lambda spread: ", ".join(map(number, spread.win_rates)), text=True),
        Column("mean"),
        Column("standard deviation", "standard_deviation"),
        Column("95 % CI over seeds", "interval_seeds"),
        Column("over seeds and prompts", "interval_both"),
        Column("adjusted p", lambda spread: probability(spread.adjusted_p)),
    ]
    return columns_table(f"Training seeds of {run}" if run else "Training seeds", spreads, columns, _SEEDS)


def _paired(report: ReportData) -> Table:
    columns = [
        *text_columns("judge", "policy", "first", "second", "baseline"),
        Column("prompts", "n"),
        Column("difference"),
        Column("95 % CI", "interval"),
        Column("p", lambda paired: probability(paired.p)),
    ]
    return columns_table("Systems with the same baseline", report.paired, columns, _PAIRED)


def _systems(report: ReportData) -> Table:
    """The answers and their faults; a column of unknowns is left out."""

    def share(name: str, system: SystemReport) -> str | None:
        count = getattr(system.health, name)
        return None if count is None else f"{count} ({100 * count / system.n:.1f} %)"

    columns = [
        Column("system", "name", text=True),
        Column("generator", text=True),
        Column("engine", text=True, when="known"),
        Column("answers", "n"),
        Column("no answer", "health.failed", when="known"),
        Column("mean tokens", "mean_tokens", when="known"),
        Column("mean thinking tokens", "mean_thinking_tokens", when="known"),
        Column("mean characters", "mean_characters"),
        Column("median characters", "health.median_characters"),
        *(Column(name, partial(share, name)) for name in ("truncated", "empty", "repeated")),
    ]
    return columns_table("Answers", report.systems, columns, _ANSWERS)


def _trainings(report: ReportData) -> Table:
    columns = [
        *text_columns("system", "objective"),
        Column("seed", when=any(training.seed is not None for training in report.trainings)),
        Column("rows"),
        Column("truncated"),
        Column("epochs", lambda it: None if it.epochs is None else f"{it.epochs:g}"),
        Column("steps"),
        Column("learning rate", lambda it: None if it.learning_rate is None else f"{it.learning_rate:g}"),
    ]
    note = "" if report.overlap is None else f"{overlap_text(report.overlap.model_dump())}."
    return columns_table("Training", report.trainings, columns, note)


def lineage_tables(report: ReportData) -> list[Table]:
    """What the report was made from: the experiment, its phases, versions and hashes."""
    machine = report.machine
    gpus = ", ".join(map(str, machine.get("gpus") or [])) or "no GPU"
    processor, cores, memory = (machine.get(key, "?") for key in ("processor", "cores", "memory_gib"))
    experiment = report.config | {
        "machine": f"{processor}, {cores} cores, {memory} GiB, {gpus}",
        "created": report.created,
    }
    hashes = report.sha256 | {f"answers of {system.name}": system.sha256 for system in report.systems}
    phases = [Column("phase", "step", text=True), *text_columns("status"), Column("minutes"), Column("attempts")]
    tables = [
        Table("Experiment", ["part", "value"], list(experiment.items()), left=2),
        columns_table("Phases", report.phases, phases),
        Table("Versions", ["package", "version"], list(report.versions.items()), left=2),
        Table("Made from", ["file", "SHA-256"], list(hashes.items()), left=2),
    ]
    return [table for table in tables if table.rows]
