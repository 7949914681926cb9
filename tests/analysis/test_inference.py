"""Intervals, tests and power against scipy, statsmodels and their formulae by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from counted import claimed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import zt_ind_solve_power
from statsmodels.stats.proportion import proportion_confint

from instruct.analysis.inference import (
    mean_of_groups,
    mean_test,
    score_interval,
    sign_flip_test,
    sign_test,
    smallest_difference,
    wilson_interval,
)
from instruct.analysis.statistics import Tally

counted = st.builds(Tally, *[st.integers(0, 300)] * 3)


@given(counted)
@settings(max_examples=40, deadline=None)
def test_the_interval_contains_the_win_rate_and_mirrors_when_sides_swap(counts):
    found, other = score_interval(counts.values), score_interval(1 - counts.values)
    assert (found is None) == (wilson_interval(counts.points, counts.n_judged) is None) == (counts.n_judged == 0)
    if found:
        assert 0 <= found[0] <= counts.win_rate + 1e-5
        assert counts.win_rate - 1e-5 <= found[1] <= 100
        assert other == pytest.approx([100 - found[1], 100 - found[0]], abs=1e-5)


@pytest.mark.parametrize(("wins", "losses"), [(3, 0), (10, 9), (0, 20), (30, 4), (800, 5), (55, 45)])
def test_few_verdicts_have_the_exact_limits_too(wins, losses):
    n = wins + losses
    exact, wilson = (100 * np.array(proportion_confint(wins, n, method=method)) for method in ("beta", "wilson"))
    few = n < 20 or min(wins, losses) < 5
    expected = [min(exact[0], wilson[0]), max(exact[1], wilson[1])] if few else wilson
    assert score_interval(Tally(win=wins, loss=losses).values) == pytest.approx(expected)


@pytest.mark.parametrize("scores", [[1.0] * 3, [0.98] * 6, [1.0] * 35, [0.5] * 40, [0.0] * 805])
def test_scores_that_are_all_the_same_have_an_interval_with_a_width(scores):
    low, high = score_interval(np.array(scores))
    assert high - low > 0.3


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_counts_are_found_different_exactly_when_the_sign_test_says_so(win, tie, loss):
    counts = Tally(win, tie, loss)
    claim = claimed(counts)
    made = claim.finding in ("candidate", "baseline")
    assert made == (win + loss >= 6 and sign_test(win, loss) <= 0.05)
    if claim.interval is not None:
        low, high = claim.interval
        assert (low > 50 or high < 50) == made
        assert low - 1e-5 <= counts.win_rate <= high + 1e-5


@given(st.integers(0, 120), st.integers(0, 120))
@settings(deadline=None)
def test_the_sign_test_equals_counting_coin_tosses(wins, losses):
    n, fewer = wins + losses, min(wins, losses)
    found = sign_test(wins, losses)
    if n == 0:
        assert found is None
    else:
        tail = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
        assert found == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
        assert sign_test(np.int64(wins), np.int64(losses)) == found


def scipys(differences: np.ndarray, resamples: float) -> float:
    return stats.permutation_test(
        (differences, np.zeros_like(differences)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        rng=np.random.default_rng(3),
        batch=1000,
    ).pvalue


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 0.3]), min_size=2, max_size=9))
@settings(max_examples=50, deadline=None)
def test_few_pairs_are_permuted_exhaustively_as_in_scipy(differences):
    assert sign_flip_test(np.array(differences)) == pytest.approx(scipys(np.array(differences), math.inf))


@pytest.mark.parametrize(("shift", "shades"), [(0.0, False), (0.03, True), (0.06, False)])
def test_many_pairs_are_permuted_at_random_as_in_scipy(shift, shades):
    rng = np.random.default_rng(11)
    differences = rng.uniform(-1, 1, 300) if shades else rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=300)
    theirs = scipys(differences + shift, 9_999)
    assert sign_flip_test(differences + shift) == pytest.approx(theirs, abs=6 * math.sqrt(max(theirs, 1e-3) / 10_000))


def test_sign_flips_handle_no_differences_and_equal_differences():
    assert sign_flip_test(np.array([])) is None
    assert sign_flip_test(np.zeros(30)) == 1.0
    assert sign_flip_test(np.full(400, 0.5)) == 1 / 10_001


@given(st.builds(Tally, win=st.integers(1, 300), tie=st.integers(0, 50), loss=st.integers(1, 300)), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_the_minimum_detectable_difference_equals_statsmodels(counts, claims):
    found = smallest_difference(counts.standard_error, counts.n_judged, claims)
    effect = zt_ind_solve_power(nobs1=counts.n_judged, alpha=0.05 / claims, power=0.8, ratio=0)
    expected = 100 * effect * np.std(counts.values, ddof=1)
    if expected < 49.9:
        assert found == pytest.approx(expected, rel=1e-3)
    elif expected > 50.1:
        assert found is None  # no win rate differs that much from 50


def test_the_minimum_detectable_difference_of_grades_is_that_of_the_test_of_the_mean():
    """By normal intervals it was 4.4 points for these, and the test found it in 3 of 10."""
    rng, n = np.random.default_rng(0), 40
    null = np.clip(rng.normal(0.5, 0.1, size=n), 0, 1)
    interval = mean_test(null).interval
    half_width = max(abs(end - 100 * null.mean()) for end in interval)
    smallest = smallest_difference(100 * null.std(ddof=1) / n**0.5, n, half_width=half_width)
    drawn = np.clip(rng.normal(0.5 + smallest / 100, 0.1, size=(60, n)), 0, 1)
    assert 0.5 < np.mean([mean_test(scores).p <= 0.05 for scores in drawn]) < 0.95
    assert smallest_difference(2.0, 19, half_width=5.0) is None


def test_the_minimum_detectable_difference_is_found_in_80_percent_of_experiments():
    n, claims, spread = 400, 6, 50 / 20
    smallest = smallest_difference(spread, n, claims) / 100
    rng = np.random.default_rng(0)
    wins = rng.binomial(n, 0.5 + smallest, size=20_000) / n
    found = np.abs(wins - 0.5) > stats.norm.ppf(1 - 0.025 / claims) * spread / 100
    assert found.mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("error", "n"), [(None, 0), (None, 1), (0.0, 9), (33.3, 3)])
def test_too_few_or_equal_verdicts_have_no_minimum_detectable_difference(error, n):
    assert smallest_difference(error, n) is None


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_wilson_equals_statsmodels(n, share):
    low, high = proportion_confint(share * n, n, method="wilson")
    assert wilson_interval(share * n, n) == pytest.approx([100 * low, 100 * high], abs=1e-9)


def test_the_mean_of_groups_weighs_each_group_the_same():
    few, many = np.array([1.0, 0.0]), np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    mean, interval, p, _ = mean_of_groups([few, many])
    assert mean == pytest.approx((1 / 2 - 1 / 6) / 2)
    variances = (np.var([1, 0, -1, 1]) / 2, np.var([-1, 0, 0, 0, 0, 0, -1, 1]) / 6)
    half = stats.norm.ppf(0.975) * math.sqrt(sum(variances)) / 2
    assert interval == pytest.approx([mean - half, min(mean + half, 1)])
    assert p == 1  # 1/2 - 1/6 is the smallest sum that flips of 1/2 and 1/6 give
    assert mean_of_groups([np.zeros(3), np.zeros(2)]) == (0, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(30, 30), (20, 200), (10, 10, 10, 10, 10)])
@pytest.mark.parametrize("flip", [0.05, 0.3])
@pytest.mark.parametrize("lean", [0.5, 0.7])
def test_the_interval_of_groups_covers_and_its_test_is_not_too_eager(rows, flip, lean):
    """Each row changes with probability `flip`, for the better with probability `lean`."""
    rng = np.random.default_rng(1)
    truth, covered, claimed, runs = flip * (2 * lean - 1), 0, 0, 500
    for _ in range(runs):
        groups = [rng.choice([1.0, -1.0, 0.0], size=n, p=[flip * lean, flip * (1 - lean), 1 - flip]) for n in rows]
        _, interval, p, _ = mean_of_groups(groups)
        covered += interval is None or interval[0] <= truth <= interval[1]
        claimed += p is not None and p < 0.05
    assert covered / runs >= 0.925
    if lean == 0.5:
        assert claimed / runs <= 0.07
