"""docs/results, and what other pages say of the code: the figures are those of the data."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import statistics
from pathlib import Path

import pytest

from instruct.reporting.compare_logs import compare_logs

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


def test_the_perplexities_of_continued_training_are_those_of_its_evaluations():
    folder = RESULTS / "wikitext103_smollm2"
    with (folder / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for step in ("0", "50", "100", "150", "200"):
        both = [row for row in rows if row["step"] == step]
        assert [row["system"] for row in both] == ["mle", "emo"]
        cells = [f"{float(row['perplexity']):.2f}" for row in both]
        cells += [f"{float(row['token_accuracy']):.2%}".replace("%", " %") for row in both]
        assert f"| {step} | {' | '.join(cells)} |" in readme


def test_the_page_of_the_planned_test_has_its_figures_and_the_plan_is_unchanged():
    folder = RESULTS / "instruction_smollm2"
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert hashlib.sha256((folder / "plan.md").read_bytes()).hexdigest() == record["plan_sha256"]
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()

    def shown(row: str) -> list[float]:
        (line,) = (line for line in lines if line.startswith(f"| {row}"))
        return [float(figure) for figure in re.findall(r"[-+]?\d*\.\d+", line)]

    for objective in ("mle", "emo"):
        rates = record["rates"][objective]
        best = min(rates, key=lambda rate: rates[rate]["cross_entropy"])
        assert best == max(rates, key=lambda rate: rates[rate]["rouge_l"])  # both rules choose alike
        assert float(best) == record["chosen"][objective]
        systems = [record["systems"][f"{objective}-seed{seed}"] for seed in range(1, 6)]
        figures = [float(best)]
        for column, factor in (("rouge_l", 1), ("cross_entropy", 1), ("words", 1), ("without_end", 100)):
            values = [factor * system[column] for system in systems]
            figures += [statistics.fmean(values), statistics.stdev(values)]
        assert shown(f"{objective} |") == [
            pytest.approx(figure, abs=0.051 if figure > 1.7 else 5e-5) for figure in figures
        ]
    compared = record["comparisons"]["emo"]
    for row, key in (("**ROUGE-L, the primary", "rouge_l"), ("ROUGE-L, all answers", "rouge_l_at_equal_length")):
        figures = [compared[key][name] for name in ("difference", "low", "high", "p")]
        assert shown(row) == [pytest.approx(figure, abs=5e-4) for figure in figures]
    assert compared["conclusion"].startswith("no gain detected")


@pytest.mark.parametrize("cell", ["alpaca", "dates"])
def test_the_audits_figures_are_those_of_its_scores(cell):
    page = (RESULTS / "audit_smollm2" / "README.md").read_text(encoding="utf-8")
    compared = compare_logs([RESULTS / "audit_smollm2" / f"{cell}_scores.csv"])
    quoted = [line for line in " ".join(page.split()).split(" - ") if line.startswith(f"{cell}: ")]
    assert quoted
    assert all(any(line.startswith(headline) for headline in compared.headlines()) for line in quoted)
    first = compared.main[0].measure
    table = page.partition(f"| {first} |")[2].partition("\n\n")[0]
    shown = dict(re.findall(r"^\| (\w+) \| (.*) \|$", table, re.MULTILINE))
    assert shown.keys() == set(compared.systems)
    for claim in compared.claims:
        scale = 100 if claim.kind == "points" else 1
        low, high = claim.interval
        star = "*" * (claim.finding == "baseline")
        assert f"{claim.value / scale:+.4f}±{(high - low) / 2 / scale:.4f}{star}" in shown[claim.candidate]
    means: dict[tuple[str, str], list[float]] = {}
    for each in compared.found:
        for measure in each.values.keys() & {first, "cross-entropy"}:
            means.setdefault((each.system, measure), []).append(each.mean(measure))
    for (system, _), values in means.items():
        assert f" {statistics.fmean(values):.4f} " in f" {shown[system]} "
