"""Intervals, tests and power against scipy, statsmodels and their formulae by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import zt_ind_solve_power
from statsmodels.stats.proportion import proportion_confint

from instruct.analysis import inference
from instruct.analysis.inference import (
    bootstrap_interval,
    power,
    sign_flip_test,
    sign_test,
    wilson_interval,
    win_rate_interval,
)
from instruct.analysis.statistics import Tally

counted = st.builds(Tally, *[st.integers(0, 300)] * 3)


def weighted(n: int, seed: int) -> Tally:
    scores = tuple(np.random.default_rng(seed).beta(0.3, 0.5, size=n).tolist())
    wins = sum(score > 0.5 for score in scores)
    return Tally(win=wins, loss=n - wins, scores=scores)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_wilson_equals_its_formula(n, share):
    low, high = wilson_interval(share * n, n)
    z = stats.norm.ppf(0.975)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert (low, high) == (pytest.approx(100 * (centre - half), abs=1e-6), pytest.approx(100 * (centre + half)))
    assert 0 <= low <= 100 * share + 1e-9
    assert 100 * share - 1e-9 <= high <= 100


@pytest.mark.parametrize(
    "counts", [Tally(win=205, tie=16, loss=584), Tally(win=6, tie=1, loss=5), weighted(120, 1), weighted(805, 2)]
)
def test_bootstrap_equals_scipy_up_to_random_draws(counts):
    values = counts.values
    low, high = bootstrap_interval(values)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", batch=500, rng=np.random.default_rng(7)
    ).confidence_interval
    tolerance = 0.12 * counts.standard_error  # a percentile of 10,000 draws is uncertain by about 0.03 of it, each
    step = 0 if counts.scores else 50 / counts.n_judged  # counted means come in steps of half a pair
    assert low == pytest.approx(100 * theirs.low, abs=tolerance + step)
    assert high == pytest.approx(100 * theirs.high, abs=tolerance + step)
    assert bootstrap_interval(values) == [low, high]


def test_bootstrap_of_counts_equals_bootstrap_of_rows(monkeypatch):
    values = Tally(win=90, tie=20, loss=60).values
    counts = bootstrap_interval(values)
    monkeypatch.setattr(inference, "_FEW_VALUES", 0)
    monkeypatch.setattr(inference, "_AT_ONCE", 100_000)
    assert bootstrap_interval(values) == pytest.approx(counts, abs=0.6)


def every_interval(counts: Tally) -> dict[str, list[float] | None]:
    return {
        "wilson": wilson_interval(counts.points, counts.n_judged),
        "standard_error": win_rate_interval(counts.values, graded=True),
        "bootstrap": bootstrap_interval(counts.values),
    }


@given(counted)
@settings(max_examples=40, deadline=None)
def test_every_interval_contains_the_win_rate_and_mirrors_when_sides_swap(counts):
    found = every_interval(counts)
    other = every_interval(Tally(win=counts.loss, tie=counts.tie, loss=counts.win))
    assert (found["wilson"] is None) == (counts.n_judged == 0)
    assert (found["bootstrap"] is None) == (found["standard_error"] is None) == (counts.n_judged < 2)
    for name, interval in found.items():
        if interval is None:
            continue
        low, high = interval
        assert 0 <= low <= counts.win_rate + 1e-5
        assert counts.win_rate - 1e-5 <= high <= 100
        tolerance = 1e-5 if name != "bootstrap" else 0.5 * counts.standard_error + 50 / counts.n_judged
        assert other[name] == pytest.approx([100 - high, 100 - low], abs=tolerance)


def test_wilson_of_scores_is_never_narrower_than_their_variance_requires():
    for seed in range(5):
        found = every_interval(weighted(400, seed))
        wilson, spread = (found[name][1] - found[name][0] for name in ("wilson", "standard_error"))
        assert wilson >= spread - 0.1


@given(counted)
def test_wilson_leads_for_counted_verdicts(counts):
    assert counts.interval == wilson_interval(counts.points, counts.n_judged)
    assert counts.interval_method == "wilson"


@pytest.mark.parametrize("seed", range(3))
def test_alpaca_evals_standard_error_leads_for_graded_preferences(seed):
    counts = weighted(200, seed)
    spread = 1.96 * counts.standard_error
    assert counts.interval == pytest.approx([counts.win_rate - spread, counts.win_rate + spread])
    assert counts.interval_method == "standard error"


def test_a_second_interval_appears_only_where_the_finding_would_differ():
    assert Tally(win=55, loss=45).second_interval is None
    assert Tally(win=70, loss=30).second_interval is None
    assert Tally(win=3).second_interval is None
    ties = Tally(win=14, tie=83, loss=3)  # ties vary little, which Wilson's interval does not use
    assert ties.finding == "no difference"
    assert ties.second_interval == bootstrap_interval(ties.values)
    assert ties.second_interval[0] > 50


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
    p, resamples = sign_flip_test(np.array(differences))
    assert p == pytest.approx(scipys(np.array(differences), math.inf))
    assert resamples == 2 ** np.count_nonzero(differences)


@pytest.mark.parametrize("shift", [0.0, 0.03, 0.06])
@pytest.mark.parametrize("shades", [False, True])
def test_many_pairs_are_permuted_at_random_as_in_scipy(shift, shades):
    rng = np.random.default_rng(11)
    differences = rng.uniform(-1, 1, 300) if shades else rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=300)
    p, resamples = sign_flip_test(differences + shift)
    theirs = scipys(differences + shift, 9_999)
    assert resamples == 10_000
    assert p == pytest.approx(theirs, abs=6 * math.sqrt(max(theirs, 1e-3) / 10_000))


def test_permutations_by_size_and_by_pair_agree(monkeypatch):
    differences = np.random.default_rng(5).choice([-1.0, -0.5, 0.5, 1.0], size=200, p=[0.2, 0.25, 0.25, 0.3])
    grouped, _ = sign_flip_test(differences)
    alone, _ = sign_flip_test(differences + np.linspace(0, 1e-9, 200))  # no two alike, and the same to nine digits
    assert grouped == pytest.approx(alone, abs=0.02)
    monkeypatch.setattr(inference, "_ALL_FLIPS", 0)
    exact = stats.binomtest(9, 10).pvalue
    assert sign_flip_test(np.array([0.5] * 9 + [-0.5]))[0] == pytest.approx(exact, abs=0.01)


def test_sign_flips_handle_no_differences_and_equal_differences():
    assert sign_flip_test(np.array([])) == (None, 0)
    assert sign_flip_test(np.zeros(30)) == (1.0, 1)
    p, resamples = sign_flip_test(np.full(400, 0.5))
    assert (p, resamples) == (1 / 10_001, 10_000)


@given(st.builds(Tally, win=st.integers(1, 300), tie=st.integers(0, 50), loss=st.integers(1, 300)))
@settings(max_examples=40, deadline=None)
def test_power_equals_statsmodels(counts):
    values = counts.values
    found = power(values)
    deviation = np.std(values, ddof=1)
    effect = zt_ind_solve_power(nobs1=len(values), alpha=0.05, power=0.8, ratio=0)
    assert found.smallest_difference == pytest.approx(100 * effect * deviation, rel=1e-3)
    seen = abs(values.mean() - 0.5)
    if seen == 0:
        assert found.pairs_needed is None
        assert "no difference to detect" in found.note
    elif seen / deviation < 0.5:
        needed = zt_ind_solve_power(effect_size=seen / deviation, alpha=0.05, power=0.8, ratio=0)
        assert found.pairs_needed == pytest.approx(needed, rel=1e-3, abs=1)


def test_the_minimum_detectable_difference_is_found_in_80_percent_of_experiments():
    n, spread = 400, 0.5
    smallest = power(np.repeat([0.0, 1.0], n // 2)).smallest_difference / 100
    rng = np.random.default_rng(0)
    wins = rng.binomial(n, 0.5 + smallest, size=20_000) / n
    found = np.abs(wins - 0.5) > 1.96 * spread / math.sqrt(n)
    assert found.mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("values", "note"), [([], "fewer than two"), ([1.0], "fewer than two"), ([1.0] * 9, "same")])
def test_power_without_a_deviation_says_why(values, note):
    found = power(np.array(values))
    assert (found.smallest_difference, found.pairs_needed) == (None, None)
    assert note in found.note
    assert "too few" in power(np.array([1.0, 0.0, 1.0])).note


@given(st.integers(0, 3000), st.integers(0, 3000))
@settings(deadline=None)
def test_the_sign_test_equals_scipy(wins, losses):
    if wins + losses:
        theirs = stats.binomtest(wins, wins + losses, 0.5).pvalue
        assert sign_test(wins, losses) == pytest.approx(theirs, rel=1e-9)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_wilson_equals_statsmodels(n, share):
    low, high = proportion_confint(share * n, n, method="wilson")
    assert wilson_interval(share * n, n) == pytest.approx([100 * low, 100 * high], abs=1e-9)
