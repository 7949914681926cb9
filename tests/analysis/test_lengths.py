"""Length figures against pandas, and the length-adjusted rate against a likelihood maximised by scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

from instruct.analysis.inference import score_interval
from instruct.analysis.lengths import Scored, by_difference, length_adjusted, length_figures, length_warning


def sample(n: int, seed: int, slope: float = 1.0, level: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a judge that likes longer answers, and the differences in length."""
    rng = np.random.default_rng(seed)
    difference = rng.normal(150, 400, size=n).astype(np.int64)
    chance = 1 / (1 + np.exp(-(level + slope * np.tanh(difference / difference.std(ddof=1)))))
    scores = (rng.random(n) < chance).astype(float)
    scores[rng.random(n) < 0.1] = 0.5
    return scores, difference


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shades", [False, True])
def test_the_adjusted_rate_equals_a_maximized_likelihood_with_sandwich_errors(seed, shades):
    scores, difference = sample(240, seed)
    if shades:
        scores = 0.05 + 0.9 * scores
    x = np.column_stack([np.ones(len(scores)), np.tanh(difference / pd.Series(difference).std())])

    def loss(beta: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0, x @ beta) - scores * (x @ beta)))

    def slope(beta: np.ndarray) -> np.ndarray:
        return x.T @ (1 / (1 + np.exp(-(x @ beta))) - scores)

    beta = minimize(loss, np.zeros(2), jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    mean = 1 / (1 + np.exp(-(x @ beta)))
    bread = np.linalg.inv(x.T @ (x * (mean * (1 - mean))[:, None]))
    meat = x.T @ (x * ((scores - mean) ** 2)[:, None])
    covariance = bread @ meat @ bread
    rate = 1 / (1 + np.exp(-beta[0]))
    spread = 1.96 * rate * (1 - rate) * np.sqrt(covariance[0, 0])
    found = length_adjusted(Scored(scores), difference)
    assert found.win_rate == pytest.approx(100 * rate, abs=1e-4)
    assert found.interval == pytest.approx([100 * (rate - spread), 100 * (rate + spread)], abs=1e-3)
    assert found.note is None


def test_a_judge_that_prefers_only_length_is_adjusted_to_even():
    scores, difference = sample(20_000, 3, slope=2.0, level=0.0)
    low, high = length_adjusted(Scored(scores), difference).interval
    assert 100 * scores.mean() > 57
    assert low < 50 < high


def test_the_interval_has_about_its_nominal_coverage():
    truth = 100 / (1 + np.exp(-0.3 * 0.9))  # a tenth are ties: near enough to the rate at equal length
    drawn = [sample(200, seed) for seed in range(200)]
    intervals = [length_adjusted(Scored(scores), difference).interval for scores, difference in drawn]
    covered = [low <= truth <= high for low, high in intervals]
    assert 0.9 <= np.mean(covered) <= 0.99


@given(st.integers(0, 10_000), st.floats(-1, 1))
@settings(max_examples=25, deadline=None)
def test_swapping_the_sides_mirrors_the_adjusted_rate(seed, level):
    scores, difference = sample(60, seed, level=level)
    one, other = length_adjusted(Scored(scores), difference), length_adjusted(Scored(1 - scores), -difference)
    assert one.note == other.note or "extrapolated" in str(one.note)
    if one.win_rate is not None:
        assert other.win_rate == pytest.approx(100 - one.win_rate, abs=1e-4)
        low, high = one.interval
        assert other.interval == pytest.approx([100 - high, 100 - low], abs=1e-3)


LONGER = np.arange(-20, 20)


@pytest.mark.parametrize(
    ("scores", "difference", "note"),
    [
        (np.ones(19), np.arange(19), "fewer than 20 pairs"),
        (np.tile([0.0, 1.0], 20), np.full(40, 7), "all pairs differ by the same length"),
        (np.ones(40), LONGER, "all verdicts are the same"),
        (np.zeros(40), LONGER, "all verdicts are the same"),
        (np.full(40, 0.5), LONGER, "all verdicts are the same"),  # was an interval of no width, and NaN in report.json
        ((LONGER > 3).astype(float), LONGER, "the length difference separates wins from losses completely"),
        ((LONGER <= 3).astype(float), LONGER, "the length difference separates wins from losses completely"),
        (np.where(LONGER == 3, 0.5, LONGER > 3), LONGER, "the length difference separates wins from losses completely"),
    ],
)
def test_without_an_estimate_the_note_says_why(scores, difference, note):
    found = length_adjusted(Scored(scores), difference)
    assert (found.win_rate, found.interval, found.slope_p, found.note) == (None, None, None, note)


def test_one_pair_against_the_trend_is_enough_for_an_estimate():
    scores = (LONGER > 3).astype(float)
    scores[5] = 1.0
    assert length_adjusted(Scored(scores), LONGER).win_rate is not None


def test_an_extrapolated_rate_is_marked():
    scores, _ = sample(60, 1)
    difference = np.random.default_rng(1).integers(1, 500, size=60)
    note = "extrapolated: the candidate's answer is at {} as long as the baseline's for {} of 60 pairs"
    for none_in_support in (length_adjusted(Scored(scores), difference), length_adjusted(Scored(scores), -difference)):
        assert none_in_support.win_rate is none_in_support.interval is None
        assert none_in_support.note.startswith("not estimable")
    difference[:2] = -3
    assert length_adjusted(Scored(scores), difference).note == note.format("most", "only 2")
    difference[:6] = -3
    assert length_adjusted(Scored(scores), difference).note is None


def test_verdicts_that_follow_length_are_warned_about():
    rng = np.random.default_rng(3)
    baseline = np.full(200, 1000)
    candidate = baseline + rng.integers(-500, 500, size=200)
    by_length = (candidate - baseline + rng.normal(0, 150, 200) > 0).astype(float)
    warning = length_warning(length_figures(Scored(by_length), candidate, baseline))
    assert warning == (
        "the verdicts follow length: the candidate's win rate is 2.5 % where its answer is shortest (302 to 499 "
        "characters shorter than the baseline's) and 100.0 % where it is longest (297 to 475 characters longer)"
    )
    by_chance = rng.integers(0, 2, size=200).astype(float)
    assert length_warning(length_figures(Scored(by_chance), candidate, baseline)) is None
    separated = (candidate > baseline).astype(float)
    assert "100.0 % where it is longest" in length_warning(length_figures(Scored(separated), candidate, baseline))


def test_the_slope_has_the_p_value_of_statsmodels():
    scores, difference = sample(200, 5, slope=0.4)
    x = np.column_stack([np.ones(200), np.tanh(difference / difference.std(ddof=1))])
    theirs = GLM(scores, x, family=Binomial()).fit(cov_type="HC0")
    assert length_adjusted(Scored(scores), difference).slope_p == pytest.approx(theirs.pvalues[1], abs=1e-5)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(-30, 30)), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_bins_equal_the_quintiles_of_pandas(pairs):
    scores, difference = (np.array(side) for side in zip(*pairs, strict=True))
    found = by_difference(Scored(scores), difference)
    assert sum(each.n for each in found) == (len(pairs) if len(pairs) >= 5 else 0)
    assert all(each.n >= 5 for each in found)
    assert all(before.high < after.low for before, after in itertools.pairwise(found))
    for each in found:
        inside = (difference >= each.low) & (difference <= each.high)
        assert each.n == inside.sum()
        assert each.win_rate == pytest.approx(100 * scores[inside].mean(), abs=1e-6)
        assert each.interval == pytest.approx(score_interval(scores[inside]), abs=1e-6)
    if len(np.unique(np.quantile(difference, np.linspace(0, 1, 6)))) == 6:
        theirs = pd.Series(difference).groupby(pd.qcut(difference, 5), observed=True).agg(["min", "max", "count"])
        if theirs["count"].min() >= 5:
            assert [[each.low, each.high, each.n] for each in found] == theirs.to_numpy().tolist()


def test_without_pairs_there_are_no_figures():
    nothing = np.array([], dtype=np.int64)
    assert length_figures(Scored(np.array([])), nothing, nothing) is None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [20, 60, 805])
@pytest.mark.parametrize("shades", [False, True])
def test_the_adjusted_rate_equals_statsmodels(seed, n, shades):
    scores, difference = sample(n, seed, slope=3.0)
    if shades:
        scores = 0.02 + 0.95 * scores
    term = np.tanh(difference / difference.std(ddof=1))
    fit = GLM(scores, np.column_stack([np.ones_like(term), term]), family=Binomial()).fit(cov_type="HC0", tol=1e-14)
    rate = 1 / (1 + np.exp(-fit.params[0]))
    spread = 1.96 * rate * (1 - rate) * np.sqrt(fit.cov_params()[0, 0])
    found = length_adjusted(Scored(scores), difference)
    assert found.win_rate == pytest.approx(100 * rate, abs=1e-6)
    assert found.interval == pytest.approx([100 * max(0, rate - spread), 100 * min(1, rate + spread)], abs=1e-6)


@pytest.mark.filterwarnings("error")
def test_a_single_huge_answer_prints_no_warning():
    difference = np.array([10**9, *range(-50, 40, 5), 60])
    scores = np.array([0.0, *[1.0, 0.5, 0.5] * 6, 1.0])
    length_adjusted(Scored(scores), difference)  # it warned of an overflow
