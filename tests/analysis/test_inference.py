"""Every procedure against scipy, statsmodels and its formula by hand; and that its readings agree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import zt_ind_solve_power

from instruct.analysis.inference import (
    Estimate,
    crossed,
    mean_score,
    smallest_difference,
    student,
    weakest,
)


@given(st.integers(0, 120), st.integers(0, 60), st.integers(0, 120))
@settings(deadline=None)
def test_wins_ties_and_losses_have_the_exact_sign_test(win, tie, loss):
    found = mean_score(np.repeat([1.0, 0.5, 0.0], [win, tie, loss])[None])
    if win + tie + loss:
        assert found.p == pytest.approx(stats.binomtest(win, win + loss).pvalue if win + loss else 1.0)


@pytest.mark.parametrize(("wins", "n"), [(9, 12), (0, 5), (400, 805)])
def test_the_interval_of_wins_and_losses_is_clopper_and_pearsons(wins, n):
    found = mean_score(np.repeat([1.0, 0.0], [wins, n - wins])[None])
    for level in (0.95, 0.9):
        exact = stats.binomtest(wins, n).proportion_ci(level, method="exact")
        assert found.within(level) == pytest.approx([100 * exact.low, 100 * exact.high], abs=1e-4)


def test_the_chance_of_a_weighted_mean_equals_drawn_weights():
    grades = np.random.default_rng(0).beta(3, 2, size=8)
    weights = np.random.default_rng(1).dirichlet(np.ones(9), size=200_000)
    doubt = (weights @ np.append(grades, 0.0) <= 0.5).mean()
    found = mean_score(grades[None])
    assert (found.test, found.p) == ("mean", pytest.approx(2 * doubt, abs=0.006))
    heavy = mean_score(np.append(grades, grades)[None], weights=np.repeat([1.0, 1e-9], 8))
    assert heavy.p == pytest.approx(found.p, abs=1e-3)  # what weighs nothing changes nothing


def test_values_without_bounds_have_students_interval_and_fewer_than_twenty_none():
    values = np.random.default_rng(0).normal(1, 3, size=40)
    found = mean_score(values[None], share=False, null=0.0)
    assert found.interval == pytest.approx(stats.t.interval(0.95, 39, values.mean(), stats.sem(values)))
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    few = mean_score(values[None, :19], share=False, null=0.0)
    assert (few.value, few.interval, few.p) == (pytest.approx(values[:19].mean()), None, None)


def korn_and_graubard(right: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Of clusters of rows that are right or wrong: exact limits of the effective sample, by hand."""
    places = np.repeat(np.arange(len(sizes)), sizes)
    rate, n = right.mean(), len(right)
    sums = np.bincount(places, right)
    variance = np.sum((sums - rate * sizes - (sums - rate * sizes).mean()) ** 2) / (len(sizes) - 1) * len(sizes) / n**2
    freedom = n**2 / (sizes**2).sum() - 1
    rows = min(rate * (1 - rate) / variance, n) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, freedom)) ** 2
    points = rate * rows
    return 100 * stats.beta.ppf(0.025, points, rows - points + 1), 100 * stats.beta.ppf(
        0.975, points + 1, rows - points
    )


def test_rows_in_clusters_have_korn_and_graubards_limits():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 9, size=30)
    right = (rng.random(sizes.sum()) < np.repeat(rng.uniform(0.2, 1, size=30), sizes)).astype(float)
    found = mean_score(right[None], np.repeat(np.arange(30), sizes))
    assert found.interval == pytest.approx(korn_and_graubard(right, sizes), abs=0.15)


@pytest.mark.parametrize("test", ["sign", "mean"])
def test_rows_that_repeat_each_other_count_as_one(test):
    values = np.random.default_rng(4).uniform(0.2, 0.9, size=60)
    values = (values < 0.6).astype(float) if test == "sign" else values
    alone, five = mean_score(values[None]), mean_score(np.repeat(values, 5)[None], np.repeat(np.arange(60), 5))
    assert (alone.test, five.test, five.value) == (test, f"{test} in clusters", pytest.approx(alone.value))
    assert np.diff(five.interval) == pytest.approx(np.diff(alone.interval), rel=0.1)
    all_won = mean_score(np.ones((1, 100)), np.repeat(np.arange(10), 10))  # ten clusters, which may be all alike
    assert all_won.interval[0] < 70


def test_trainings_of_one_cluster_say_nothing_of_others():
    assert mean_score(np.array([[0.9], [0.91], [0.92]])).interval is None
    assert mean_score(np.ones((1, 20)), np.zeros(20, dtype=int)).interval is None


def effects(rng: np.random.Generator, seeds: int, prompts: int, of_seeds: float, of_prompts: float) -> np.ndarray:
    """Scores around 1/2 with an effect per seed, one per prompt, and the rest."""
    drawn = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_prompts, (1, prompts))
    return 0.5 + drawn + rng.normal(0, 0.05, (seeds, prompts))


def test_the_interval_over_seeds_and_prompts_is_that_of_drawn_pivots():
    """Mean squares as in statsmodels; that of seeds divided by draws of chi2, with a draw of Student's t for each."""
    statsmodels = pytest.importorskip("statsmodels.formula.api")
    from statsmodels.stats.anova import anova_lm

    scores = effects(np.random.default_rng(1), 4, 30, 0.05, 0.1)
    rows = [(seed, prompt, value) for (seed, prompt), value in np.ndenumerate(scores)]
    table = anova_lm(statsmodels.ols("y ~ C(s) + C(p)", pd.DataFrame(rows, columns=["s", "p", "y"])).fit())
    of_seeds, of_prompts, rest = (table["sum_sq"] / table["df"]).loc[["C(s)", "C(p)", "Residual"]] / 120
    rng = np.random.default_rng(0)
    pivots = np.maximum(3 * of_seeds / rng.chisquare(3, 400_000), rest)
    drawn = np.sqrt(pivots + of_prompts - rest) * rng.standard_t(29, 400_000)
    found, half = crossed(scores, 0.5), np.quantile(np.abs(drawn), 0.95)
    assert found.interval == pytest.approx((scores.mean() - half, scores.mean() + half), rel=0.01)
    assert found.p == pytest.approx(np.mean(np.abs(drawn) >= abs(scores.mean() - 0.5)), abs=0.005)


def test_the_weakest_of_estimates_holds_for_each():
    low, high = student(1.0, 0.5, 20), student(3.0, 0.5, 20)
    found = weakest(low, [low, high])
    assert found.interval == pytest.approx([low.interval[0], high.interval[1]])
    assert found.p == pytest.approx(max(low.p, high.p))
    assert weakest(low, [student(-1.0, 0.5, 20)]).p == 1  # on the other side
    assert weakest(low, [Estimate(2.0)]).interval is None


@given(st.floats(0.5, 10), st.integers(1, 20))
def test_the_minimum_detectable_difference_equals_statsmodels(error, claims):
    effect = zt_ind_solve_power(nobs1=100, alpha=0.05 / claims, power=0.8, ratio=0)
    assert smallest_difference(error, claims) == pytest.approx(effect * error * 10, rel=1e-3)
