"""Length figures: the coefficient of length against statsmodels, and the warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

from instruct.analysis.results import LengthFigures
from instruct.analysis.style import Scored, length_figures, length_warning


def sample(n: int, seed: int, slope: float = 1.0, level: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a judge that likes longer answers, and the differences in length."""
    rng = np.random.default_rng(seed)
    difference = rng.normal(150, 400, size=n).astype(np.int64)
    chance = 1 / (1 + np.exp(-(level + slope * np.tanh(difference / difference.std(ddof=1)))))
    scores = (rng.random(n) < chance).astype(float)
    scores[rng.random(n) < 0.1] = 0.5
    return scores, difference


def length_of(scores: np.ndarray, difference: np.ndarray) -> LengthFigures:
    baseline = np.full(len(difference), 10**10)
    return length_figures(Scored(scores), baseline + difference, baseline)


def test_verdicts_that_follow_length_are_warned_about():
    rng = np.random.default_rng(3)
    difference = rng.integers(-500, 500, size=200)
    by_length = (difference + rng.normal(0, 150, 200) > 0).astype(float)
    for scores, side in ((by_length, "longer"), (1 - by_length, "shorter")):
        warning = length_warning(length_of(scores, difference))
        assert warning.startswith("the verdicts follow length: ")
        assert f"the odds of the {side} answer" in warning
        factor = float(warning.rpartition(" ")[2])
        assert factor == round(np.exp(abs(length_of(scores, difference).term.coefficient)), 1)
    assert length_warning(length_of(rng.integers(0, 2, size=200).astype(float), difference)) is None
    assert "separates wins from losses" in length_warning(length_of((difference > 0).astype(float), difference))


LONGER = np.arange(-20, 20)


@pytest.mark.parametrize(
    ("scores", "difference", "note"),
    [
        (np.ones(19), np.arange(19), "fewer than 20 pairs"),
        (np.tile([0.0, 1.0], 20), np.full(40, 7), "all pairs differ by the same length"),
        (np.full(40, 0.5), LONGER, "all verdicts are the same"),  # was an interval of no width, and NaN in report.json
        (np.where(LONGER == 3, 0.5, LONGER > 3), LONGER, "length separates wins from losses"),
        (np.repeat([0.5, 1.0], [18, 2]), np.repeat([0, 100], [18, 2]), "too few pairs differ in length"),
    ],
)
def test_without_an_estimate_the_note_says_why(scores, difference, note):
    found = length_of(scores, difference)
    assert (found.term, found.note) == (None, f"not estimable: {note}")


@pytest.mark.parametrize("n", [20, 805])
@pytest.mark.parametrize("shades", [False, True])
def test_the_coefficient_is_that_of_statsmodels(n, shades):
    """The errors are the larger ones of its robust and its quasi-binomial model; with many pairs both are alike."""
    scores, difference = sample(n, 0, slope=3.0)
    if shades:
        scores = 0.02 + 0.95 * scores
    term = np.tanh(difference / pd.Series(difference).std())
    x = np.column_stack([np.ones_like(term), term - term.mean()])
    model = GLM(scores, x, family=Binomial())
    fit = model.fit(cov_type="HC0", tol=1e-14)
    found = length_of(scores, difference).term
    assert found.coefficient == pytest.approx(fit.params[1] * term.std(ddof=1), abs=1e-5)
    ends = fit.conf_int()[1] * term.std(ddof=1)
    assert found.interval[0] < ends[0] + 1e-5 < ends[1] < found.interval[1] + 1e-5
    if n == 805:
        assert found.interval == pytest.approx(ends, abs=0.05)
        assert found.p == pytest.approx(fit.pvalues[1], rel=0.3)
