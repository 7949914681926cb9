"""docs/results of the runs behind docs/evidence.md: the tables are those of the committed numbers, without any text."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import continual
import pytest
import small_model
import statsmodels.stats.power as sm
import study
from scipy.stats import binomtest

from benchmarks import published
from instruct.run.measurements import Metrics

ROOT = Path(__file__).resolve().parent.parent


def accuracies(metrics: Metrics) -> str:
    found = {system: {task: row.value for task, row in rows.items()} for system, rows in metrics.tasks.items()}
    return "\n".join(continual.table(found, None)) + "\n"


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


def test_the_published_tables_are_read_as_the_page_says():
    page = (ROOT / "docs" / "evidence_published.md").read_text(encoding="utf-8")
    written = page.partition(published.BEGIN)[2].partition(published.END)[0].strip()
    assert written == f"{published.summary()}\n\n{published.table()}", "write it again: python -m benchmarks.published"


def aime(bold: float, mle: float, samples: int | None = 1) -> published.Published:
    return published.Published("t", "AIME", 30, samples, "m", bold, mle)


def test_thirty_items_tell_little():
    assert published.unpaired_error(aime(40, 40)) == pytest.approx(12.65, abs=0.01)
    both = sm.NormalIndPower().solve_power(effect_size=None, nobs1=30, alpha=0.05, power=0.8)  # in standard deviations
    assert published.detectable(aime(40, 40)) == pytest.approx(100 * both * (0.4 * 0.6) ** 0.5, abs=0.1)
    for gained in range(1, 12):
        row = aime(40 + 100 * gained / 30, 40)
        assert published.best_paired_p(row) == pytest.approx(binomtest(gained, gained).pvalue)
        assert (published.verdict(row) == "no") == (gained < 6)
    assert published.verdict(aime(43.4, 40, None)) == "no, if each item was answered once"
    assert published.verdict(aime(43.4, 40, 32)) == "cannot be told from what is published"
    assert published.verdict(aime(70, 40, 32)) == "yes, even unpaired"


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
