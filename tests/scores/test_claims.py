"""What a report may claim: a small grid of benchmarks/claims.py, exact where that is possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from counted import claimed, counted
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from benchmarks import claims
from instruct.analysis.inference import student
from instruct.scores.claims import finding_of, holm


@pytest.mark.parametrize(
    ("p", "gain", "enough", "finding"),
    [
        (0.05, 10.0, True, "candidate"),
        (0.05, -10.0, True, "baseline"),
        (0.051, 10.0, True, "no difference"),
        (None, 10.0, True, "no difference"),
        (0.001, 0.0, True, "no difference"),
        (0.001, 10.0, False, "too few"),
    ],
)
def test_the_test_decides(p, gain, enough, finding):
    assert finding_of(p, gain, enough) == finding


def test_what_is_excluded_is_the_inverse_of_two_one_sided_tests():
    exact = stats.binomtest(400, 805).proportion_ci(confidence_level=0.9, method="exact")
    claim = claimed(counted(win=400, loss=405))
    assert claim.excluding == pytest.approx([100 * exact.low, 100 * exact.high], abs=1e-4)
    assert claim.excluded == pytest.approx(50 - 100 * exact.low, abs=1e-4)
    ends = student(1.0, 0.5, 9).within(0.9)
    assert ends == pytest.approx(stats.t(9, 1.0, 0.5).interval(0.9), abs=1e-5)
    assert claimed(counted(win=500, loss=305)).excluding is None  # a difference is shown


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_holm_equals_statsmodels(values):
    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


def test_undefined_tests_do_not_count():
    assert holm([0.01, None, 0.04]) == [0.02, None, 0.04]


def test_too_few_for_a_finding_still_excludes_what_is_not_there():
    claim = claimed(counted(win=3, tie=1314, loss=2))
    assert (claim.finding, claim.excluded < 1) == ("too few", True)


@pytest.mark.parametrize("n", [3, 20])
def test_counted_claims_and_intervals_hold_in_every_cell(n):
    found = list(claims.enumerated(n))
    assert not any(row["missed"] for row in found)
    assert max(row["share"] for row in found if row["kind"] == "lost") == 0.0  # the power of the sign test
    assert {row["kind"] for row in found} == {"covers", "false", "lost"}


@pytest.mark.slow
def test_the_small_grid_reaches_every_target():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.claims", "--small", "--no-write"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every target is reached" in done.stdout
    assert "| `judges[].comparisons[].claim.interval` |" in done.stdout
