"""docs/results: the figures are those of the data, and none of its text is included."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import math
import re
import statistics
from pathlib import Path

import pytest
from imported import import_into_run

from instruct.reporting.compare_logs import compare_logs
from instruct.reporting.report import build_report

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
PUBLISHED = RESULTS / "alpaca_7b"
REPORT = RESULTS.parents[1] / "tests" / "golden" / "alpaca_7b" / "report.json"
CONTINUED = RESULTS / "wikitext103_smollm2"
# From AlpacaEval's leaderboards: wins, draws, losses, win rate, standard error, discrete win rate.
FIGURES = {
    "alpaca_eval_gpt4": (205, 16, 584, 26.459627, 1.535711, 26.459627),
    "weighted_alpaca_eval_gpt4_turbo": (17, 3, 785, 2.591451, 0.487086, 2.298137),
}


def figures_of(comparison: dict) -> tuple:
    claim = comparison["claim"]
    win, tie, loss, discrete = (claim["counts"][key] for key in ("win", "tie", "loss", "discrete_win_rate"))
    return win, tie, loss, claim["value"], claim["standard_error"], discrete


@pytest.fixture(scope="module")
def committed() -> dict:
    return json.loads(REPORT.read_text(encoding="utf-8"))


def test_the_report_has_the_published_figures(committed):
    assert {judge["name"]: figures_of(judge["comparisons"][0]) for judge in committed["judges"]} == FIGURES
    parts = {judge["name"]: judge["comparisons"][0]["parts"] for judge in committed["judges"]}
    for judge in FIGURES:
        assert {part["dataset"]: part["n"] for part in parts[judge]} == {
            "selfinstruct": 252, "oasst": 188, "koala": 156, "helpful_base": 129, "vicuna": 80,
        }  # fmt: skip
    readme = (PUBLISHED / "README.md").read_text(encoding="utf-8")
    for figures in FIGURES.values():
        assert f"{figures[3]:.6f}" in readme
        assert f"{figures[4]:.6f}" in readme


def test_the_documented_commands_give_the_same_figures(committed, shared_data, tmp_path):
    folder = shared_data / "alpaca_eval"
    for judge, reference in (
        ("alpaca_eval_gpt4", None),
        ("weighted_alpaca_eval_gpt4_turbo", folder / "reference_gpt4_1106_preview.json"),
    ):
        run = import_into_run(folder / f"alpaca-7b.{judge}.annotations.json", tmp_path / "run", reference=reference)
    again = build_report(run.folder).model_dump()
    for ours, theirs in zip(again["judges"], committed["judges"], strict=True):
        (now,), (then,) = ours["comparisons"], theirs["comparisons"]
        assert figures_of(now) == figures_of(then)


def test_no_prompt_or_answer_is_included(shared_data):
    files = [path for folder in (PUBLISHED, REPORT.parent) for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".md", ".json", ".csv", ".tex"}  # no page with the pairs
    shown = " ".join(path.read_text(encoding="utf-8") for path in files)
    texts = set()
    for file in (shared_data / "alpaca_eval").glob("*.json"):
        for row in json.loads(file.read_text(encoding="utf-8")):
            texts |= {str(row.get(key) or "").strip()[:60] for key in ("instruction", "output", "output_1", "output_2")}
    long = {text for text in texts if len(text) > 25}
    assert len(long) > 2000
    assert [text for text in long if text in shown] == []


def test_the_perplexities_of_continued_training_are_those_of_its_evaluations():
    with (CONTINUED / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["system"], int(row["step"])) for row in rows] == [
        (system, step) for system in ("mle", "emo") for step in (0, 50, 100, 150, 200)
    ]
    assert all(float(row["perplexity"]) == pytest.approx(math.exp(float(row["cross_entropy"]))) for row in rows)
    readme = (CONTINUED / "README.md").read_text(encoding="utf-8")
    by_step = {step: [row for row in rows if row["step"] == step] for step in ("0", "50", "100", "150", "200")}
    for step, both in by_step.items():
        cells = [f"{float(row['perplexity']):.2f}" for row in both]
        cells += [f"{float(row['token_accuracy']):.2%}".replace("%", " %") for row in both]
        assert f"| {step} | {' | '.join(cells)} |" in readme
    mle, emo = (float(row["cross_entropy"]) for row in by_step["200"])
    assert f"{emo - mle:.3f} nats per\ntoken" in readme


def test_no_text_of_the_continued_training_is_included(shared_data):
    files = [path for path in CONTINUED.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".md", ".csv", ".png", ".svg"}
    shown = " ".join(path.read_text(encoding="utf-8") for path in files if path.suffix != ".png")
    for name in ("wiki.train.first-2816KiB.tokens.gz", "wiki.valid.tokens.gz"):
        with gzip.open(shared_data / "lm" / "wikitext103" / name, "rt", encoding="utf-8") as file:
            assert not [line for line in file if len(line) > 40 and line.strip()[:40] in shown]


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
