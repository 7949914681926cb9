"""docs/results of the runs behind docs/evidence.md: the tables are those of the committed numbers, without any text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import continual
import few_shot
import pytest
import small_model
import study

from instruct.run.measurements import Metrics

ROOT = Path(__file__).resolve().parent.parent


def accuracies(metrics: Metrics) -> str:
    return "\n".join(continual.table(few_shot.accuracies(metrics), None)) + "\n"


def perplexities(metrics: Metrics) -> str:
    return seeds_table(metrics, small_model.COLUMNS)


def seeds_table(metrics: Metrics, columns: tuple[str, ...]) -> str:
    return "\n".join(study.seeds_table(study.numbers(metrics, columns), columns)) + "\n"


TABLES: dict[str, Callable[[Metrics], str]] = {
    "continual_smollm2": accuracies,
    "small_model": perplexities,
    "small_model_official": perplexities,
}


@pytest.mark.parametrize(("name", "table"), TABLES.items())
def test_the_table_is_that_of_the_committed_numbers(name: str, table: Callable[[Metrics], str]) -> None:
    folder = ROOT / "docs" / "results" / name
    metrics = Metrics.model_validate_json((folder / "metrics.json").read_bytes())
    assert table(metrics) in (folder / "README.md").read_text(encoding="utf-8")
