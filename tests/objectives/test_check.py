"""`instruct check`: where training ends on a known truth, against closed forms, and what single tokens weigh."""

from __future__ import annotations

import math

import pytest
import torch

from instruct.objectives import DFT, EMO, MLE, Energy
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.check import Expectation as Expected
from instruct.objectives.check import (
    behavior,
    built_in_truth,
    descend,
    gradient_errors,
    pull,
)

POWER, FOCAL, GEM = OBJECTIVES["power"], OBJECTIVES["focal"], OBJECTIVES["gem"]


@pytest.mark.slow
@pytest.mark.parametrize("objective", [MLE(), Energy()], ids=str)
def test_proper_scores_end_at_the_truth(objective):
    found = behavior(objective)
    assert found.kind == "proper"
    assert max(found.distance) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "temperature"),
    [(POWER(0.5), 0.5), (GEM(beta=0.7), 1 / 0.7)],
    ids=str,
)
def test_some_end_at_a_temperature(objective, temperature):
    """1 - k of a power, 1 / beta of GEM."""
    found = behavior(objective)
    assert found.kind == "not calibrated"
    assert found.imitates == pytest.approx(temperature, abs=1e-4)
    assert max(found.residual) < 1e-7


@pytest.mark.slow
def test_a_power_of_1_ends_at_a_vertex():
    found = behavior(DFT())
    assert found.kind == "no interior optimum"
    assert found.imitates is None


@pytest.mark.slow
def test_label_smoothing_ends_at_the_smoothed_truth():
    truth, vectors = built_in_truth()
    found = descend(Expected(OBJECTIVES["label_smoothing"](0.1), vectors), truth, torch.zeros_like(truth)).exp()
    torch.testing.assert_close(found, 0.9 * truth + 0.1 / truth.shape[1], atol=1e-6, rtol=0)


def test_the_pull_on_a_label_is_that_of_its_gradient():
    assert pull(MLE()).spread == pytest.approx([1.0] * 7)
    assert not pull(MLE()).vanishes
    found = pull(POWER(0.5))
    for values in (found.spread, found.conflict):
        assert values == pytest.approx([math.sqrt(p) for p in found.probability])
    assert pull(DFT()).vanishes
    focal = pull(FOCAL(2.0))
    assert focal.largest == pytest.approx(max(focal.spread))


@pytest.mark.parametrize("objective", [EMO(), Energy(), GEM()], ids=str)
def test_the_kernels_gradient_is_that_of_the_expectation(objective):
    found = gradient_errors(objective)
    assert all(found[dtype] < most for dtype, most in (("float32", 2e-6), ("float16", 3e-3), ("bfloat16", 3e-2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mixc"], "unknown objective 'mixc'; use mle, emo"),
        (["mixce", "--args", "gamma"], "--args: 'gamma' is not a JSON object; write it as '{\"gamma\": 0.8}'"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_line(arguments, message, instruct):
    code, _, err = instruct("check", *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
