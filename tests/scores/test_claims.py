"""What a report may claim: a small grid of benchmarks/claims.py, exact where that is possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from counted import claimed, tally
from scipy import stats

from benchmarks import claims
from instruct.analysis.inference import mean_test, student
from instruct.analysis.results import WIN_RATE, Claim
from instruct.analysis.statistics import Tally
from instruct.reporting.comparison import claim_on_preferences
from instruct.scores.claims import claim_of, finding_of, holm, settle
from instruct.scores.samples import match


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


@pytest.mark.parametrize("n", [5, 12, 24, 40])
@pytest.mark.parametrize(("low", "high"), [(0, 0.625), (0, 1), (0.05, 0.95), (0.3, 0.55)])
def test_grades_with_a_mean_of_one_half_are_seldom_a_claim(n, low, high):
    """Two grades, in every number: of 24 with .625 in four of five cases, else 0, a sign-flip test claims 8 %."""
    share = (0.5 - low) / (high - low)
    claims = [mean_test(np.repeat([low, high], [n - wins, wins])).p <= 0.05 for wins in range(n + 1)]
    assert stats.binom.pmf(range(n + 1), n, share) @ claims <= 0.05


def settled(counts: Tally):
    claim = claim_of(match(counts), measure=WIN_RATE, candidate="emo", baseline="mle", family="verdicts")
    settle([claim])
    return claim


def test_what_is_excluded_is_the_inverse_of_two_one_sided_tests():
    exact = stats.binomtest(400, 805).proportion_ci(confidence_level=0.9, method="exact")
    claim = settled(Tally(win=400, loss=405))
    assert claim.excluding == pytest.approx([100 * exact.low, 100 * exact.high], abs=1e-4)
    assert claim.excluded == pytest.approx(50 - 100 * exact.low, abs=1e-4)
    ends = student(1.0, 0.5, 9).excluding()
    assert ends == pytest.approx(stats.t(9, 1.0, 0.5).interval(0.9), abs=1e-5)
    assert settled(Tally(win=500, loss=305)).excluding is None  # a difference is shown


def test_claims_of_a_family_are_corrected_by_holms_method():
    assert holm([0.01, 0.02, 0.04]) == pytest.approx([0.03, 0.04, 0.04])
    claims = [
        claim_of(match(Tally(win=60, loss=40)), measure=WIN_RATE, candidate=name, baseline="b", family="v")
        for name in "xyz"
    ]
    settle(claims)
    assert {claim.claims for claim in claims} == {3}


def test_the_mean_and_the_number_of_preferences_are_two_claims():
    """Many small wins and few large losses: the mean is 1/2."""
    grades = tally(["win"] * 80 + ["loss"] * 20, [0.625] * 80 + [0.0] * 20)
    preferred = claim_on_preferences(grades, candidate="emo", baseline="mle")
    settle([preferred])
    assert (claimed(grades).finding, preferred.finding) == ("no difference", "candidate")
    assert claimed(tally(["win"] * 20, np.linspace(0.7, 0.95, 20))).finding == "candidate"
    assert claimed(tally(["win"] * 5, [1.0] * 5)).finding == "too few"


def test_fewer_than_twenty_grades_claim_nothing():
    """Neither that of the mean nor that of preferences."""
    grades = tally(["win"] * 19, np.linspace(0.7, 0.95, 19))
    claim = claimed(grades)
    assert (claim.finding, claim.interval, claim.p, claim.adjusted_p, claim.excluding) == ("too few", *[None] * 4)
    assert claim_on_preferences(grades, candidate="emo", baseline="mle") is None
    assert claim.value == pytest.approx(82.5)


def test_the_interval_of_wins_and_losses_is_clopper_and_pearsons():
    found = mean_test(np.repeat([1.0, 0.0], [9, 3]))
    assert found.p == pytest.approx(stats.binomtest(9, 12).pvalue)
    exact = stats.binomtest(9, 12).proportion_ci(method="exact")
    assert found.interval == pytest.approx([100 * exact.low, 100 * exact.high], abs=1e-4)


def test_the_chance_of_a_weighted_mean_equals_drawn_weights():
    grades = np.random.default_rng(0).beta(3, 2, size=8)
    weights = np.random.default_rng(1).dirichlet(np.ones(9), size=200_000)
    doubt = (weights @ np.append(grades, 0.0) <= 0.5).mean()
    assert mean_test(grades).p == pytest.approx(2 * doubt, abs=0.006)
    heavy = mean_test(np.append(grades, grades), np.repeat([1.0, 1e-9], 8))  # what weighs nothing changes nothing
    assert heavy.p == pytest.approx(mean_test(grades).p, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "interval", "p", "enough", "agreeing"),
    [
        (55.0, [51.0, 60.0], 0.06, True, [50.0, 60.0]),
        (55.0, [49.0, 60.0], 0.04, True, [50.000001, 60.0]),
        (45.0, [40.0, 51.0], 0.04, True, [40.0, 49.999999]),
        (55.0, [51.0, 60.0], 0.04, False, [50.0, 60.0]),
        (50.0, None, None, False, None),
    ],
)
def test_the_interval_agrees_with_the_finding(value, interval, p, enough, agreeing):
    about = {"measure": WIN_RATE, "kind": "rate", "candidate": "emo", "baseline": "mle", "test": "sign", "n": 9}
    claim = Claim(**about, value=value, interval=interval, p=p, enough=enough)
    settle([claim])
    assert claim.interval == agreeing


@pytest.mark.parametrize("n", [3, 8, 20])
def test_counted_claims_and_intervals_hold_in_every_cell(n):
    found = list(claims.enumerated(n))
    assert not any(row["missed"] for row in found)
    assert max(row["share"] for row in found if row["kind"] == "lost") == 0.0  # the power of the sign test
    assert {row["kind"] for row in found} == {"covers", "false", "lost"}


@pytest.mark.parametrize("both", [False, True])
def test_a_file_of_annotations_leads_to_the_same_claim(tmp_path: Path, both):
    assert claims.whole_way(tmp_path, np.random.default_rng(0), both=both)


@pytest.mark.slow
def test_the_small_grid_goes_the_whole_way_and_reaches_every_target():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.claims", "--small", "--no-write"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every target is reached" in done.stdout
    assert "| `judges[].comparisons[].claim.interval` |" in done.stdout
