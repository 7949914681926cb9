"""What claims are made of: figures, matches over seeds, systems beside a third one, several trainings and tasks."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from instruct.analysis.inference import Estimate
from instruct.analysis.outcomes import PairResult, outcome_of_score
from instruct.analysis.results import NULL, Claim
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import (
    Sample,
    difference,
    difference_of_matches,
    figures,
    match,
    match_over_seeds,
    mean_over_tasks,
)
from instruct.scores.scores import Scores

Array = np.ndarray


def as_pairs(scores: Array) -> list[PairResult]:
    return [
        PairResult(str(unit), "d", "failed", None)
        if math.isnan(score)
        else PairResult(str(unit), "d", outcome_of_score(score), score)
        for unit, score in enumerate(scores.tolist())
    ]


def drawn(seed: int, trainings: int, ours: float, theirs: float) -> tuple[Array, Array]:
    """Right (1) or wrong (0) answers of both systems."""
    rng = np.random.default_rng(seed)
    return tuple((rng.random((trainings, 200)) < share).astype(float) for share in (ours, theirs))  # type: ignore[return-value]


def claimed(sample: Sample) -> Claim:
    claim = claim_of(sample, measure="m", candidate="ours", baseline="theirs", family="f")
    settle([claim])
    return claim


def test_figures_of_whole_samples_are_compared_by_the_jackknife():
    """Of means, that is the paired t-test."""
    rng = np.random.default_rng(3)
    easy = 5 * rng.normal(size=40)
    ours, theirs = (easy + gain + rng.normal(size=40) for gain in (0.9, 0.1))

    def trained(values: Array) -> Scores:
        figure, without = {"m": values.mean()}, {"m": (values.sum() - values) / 39}
        return Scores("", Path(), "", "", figures=figure, without=without, variances={"m": 0.0})

    for one, other in ((ours, theirs), (theirs, ours)):
        made = claimed(figures("m", [trained(one)], [trained(other)]))
        assert (made.kind, made.test, made.value) == ("metric", "jackknife", pytest.approx((one - other).mean()))
        assert made.p == pytest.approx(stats.ttest_rel(one, other).pvalue)
        assert made.interval[0] < made.value < made.interval[1]


def test_figures_of_too_few_texts_are_a_value_alone_however_many_trainings():
    trained = [
        Scores("", Path(), "", "", figures={"m": value}, without={"m": np.array([])}, variances={"m": 0.0})
        for value in (1.0, 1.2, 1.7)
    ]
    made = claimed(figures("m", trained))
    assert (made.value, made.interval, made.p) == (pytest.approx(1.3), None, None)


@pytest.mark.parametrize("kind", NULL)
def test_without_a_unit_there_is_no_value_and_no_finding(kind):
    made = claimed(Sample(kind, lambda missing: Estimate(math.nan), n=0, missing=4, enough=False))
    assert (made.value, made.interval, made.p, made.finding) == (None, None, None, "too few")


def test_two_systems_beside_a_third_have_the_difference_of_their_rates_and_no_finding():
    ours, theirs = (as_pairs(scores[0]) for scores in drawn(4, 1, 0.9, 0.5))
    made = claimed(difference_of_matches(ours, theirs))
    assert made.value == pytest.approx(claimed(match(ours)).value - claimed(match(theirs)).value)
    assert (made.finding, made.p < 0.001) == (None, True)


def test_only_prompts_with_a_verdict_for_every_seed_count():
    nan = math.nan
    made = claimed(match_over_seeds({1: as_pairs(np.array([1, 0, 1, nan])), 2: as_pairs(np.array([1, 1, nan, 1]))}, 2))
    assert (made.n, made.missing, made.value, made.params["left_out"]) == (2, 2, 75.0, 2)
    assert made.params["win_rates"] == [50.0, 100.0]
    nothing = claimed(match_over_seeds({1: as_pairs(np.array([1, nan])), 2: as_pairs(np.array([nan, 1]))}, 2))
    assert (nothing.n, nothing.params["left_out"], nothing.value, nothing.p) == (0, 2, None, None)


def test_the_interval_over_seeds_alone_is_students():
    rates = [52.0, 56.0, 51.0]
    made = claimed(
        match_over_seeds({k: as_pairs(np.repeat([1.0, 0.0], [int(r), 100 - int(r)])) for k, r in enumerate(rates)}, 3)
    )
    assert made.params["interval_seeds"] == pytest.approx(stats.t.interval(0.95, 2, np.mean(rates), stats.sem(rates)))
    assert made.params["standard_deviation"] == pytest.approx(np.std(rates, ddof=1))


def test_all_trainings_count_where_one_system_has_more_of_them():
    generator = np.random.default_rng(4)
    inside, simulations = 0, 200
    for _ in range(simulations):
        rows = generator.normal(0, 1, 25)
        ours, theirs = (
            rows + generator.normal(0, between, (number, 1)) + generator.normal(0, 0.5, (number, 25))
            for number, between in ((8, 1.0), (4, 0.2))
        )
        found = difference(lambda missing, ours=ours, theirs=theirs: (ours, theirs), kind="metric", share=False)
        estimate = found.at(math.nan)
        assert estimate.value == pytest.approx(ours.mean() - theirs.mean())
        inside += estimate.interval[0] <= 0 <= estimate.interval[1]
    assert 0.92 <= inside / simulations <= 1


def test_one_training_beside_several_has_a_value_and_no_interval():
    ours, theirs = drawn(5, 3, 0.9, 0.5)
    made = claimed(difference(lambda missing: (ours, theirs[:1])))
    assert (made.value > 0, made.interval, made.finding) == (True, None, "too few")


def test_the_mean_over_tasks_weighs_each_task_the_same():
    few, many = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    sides = [lambda missing, gains=gains: (np.maximum(gains, 0), np.maximum(-gains, 0)) for gains in (few, many)]
    clusters = [np.arange(2), np.arange(6)]
    assert claimed(mean_over_tasks(sides, clusters, by_size=False)).value == pytest.approx(100 * (1 / 2 - 1 / 6) / 2)
    assert claimed(mean_over_tasks(sides, clusters, by_size=True)).value == pytest.approx(0)
