"""Prediction-powered win rates: against ppi-python, and what a judge can and cannot add."""

from __future__ import annotations

import numpy as np
import pytest

from instruct.scores.prediction_powered import prediction_powered

LABELS = "00110tt01tttt1111110010t010101tt11010110t11t01101tt0101t1t1t"
VERDICTS = (
    "00110tt010t1t1110110010t11t101t0110101101111t1101tt010101t10011110101111110t000100t11101101t111110t0"
    "t11t0101tt1tttt01111111110tt01t110tt1001t1t01000t0110t11101101011100t101t01tt1t110t1110t111111111t11"
)
# ppi-python 0.2.3: ppi_mean_pointestimate(labels, verdicts[:60], verdicts[60:]) and ppi_mean_ci(..., alpha=0.05).
ESTIMATE, INTERVAL = 0.6104413057124922, [0.5332389167793291, 0.6876436946456553]


def points(text: str) -> np.ndarray:
    return np.array([{"1": 1.0, "t": 0.5, "0": 0.0}[mark] for mark in text])


def test_estimate_equals_ppi_python_and_its_interval_is_wider() -> None:
    labels, verdicts = points(LABELS), points(VERDICTS)
    found = prediction_powered(labels, verdicts[:60], verdicts[60:])
    assert found.win_rate == pytest.approx(100 * ESTIMATE, abs=1e-5)
    assert found.interval == pytest.approx([100 * end for end in INTERVAL], abs=0.9)  # Student's, and more variance
    assert found.interval[0] < 100 * INTERVAL[0] < 100 * INTERVAL[1] < found.interval[1]
    assert (found.labels, found.pairs) == (60, 200)
    assert found.judge_only == pytest.approx(100 * verdicts.mean(), abs=1e-5)
    assert found.labels_only == pytest.approx(100 * labels.mean(), abs=1e-5)
    assert found.effective_labels is not None
    assert found.effective_labels > 60


def test_a_judge_that_knows_nothing_adds_nothing() -> None:
    rng = np.random.default_rng(0)
    labels, unlabeled = rng.integers(2, size=400).astype(float), rng.integers(2, size=400).astype(float)
    found = prediction_powered(labels, rng.integers(2, size=400).astype(float), unlabeled)
    assert found.weight < 0.1
    assert found.interval == pytest.approx(found.labels_only_interval, abs=1)


def test_a_judge_that_contradicts_people_is_not_counted() -> None:
    labels = points(LABELS)
    found = prediction_powered(labels, 1 - labels, points(VERDICTS)[60:])
    assert found.weight == 0
    assert found.win_rate == found.labels_only


def test_interval_covers_what_people_say_although_the_judge_is_biased() -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        people = (rng.random(805) < 0.45).astype(float)
        judge = np.where(rng.random(805) < 0.8, np.maximum(people, rng.random(805) < 0.4), 1.0)
        found = prediction_powered(people[:100], judge[:100], judge[100:])
        missed += not found.interval[0] <= 45 <= found.interval[1]
    assert missed <= 30  # 5 % expected, twice that allowed


def test_labels_needed_is_the_fewest_that_reach_the_precision() -> None:
    rng = np.random.default_rng(0)
    people = (rng.random(9000) < 0.6).astype(float)
    judge = np.where(rng.random(9000) < 0.9, people, 1 - people)
    found = prediction_powered(people[:300], judge[:300], judge[300:])
    assert found.labels_needed is not None
    assert 300 < found.labels_needed < 2500
    with_them = prediction_powered(
        people[: found.labels_needed], judge[: found.labels_needed], judge[found.labels_needed :]
    )
    assert (with_them.interval[1] - with_them.interval[0]) / 2 == pytest.approx(2, abs=0.2)


def test_labels_needed_is_none_if_all_pairs_are_too_few() -> None:
    labels, verdicts = points(LABELS), points(VERDICTS)
    assert prediction_powered(labels, verdicts[:60], verdicts[60:]).labels_needed is None
