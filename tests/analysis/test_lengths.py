"""Length figures against pandas, and the rate at equal length against statsmodels."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

from instruct.analysis.inference import score_interval
from instruct.analysis.lengths import by_difference, length_figures, length_term, length_warning
from instruct.analysis.results import EqualStyle
from instruct.analysis.style import Scored, equal_style


def sample(n: int, seed: int, slope: float = 1.0, level: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a judge that likes longer answers, and the differences in length."""
    rng = np.random.default_rng(seed)
    difference = rng.normal(150, 400, size=n).astype(np.int64)
    chance = 1 / (1 + np.exp(-(level + slope * np.tanh(difference / difference.std(ddof=1)))))
    scores = (rng.random(n) < chance).astype(float)
    scores[rng.random(n) < 0.1] = 0.5
    return scores, difference


def length_adjusted(scores: np.ndarray, difference: np.ndarray) -> EqualStyle:
    return equal_style(Scored(scores), length_term(difference), ["length"])[0]


def test_a_judge_that_prefers_only_length_is_adjusted_to_even():
    scores, difference = sample(20_000, 3, slope=2.0, level=0.0)
    low, high = length_adjusted(scores, difference).interval
    assert 100 * scores.mean() > 57
    assert low < 50 < high


@pytest.mark.parametrize(("n", "rate"), [(20, 0.95), (50, 0.95), (200, 0.6)])
@pytest.mark.parametrize("kind", ["counted", "ties", "grades"])
def test_the_interval_covers_the_rate_at_equal_length(n, rate, kind):
    """By the delta method it covered 70 to 80 % at a rate of 95 %."""
    rng, covered = np.random.default_rng(n), []
    for _ in range(300):
        difference = rng.normal(100, 400, size=n).astype(np.int64)
        chance = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + 1.5 * np.tanh(difference / 400))))
        tied = np.minimum(chance, 1 - chance) * (kind == "ties")
        drawn = rng.random(n)
        scores = np.where(drawn < tied, 0.5, drawn < chance + tied / 2)
        if kind == "grades":
            scores = rng.beta(chance / 2, (1 - chance) / 2)
        if interval := length_adjusted(scores, difference).interval:
            covered.append(interval[0] <= 100 * rate <= interval[1])
    assert len(covered) > 100
    assert np.mean(covered) >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / len(covered))


@given(st.integers(0, 10_000), st.floats(-1, 1))
@settings(max_examples=25, deadline=None)
def test_swapping_the_sides_mirrors_the_adjusted_rate(seed, level):
    scores, difference = sample(60, seed, level=level)
    one, other = length_adjusted(scores, difference), length_adjusted(1 - scores, -difference)
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
        (np.tile([0.0, 1.0], 20), np.zeros(40), "no pair differs in length"),
        (np.ones(40), LONGER, "all verdicts are the same"),
        (np.zeros(40), LONGER, "all verdicts are the same"),
        (np.full(40, 0.5), LONGER, "all verdicts are the same"),  # was an interval of no width, and NaN in report.json
        ((LONGER > 3).astype(float), LONGER, "length separates wins from losses"),
        ((LONGER <= 3).astype(float), LONGER, "length separates wins from losses"),
        (np.where(LONGER == 3, 0.5, LONGER > 3), LONGER, "length separates wins from losses"),
    ],
)
def test_without_an_estimate_the_note_says_why(scores, difference, note):
    found = length_adjusted(scores, difference)
    assert (found.win_rate, found.interval, found.terms, found.note) == (None, None, [], f"not estimable: {note}")


def test_one_pair_against_the_trend_is_enough_for_an_estimate():
    scores = (LONGER > 3).astype(float)
    scores[5] = 1.0
    assert length_adjusted(scores, LONGER).win_rate is not None


def test_an_extrapolated_rate_is_marked():
    scores, _ = sample(60, 1)
    difference = np.random.default_rng(1).integers(1, 500, size=60)
    for none_in_support in (length_adjusted(scores, difference), length_adjusted(scores, -difference)):
        assert none_in_support.win_rate is none_in_support.interval is None
        assert none_in_support.note == "not estimable: every pair differs in the same direction in length"
    difference[:2] = -3
    assert length_adjusted(scores, difference).note == "extrapolated: few pairs are on one side of equal length"
    difference[:6] = -3
    assert length_adjusted(scores, difference).note is None


def test_verdicts_that_follow_length_are_warned_about():
    rng = np.random.default_rng(3)
    baseline = np.full(200, 1000)
    candidate = baseline + rng.integers(-500, 500, size=200)
    by_length = (candidate - baseline + rng.normal(0, 150, 200) > 0).astype(float)
    warning = length_warning(length_figures(Scored(by_length), candidate, baseline))
    assert warning == (
        "the verdicts follow length: the candidate's win rate is 2.5 % where its answer is shortest (302 to 499 "
        "characters shorter than the other's) and 100.0 % where it is longest (297 to 475 characters longer)"
    )
    by_chance = rng.integers(0, 2, size=200).astype(float)
    assert length_warning(length_figures(Scored(by_chance), candidate, baseline)) is None
    separated = (candidate > baseline).astype(float)
    assert "100.0 % where it is longest" in length_warning(length_figures(Scored(separated), candidate, baseline))


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [20, 60, 805])
@pytest.mark.parametrize("shades", [False, True])
def test_the_rate_and_the_slope_are_those_of_statsmodels(seed, n, shades):
    """The errors are the larger ones of its robust and its quasi-binomial model; with many pairs both are alike."""
    scores, difference = sample(n, seed, slope=3.0)
    if shades:
        scores = 0.02 + 0.95 * scores
    term = np.tanh(difference / pd.Series(difference).std())
    x = np.column_stack([np.ones_like(term), term - term.mean()])
    model = GLM(scores, x, family=Binomial())
    fit = model.fit(cov_type="HC0", tol=1e-14)
    found = length_adjusted(scores, difference)
    equal = np.array([[1.0, -term.mean()]])
    assert found.win_rate == pytest.approx(100 * fit.predict(equal)[0], abs=1e-5)
    assert found.terms[0].coefficient == pytest.approx(fit.params[1] * term.std(ddof=1), abs=1e-5)
    ends = 100 * fit.get_prediction(equal).conf_int()[0]
    assert found.interval[0] < ends[0] + 1e-5 < ends[1] < found.interval[1] + 1e-5
    if n == 805:
        assert found.interval == pytest.approx(ends, abs=0.3)
        assert found.terms[0].p == pytest.approx(fit.pvalues[1], rel=0.3)


@pytest.mark.filterwarnings("error")
def test_a_single_huge_answer_prints_no_warning():
    difference = np.array([10**9, *range(-50, 40, 5), 60])
    scores = np.array([0.0, *[1.0, 0.5, 0.5] * 6, 1.0])
    length_adjusted(scores, difference)  # it warned of an overflow
