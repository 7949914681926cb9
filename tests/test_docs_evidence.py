"""docs/results of the runs behind docs/evidence.md: the tables are those of the committed numbers, without any text."""

from __future__ import annotations

import gzip
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


@pytest.mark.parametrize("name", TABLES)
def test_no_text_of_a_corpus_or_a_model_is_included(name: str, shared_data: Path) -> None:
    files = [path for path in (ROOT / "docs" / "results" / name).rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".md", ".json", ".png", ".svg"}
    shown = " ".join(path.read_text(encoding="utf-8") for path in files if path.suffix != ".png")
    lines = 0
    for corpus in ("ptb/ptb.test.txt.gz", "ptb/ptb.valid.txt.gz", "wikitext103/wiki.train.first-2816KiB.tokens.gz"):
        with gzip.open(shared_data / "lm" / corpus, "rt", encoding="utf-8") as file:
            beginnings = {line.strip()[:40] for line in file if len(line.strip()) >= 40}
        assert not [each for each in beginnings if each in shown]
        lines += len(beginnings)
    assert lines > 5000
