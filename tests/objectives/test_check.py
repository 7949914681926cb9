"""`instruct check`: where training ends on a known truth, against closed forms, and what single tokens weigh."""

from __future__ import annotations

import math
import re

import pytest
import torch

from instruct.objectives import DFT, EMO, MLE, Energy, Frozen, MixCE
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.check import Expectation as Expected
from instruct.objectives.check import (
    behavior,
    built_in_truth,
    check,
    descend,
    gradient_errors,
    pull,
)

POWER, FOCAL, DEFT = OBJECTIVES["power"], OBJECTIVES["focal"], OBJECTIVES["deft"]
EAFT, SMOOTHING = OBJECTIVES["eaft"], OBJECTIVES["label_smoothing"]
TOP_EAFT, GEM = OBJECTIVES["eaft_top"], OBJECTIVES["gem"]


def ends_at(objective) -> torch.Tensor:
    truth, vectors = built_in_truth()
    return descend(Expected(objective, vectors), truth, torch.zeros_like(truth)).exp()


@pytest.mark.slow
@pytest.mark.parametrize("objective", [MLE(), Energy()], ids=str)
def test_proper_scores_end_at_the_truth(objective):
    found = behavior(objective)
    assert found.kind == "proper"
    assert max(found.distance) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["brier", "spherical"])
def test_bounded_proper_scores_have_the_truth_as_optimum_and_a_plateau(name):
    found = behavior(OBJECTIVES[name]())
    assert found.kind == "proper"
    assert not found.one_end  # from a permuted truth
    *flat, peaked = found.distance  # from the uniform distribution; rare tokens are learned slowly
    assert max(flat) < 1e-6
    assert peaked < 1e-3
    assert pull(OBJECTIVES[name]()).vanishes


@pytest.mark.full
def test_weights_of_the_model_alone_end_at_the_truth_without_a_loss_of_their_own():
    assert behavior(EAFT()).kind == "calibrated"
    assert behavior(TOP_EAFT()).kind == "calibrated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "temperature"),
    [
        (POWER(0.5), 0.5),
        (GEM(beta=0.7), 1 / 0.7),
        (OBJECTIVES["tofu"](gamma=0.0, beta=0.8), 1 / 0.8),
        (Frozen("dft"), 0.5),
    ],
    ids=str,
)
def test_some_end_at_a_temperature(objective, temperature):
    """1 - k of a power, 1 / beta of GEM and of TOFU without focus; a frozen rule where the reference is the truth."""
    found = behavior(objective)
    assert found.kind == "not calibrated"
    assert found.imitates == pytest.approx(temperature, abs=1e-4)
    assert max(found.residual) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("objective", [DFT(), POWER(2.0)], ids=str)
def test_powers_of_1_and_more_end_at_a_vertex(objective):
    found = behavior(objective)
    assert found.kind == "no interior optimum"
    assert found.imitates is None


@pytest.mark.slow
def test_label_smoothing_ends_at_the_smoothed_truth():
    truth, _ = built_in_truth()
    torch.testing.assert_close(ends_at(SMOOTHING(0.1)), 0.9 * truth + 0.1 / truth.shape[1], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_deft_ends_where_its_weight_says():
    """q is proportional to p ** (1 / (1 - sum of q squared)), in contexts that are flat enough to have such an end."""
    truth, _ = built_in_truth()
    found, flat = ends_at(DEFT()), slice(0, 3)
    power = 1 / (1 - found.square().sum(dim=-1, keepdim=True))
    expected = truth**power / (truth**power).sum(dim=-1, keepdim=True)
    torch.testing.assert_close(found[flat], expected[flat], atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "temperature"), [(MixCE(0.8), 0.96), (FOCAL(2.0), 1.15), (EMO(), 0.93)], ids=str)
def test_others_sharpen_or_flatten_without_being_a_temperature(objective, temperature):
    found = behavior(objective)
    assert (found.kind, found.imitates) == ("not calibrated", None)
    assert max(found.residual) > 1e-4
    assert sum(found.temperature) / 6 == pytest.approx(temperature, abs=0.06)


def test_the_pull_on_a_label_is_that_of_its_gradient():
    assert pull(MLE()).spread == pytest.approx([1.0] * 7)
    assert not pull(MLE()).vanishes
    found = pull(POWER(0.5))
    for values in (found.spread, found.conflict):
        assert values == pytest.approx([math.sqrt(p) for p in found.probability])
    assert pull(DFT()).vanishes
    focal = pull(FOCAL(2.0))
    assert focal.largest == pytest.approx(max(focal.spread))


@pytest.mark.parametrize("objective", [MLE(), EMO(), Energy(), POWER(0.5), TOP_EAFT(), GEM()], ids=str)
def test_the_kernels_gradient_is_that_of_the_expectation(objective):
    found = gradient_errors(objective)
    assert all(found[dtype] < most for dtype, most in (("float32", 2e-6), ("float16", 3e-3), ("bfloat16", 3e-2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mixc"], "unknown objective 'mixc'; use mle, emo"),
        (["mixce", "--args", '{"gama": 1}'], "unexpected keyword argument 'gama'"),
        (["mixce", "--args", "gamma"], "--args: 'gamma' is not a JSON object; write it as '{\"gamma\": 0.8}'"),
        (["none.py:Loss"], "none.py: no such file"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_line(arguments, message, instruct):
    code, _, err = instruct("check", *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.full
def test_an_objective_that_reads_the_base_gets_no_claim():
    lines = check(OBJECTIVES["asft"]()).words()
    assert lines[0] == "class       no claim: it depends on the model before training"
    assert re.match("with the truth in its place, .*: not calibrated", lines[1])
