"""What a report may claim: a small grid of benchmarks/claims.py, exact where that is possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from counted import claimed, tally

from benchmarks import claims
from benchmarks.claims_files import whole_way
from instruct.analysis.claims import agreeing_interval, finding_of
from instruct.analysis.outcomes import outcome_of_score
from instruct.analysis.panel import majority
from instruct.analysis.statistics import tally_pairs


@pytest.mark.parametrize(
    ("p", "rate", "enough", "finding"),
    [
        (0.05, 60.0, True, "candidate"),
        (0.05, 40.0, True, "baseline"),
        (0.051, 60.0, True, "no difference"),
        (None, 60.0, True, "no difference"),
        (0.001, 50.0, True, "no difference"),
        (0.001, 60.0, False, "too few"),
    ],
)
def test_the_test_decides(p, rate, enough, finding):
    assert finding_of(p, rate, enough) == finding


def test_many_small_wins_and_a_few_large_losses_are_no_claim():
    """Of grades with a mean of 1/2, eight in a row are small wins more often than not."""
    grades = tally(["win"] * 8, [0.52] * 8)
    assert grades.p < 0.01
    assert claimed(grades).finding == "no difference"
    assert claimed(tally(["win"] * 50, np.linspace(0.6, 0.9, 50))).finding == "candidate"


def test_the_interval_agrees_with_the_finding():
    assert agreeing_interval([51.0, 60.0], "no difference") == [50.0, 60.0]
    assert agreeing_interval([49.0, 60.0], "candidate") == [50.000001, 60.0]
    assert agreeing_interval([40.0, 51.0], "baseline") == [40.0, 49.999999]
    assert agreeing_interval(None, "too few") is None


@pytest.mark.parametrize("n", [3, 8, 20])
@pytest.mark.parametrize("cells", [claims.counted_cells, claims.both_orders_cells, claims.panel_cells])
def test_counted_claims_and_intervals_hold_in_every_cell(n, cells):
    found = list(claims.enumerated("counted", n, cells()))
    assert min(cell["coverage"] for cell in found) >= (0.92 if n >= 20 else 0.9)
    assert max(cell["claimed"] for cell in found if abs(cell["rate"] - 0.5) < 1e-9) <= 0.05
    assert max(cell["tested"] - cell["claimed"] for cell in found) <= 1e-9  # the power of the sign test


def test_the_chances_of_a_majority_are_those_of_its_votes():
    """Against drawn votes, by the majority that a report takes."""
    cells = dict(claims.panel_cells())
    rng = np.random.default_rng(0)
    votes = rng.choice([1.0, 0.5, 0.0], size=(3, 20_000), p=[0.45, 0.3, 0.25])
    for name, drawn in (("independent", votes), ("two alike", votes[[0, 0, 1]])):
        chances = cells[f"60%, ties 30%, {name}"]
        said = {str(k): {str(i): outcome_of_score(score) for i, score in enumerate(row)} for k, row in enumerate(drawn)}
        most = tally_pairs(majority(said))
        assert (most.win / 20_000, most.tie / 20_000, most.loss / 20_000) == pytest.approx(chances, abs=0.015)
        assert sum(chances) == pytest.approx(1)


def test_a_missed_target_is_named():
    cell = {"headline": "counted", "n": 20, "rate": 0.5, "cell": "c", "coverage": 0.95, "claimed": 0.04, "tested": 0.04}
    assert claims.missed([cell]) == []
    for figure, value in (("coverage", 0.919), ("claimed", 0.051), ("tested", 0.08)):
        (problem, *_) = claims.missed([cell | {figure: value}])
        assert problem.startswith("counted: ")
    assert "mean coverage 98.0%" in claims.missed([cell | {"coverage": 0.98}])[0]
    simulated = cell | {"headline": "seeds", "claimed": 0.09, "runs": 100}
    assert claims.missed([simulated]) == []  # 100 runs do not tell 9 % from 7 %
    assert claims.missed([simulated | {"runs": 10_000}])


@pytest.mark.parametrize("headline", ["counted", "missing", "panel"])
def test_a_file_of_annotations_leads_to_the_same_claim(tmp_path: Path, headline):
    assert whole_way(headline, tmp_path, np.random.default_rng(0))


@pytest.mark.slow
def test_the_small_grid_goes_the_whole_way_and_reaches_every_target():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.claims", "--small", "--no-write"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every target is reached" in done.stdout
    for headline in claims.TARGETS:
        assert f"{headline}: 2 of 2 experiments have the same claim and interval in report.json" in done.stdout
