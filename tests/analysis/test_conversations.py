"""Turns of one conversation are not independent: intervals and tests are of conversations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from counted import claimed

from instruct.analysis.outcomes import PairResult, graded, outcome_of_score
from instruct.analysis.statistics import Tally, tally_pairs
from instruct.analysis.style import Scored, fractional_logit, length_figures

CONVERSATIONS, TIMES = 80, 500


def judged(rng: np.random.Generator, level: float = 0.0) -> list[PairResult]:
    """Two turns of each conversation, which an ability that they share decides; a turn in ten is not read."""
    shared = rng.normal(level, 6.0, size=CONVERSATIONS)
    pairs = []
    for number in range(CONVERSATIONS):
        for turn in (1, 2):
            chance = 1 / (1 + math.exp(-shared[number]))
            drawn = float(rng.choice([0.0, 0.5, 1.0], p=[0.9 - 0.9 * chance, 0.1, 0.9 * chance]))
            score = None if rng.random() < 0.1 else drawn
            outcome = "unparsed" if score is None else outcome_of_score(score)
            pairs.append(PairResult(f"{number}, turn {turn}", "d", outcome, score, conversation=str(number)))
    return pairs


def claims(counts: Tally) -> bool:
    return claimed(counts).finding in ("candidate", "baseline")


@pytest.mark.slow
def test_false_claims_and_coverage_hold_for_correlated_turns():
    """The nominal 5 % with Monte Carlo's error; turns taken for independent claim too much."""
    rng = np.random.default_rng(0)
    samples = [judged(rng) for _ in range(TIMES)]
    tallies = [tally_pairs(pairs) for pairs in samples]
    read = [[pair for pair in pairs if pair.score is not None] for pairs in samples]
    alone = [tally_pairs([replace(pair, conversation="") for pair in pairs]) for pairs in read]
    margin = 3 * math.sqrt(0.05 * 0.95 / TIMES)
    assert sum(map(claims, tallies)) / TIMES <= 0.05 + margin
    assert sum(map(claims, alone)) / TIMES > 0.05 + margin
    covered = [counts.interval[0] <= 50 <= counts.interval[1] for counts in tallies]
    assert np.mean(covered) >= 0.95 - margin
    assert np.mean([one.interval[0] <= 50 <= one.interval[1] for one in alone]) < 0.95 - margin
    errors = [counts.standard_error for counts in tallies]
    assert np.mean(errors) == pytest.approx(np.std([counts.win_rate for counts in tallies]), rel=0.1)


def test_the_win_rate_is_that_of_the_turns():
    pairs = judged(np.random.default_rng(1), level=0.3)
    counts, alone = tally_pairs(pairs), tally_pairs([replace(pair, conversation="") for pair in pairs])
    assert 100 * counts.values.mean() == pytest.approx(alone.win_rate)
    assert (counts.win_rate, counts.bounds, counts.n_judged) == (alone.win_rate, alone.bounds, alone.n_judged)
    assert len(counts.values) < alone.n_judged
    assert counts.standard_error > alone.standard_error


def test_the_covariance_of_a_regression_is_that_of_conversations():
    """Every pair twice, as two turns that are alike, has the covariance of one."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(60), rng.normal(size=60)])
    scores = rng.random(60)
    once = fractional_logit(Scored(scores), x)
    twice = fractional_logit(Scored(np.repeat(scores, 2), units=np.repeat(np.arange(60), 2)), np.repeat(x, 2, axis=0))
    assert twice.beta == pytest.approx(once.beta)
    assert twice.robust == pytest.approx(once.robust)
    assert twice.modeled == pytest.approx(once.modeled)
    assert twice.freedom == once.freedom


def test_grades_weigh_in_the_coefficient_of_length():
    """A pair of weight 2 counts as two pairs."""
    rng = np.random.default_rng(4)
    scores, difference, weights = rng.random(100), rng.integers(-300, 300, size=100), rng.choice([1.0, 2.0], size=100)
    found = length_figures(Scored(scores, weights), 400 + difference, np.full(100, 400))
    term = np.tanh(difference / difference.std(ddof=1))
    beta = fractional_logit(Scored(scores, weights), np.column_stack([np.ones(100), term]))[0]
    mean = np.average(term, weights=weights)
    spread = np.sqrt(weights @ (term - mean) ** 2 / (weights.sum() - 1))
    assert found.term.coefficient == pytest.approx(beta[1] * spread, abs=1e-5)


@pytest.mark.parametrize("labels", [(0.55, 0.4, 0.03, 0.01, 0.01), (0.2, 0.45, 0.05, 0.2, 0.1)])
def test_unequal_weights_have_the_interval_of_a_ratio(labels):
    """Arena-Hard's labels in two orders: linearized at 1/2, the interval was 1.8 times too wide at a rate of 97 %."""
    rng, grades = np.random.default_rng(5), np.array([3.0, 1.0, 0.0, -1.0, -3.0])
    counts = np.maximum(1, np.abs(grades)) * labels
    truth = 100 * float(counts @ np.array([1, 1, 0.5, 0, 0]) / counts.sum())
    rates, widths, covered = [], [], []
    for _ in range(100):
        pairs = []
        for number, two in enumerate(rng.choice(grades, size=(200, 2), p=labels)):
            score, weight = graded(two.tolist())
            pairs.append(PairResult(str(number), "d", outcome_of_score(score), score, weight=weight))
        tally = tally_pairs(pairs)
        low, high = tally.interval
        rates.append(tally.win_rate)
        widths.append(high - low)
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / 100)
    assert np.mean(widths) == pytest.approx(3.92 * np.std(rates), rel=0.4)


def test_weights_that_follow_the_outcome_do_not_make_claims():
    """The test of 1/2 is of weighted distances from it: a fair judge that is emphatic at random claims in 5 %."""
    rng, claimed = np.random.default_rng(6), []
    for _ in range(150):
        wins, weights = rng.integers(0, 2, size=40).astype(float), rng.choice([1.0, 3.0], size=40)
        pairs = [
            PairResult(str(number), "d", outcome_of_score(score), score, weight=weight)
            for number, (score, weight) in enumerate(zip(wins.tolist(), weights.tolist(), strict=True))
        ]
        claimed.append(tally_pairs(pairs).p <= 0.05)
    assert np.mean(claimed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)
