"""scores.csv of a bench: the claims of its report, computed again, and no text."""

from __future__ import annotations

import csv

import pytest
from bench_runs import bench_run, judge_seeds

from instruct.logs.tables import COLUMNS
from instruct.reporting.bench import ENTROPY, GREEDY, OBJECTIVES, SAMPLED
from instruct.reporting.compare_logs import compare_logs
from instruct.reporting.report import write_report
from instruct.run.measurements import Number, write_numbers, write_values
from instruct.scores.claims import of_family

pytestmark = pytest.mark.usefixtures("without_figures")

IDS = [f"secret prompt {row}" for row in range(30)]


@pytest.fixture
def bench(tmp_path):
    """Greedy answers, likelihoods, samples with a control and a judge."""
    run = bench_run(tmp_path / "bench", {"mle": 3, "dft": 3, "emo": 3})
    judge_seeds(run)
    for seed in (1, 2, 3):
        for place, name in enumerate((f"dft-seed{seed}", f"mle-seed{seed}", f"mle-matched-dft-seed{seed}")):
            rates = [0.1 * ((row * (place + 1) + seed) % 7) for row in range(30)]
            write_values(run, "rouge", name, {"id": IDS, "rougeL": rates})
            write_numbers(run, "rouge", name, [Number(metric="rougeL", value=0.5, n=30)])
    return run


def test_the_reports_claims_are_computed_again(bench):
    report = write_report(bench.folder).report
    compared = compare_logs([bench.report / "scores.csv"])
    assert (compared.baseline, compared.systems) == ("mle", ["mle", "dft", "emo"])
    again = {(claim.task, claim.measure, claim.candidate): claim for claim in compared.claims}
    assert "samples at the entropy of dft" in {task for task, _, _ in again}
    for claim in of_family(report.claims, OBJECTIVES):
        task = "test" if claim.baseline == "mle" else f"samples at the entropy of {claim.candidate}"
        scale = 1 if claim.measure == ENTROPY else 100
        same = again.pop((task, claim.measure, claim.candidate))
        assert (same.n, same.trainings, same.better) == (claim.n, claim.trainings, claim.better)
        assert same.value == pytest.approx(scale * claim.value)
        assert same.interval == pytest.approx([scale * end for end in claim.interval])
        assert same.p == pytest.approx(claim.p)
    (judged,) = report.seeds
    same = again.pop(("j against mle", "win rate", "dft"))
    assert (judged.candidate, same.trainings) == ("dft", judged.trainings)
    assert same.missing > 0
    assert not again


def test_only_hashes_leave_a_run(bench):
    write_report(bench.folder)
    text = (bench.report / "scores.csv").read_text()
    assert "secret" not in text
    rows = [*csv.DictReader(text.splitlines())]
    assert tuple(rows[0]) == COLUMNS
    assert {row["measure"] for row in rows} == {GREEDY, ENTROPY, SAMPLED, "win rate"}
    assert len({row["unit"] for row in rows}) == len(IDS)
    assert {row["reason"] for row in rows if not row["value"]} == {"no value"}
