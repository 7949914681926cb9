"""The spread between training seeds: against scipy and statsmodels; the coverage of both intervals, simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from instruct.analysis.seeds import score_difference, seed_spread


def as_scores(matrix: np.ndarray) -> list[dict[str, float | None]]:
    return [{str(prompt): float(score) for prompt, score in enumerate(row)} for row in matrix]


def spread_of(matrix: np.ndarray):
    return seed_spread(as_scores(matrix))


def simulated(rng: np.random.Generator, seeds: int, prompts: int, of_seeds: float, of_prompts: float) -> np.ndarray:
    """Scores around 1/2 with an effect per seed, one per prompt, and the rest."""
    effects = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_prompts, (1, prompts))
    return 0.5 + effects + rng.normal(0, 0.05, (seeds, prompts))


def test_the_interval_over_seeds_is_students():
    rates = [52.0, 55.5, 51.25]
    found = spread_of(np.repeat(np.array([rates]).T / 100, 4, axis=1))
    assert found.mean == pytest.approx(np.mean(rates))
    assert found.standard_deviation == pytest.approx(np.std(rates, ddof=1))
    assert found.interval_seeds == pytest.approx(stats.t.interval(0.95, 2, np.mean(rates), stats.sem(rates)))


def test_the_interval_over_both_is_that_of_drawn_pivots():
    """Mean squares as in statsmodels; that of seeds divided by draws of chi2, with a draw of Student's t for each."""
    statsmodels = pytest.importorskip("statsmodels.formula.api")
    from statsmodels.stats.anova import anova_lm

    scores = simulated(np.random.default_rng(1), 4, 30, 0.05, 0.1)
    rows = [(seed, prompt, value) for (seed, prompt), value in np.ndenumerate(scores)]
    table = anova_lm(statsmodels.ols("y ~ C(s) + C(p)", pd.DataFrame(rows, columns=["s", "p", "y"])).fit())
    of_seeds, of_prompts, rest = (table["sum_sq"] / table["df"]).loc[["C(s)", "C(p)", "Residual"]] / 120
    rng = np.random.default_rng(0)
    pivots = np.maximum(3 * of_seeds / rng.chisquare(3, 400_000), rest)
    drawn = np.sqrt(pivots + of_prompts - rest) * rng.standard_t(29, 400_000)
    found = spread_of(scores)
    half = 100 * np.quantile(np.abs(drawn), 0.95)
    assert found.interval_both == pytest.approx((100 * scores.mean() - half, 100 * scores.mean() + half), rel=0.01)
    assert found.p == pytest.approx(np.mean(np.abs(drawn) >= abs(scores.mean() - 0.5)), abs=0.005)


@pytest.mark.parametrize("seeds", [2, 3])
def test_two_or_three_trainings_do_not_claim_too_much(seeds):
    """With Satterthwaite's degrees of freedom, 9 to 12 % and 7 % of equal systems differed where trainings vary."""
    rng, wrong, runs = np.random.default_rng(seeds), 0, 200
    for _ in range(runs):
        found = spread_of(simulated(rng, seeds, 20, 0.05, 0.1))
        wrong += found.p <= 0.05
        assert (found.p <= 0.05) == (not found.interval_both[0] <= 50 <= found.interval_both[1])
    assert wrong / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


def test_each_interval_covers_what_it_says():
    """Seeds and prompts are drawn again each time, or only the seeds."""
    rng = np.random.default_rng(0)
    repetitions, both, seeds_only = 300, 0, 0
    for _ in range(repetitions):
        low, high = spread_of(simulated(rng, 4, 40, 0.03, 0.1)).interval_both
        both += low <= 50 <= high
    prompts = rng.normal(0, 0.1, (1, 40))
    truth = 100 * (0.5 + prompts.mean())  # of these prompts, over all seeds
    for _ in range(repetitions):
        scores = 0.5 + prompts + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.05, (4, 40))
        low, high = spread_of(scores).interval_seeds
        seeds_only += low <= truth <= high
    assert both / repetitions >= 0.93
    assert 0.92 <= seeds_only / repetitions <= 0.98


def test_without_any_variation_there_is_no_interval():
    found = spread_of(np.full((3, 24), 0.5))
    assert (found.mean, found.standard_deviation) == (50.0, 0.0)
    assert found.interval_seeds is None
    assert found.interval_both is None


def test_only_prompts_with_a_verdict_for_every_seed_count():
    first = {"a": 1.0, "b": 0.0, "c": 1.0, "d": None}
    second = {"a": 1.0, "b": 1.0, "c": None, "d": 1.0}
    found = seed_spread([first, second])
    assert (found.n, found.left_out, found.win_rates, found.mean) == (2, 2, [50.0, 100.0], 75.0)
    assert seed_spread([{"a": 1.0, "b": 0.0}, {"a": 1.0}]).interval_both is None
    nothing = seed_spread([{"a": 1.0, "b": None}, {"a": None, "b": 1.0}])
    assert (nothing.n, nothing.left_out, nothing.mean, nothing.p) == (0, 2, None, None)


def test_mean_interval_and_p_are_of_one_population():
    """Each seed lacks other prompts, and those that all share are lost: the mean of all verdicts was above 50."""
    rng = np.random.default_rng(0)
    scores = [{} for _ in range(3)]
    for prompt in range(300):
        missing = None if prompt < 60 else (prompt - 60) // 80
        for seed in range(3):
            chance = 0.23 if prompt < 60 else 0.75
            scores[seed][str(prompt)] = None if seed == missing else float(rng.random() < chance)
    found = seed_spread(scores)
    assert (found.n, found.left_out) == (60, 240)
    low, high = found.interval_both
    assert low < found.mean < high < 50
    assert found.p < 0.05


def test_a_difference_of_scores_has_the_two_way_interval_in_their_unit():
    generator = np.random.default_rng(1)
    rates = generator.uniform(0.2, 0.8, (4, 30))
    columns = [{str(place): float(score) for place, score in enumerate(row)} for row in rates]
    halves = np.full(rates.shape, 0.5)
    spread = seed_spread(columns)
    found = score_difference(rates, halves)
    assert found.value == pytest.approx(spread.mean / 100 - 0.5)
    assert found.interval == pytest.approx([end / 100 - 0.5 for end in spread.interval_both])
    assert found.p == pytest.approx(spread.p)
    large = score_difference(7 * rates, np.full(rates.shape, 9.0))
    assert large.interval[0] < large.value < large.interval[1] < 0  # in nats, say, which no percentage limits
    assert score_difference(rates[:1], halves[:1]).interval is None


def test_all_trainings_count_where_one_system_has_more_of_them():
    generator = np.random.default_rng(4)
    inside, simulations = 0, 400
    for _ in range(simulations):
        rows = generator.normal(0, 1, 25)
        ours, theirs = (
            rows + generator.normal(0, between, (number, 1)) + generator.normal(0, 0.5, (number, 25))
            for number, between in ((8, 1.0), (4, 0.2))
        )
        found = score_difference(ours, theirs)
        assert found.value == pytest.approx(ours.mean() - theirs.mean())
        backwards = score_difference(theirs, ours)
        assert backwards.interval == pytest.approx([-end for end in reversed(found.interval)])
        inside += found.interval[0] <= 0 <= found.interval[1]
    assert 0.925 <= inside / simulations <= 1
