"""`instruct check`: where training ends on a known truth, against closed forms, and what single tokens weigh."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

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
from instruct.objectives.objective import TokenStatistics
from instruct.objectives.own import make_own_objective

PAGE = Path(__file__).parents[2] / "docs" / "objectives.md"
POWER, FOCAL, DEFT = OBJECTIVES["power"], OBJECTIVES["focal"], OBJECTIVES["deft"]
EAFT, SMOOTHING = OBJECTIVES["eaft"], OBJECTIVES["label_smoothing"]
TOP_EAFT, GEM = OBJECTIVES["eaft_top"], OBJECTIVES["gem"]


def ends_at(objective) -> torch.Tensor:
    truth, vectors = built_in_truth()
    return descend(Expected(objective, vectors), truth, torch.zeros_like(truth)).exp()


@pytest.mark.slow
@pytest.mark.parametrize("objective", [MLE(), Energy(), pytest.param(Energy(2.0), marks=pytest.mark.full)], ids=str)
def test_proper_scores_end_at_the_truth(objective):
    found = behavior(objective)
    assert found.kind == "proper"
    assert max(found.distance) < 1e-9
    assert (found.rare, found.end) == pytest.approx((1, 0.05), rel=1e-4)


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
@pytest.mark.parametrize("k", [pytest.param(0.25, marks=pytest.mark.full), 0.5])
def test_powers_below_1_end_at_the_temperature_1_minus_k(k):
    found = behavior(POWER(k))
    assert found.kind == "not calibrated"
    assert found.imitates == pytest.approx(1 - k, abs=1e-4)
    assert found.matched_temperature == pytest.approx([1 - k] * 6, abs=1e-3)
    truth = built_in_truth()[0]
    sharp = truth ** (1 / (1 - k)) / (truth ** (1 / (1 - k))).sum(dim=-1, keepdim=True)
    assert found.rare == pytest.approx(float(sharp[truth < 1e-3].sum() / truth[truth < 1e-3].sum()), rel=1e-2)
    ranks = torch.arange(1, 40) ** -1.0
    others = (0.95 * ranks / ranks.sum()) ** (1 / (1 - k))
    assert found.end == pytest.approx(float(0.05 ** (1 / (1 - k)) / (0.05 ** (1 / (1 - k)) + others.sum())), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "beta"), [(GEM(0.7), 0.7), (OBJECTIVES["tofu"](0.0, 0.8), 0.8)], ids=str)
def test_gem_and_tofu_without_focus_end_at_the_temperature_1_over_beta(objective, beta):
    found = behavior(objective)
    assert found.kind == "not calibrated"
    assert found.imitates == pytest.approx(1 / beta, abs=1e-4)
    assert max(found.residual) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("objective", [DFT(), pytest.param(POWER(1.0), marks=pytest.mark.full), POWER(2.0)], ids=str)
def test_powers_of_1_and_more_end_at_a_vertex(objective):
    found = behavior(objective)
    assert found.kind == "no interior optimum"
    assert found.imitates is None


@pytest.mark.slow
def test_label_smoothing_ends_at_the_smoothed_truth():
    truth, _ = built_in_truth()
    torch.testing.assert_close(ends_at(SMOOTHING(0.1)), 0.9 * truth + 0.1 / truth.shape[1], atol=1e-6, rtol=0)
    assert behavior(SMOOTHING(0.1)).imitates is None


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
    at_half = focal.spread[focal.probability.index(0.5)]
    assert at_half == pytest.approx(0.5**2 + 2 * 0.5 * 0.5 * math.log(2))


@pytest.mark.parametrize("objective", [MLE(), EMO(), Energy(), POWER(0.5), TOP_EAFT(), GEM()], ids=str)
def test_the_kernels_gradient_is_that_of_the_expectation(objective):
    found = gradient_errors(objective)
    assert found["float32"] < 2e-6
    assert found["float16"] < 3e-3
    assert found["bfloat16"] < 3e-2


@pytest.mark.full
def test_the_documented_objective_is_checked_from_its_file(tmp_path, instruct):
    (code,) = re.findall(r"```python\n(.*?class EntropyBonus.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_loss.py").write_text(code)
    name = f"{tmp_path / 'my_loss.py'}:EntropyBonus"
    code, out, err = instruct("check", name, "--args", '{"strength": 0.2}', "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["behavior"]["kind"] == "not calibrated"
    ours, truth = found["behavior"]["entropy"], found["behavior"]["truth_entropy"]
    assert all(one > other for one, other in zip(ours[1:], truth[1:], strict=True))
    assert behavior(make_own_objective(name, {"strength": 0.2})).entropy == ours


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mixc"], "unknown objective 'mixc'; use mle, emo"),
        (["power", "--args", '{"kk": 1}'], "unexpected keyword argument 'kk'"),
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


@pytest.mark.parametrize("rule", ["mixce", "tailr", "dft", "focal", "power", "eaft", "idft"])
def test_the_optimum_of_a_frozen_rule_is_the_truth_times_its_weight(rule):
    truth, vectors = built_in_truth()
    reference = truth.flip(-1).log()
    seen = {"ref_ce": -reference, "ref_q_target": reference.exp()}
    entropy = torch.special.entr(reference.exp()).sum(dim=-1, keepdim=True).expand_as(truth)
    frozen = Frozen(rule)
    weight = frozen.weigh(TokenStatistics(seen["ref_ce"], seen["ref_q_target"], **seen, ref_entropy=entropy)).a
    logits = (truth * weight).log().requires_grad_()
    (gradient,) = torch.autograd.grad(Expected(frozen, vectors).loss(logits, truth, reference), logits)
    assert gradient.abs().max() < 1e-12


@pytest.mark.slow
def test_a_frozen_rule_ends_at_a_temperature_where_the_reference_is_the_truth():
    found = behavior(Frozen("dft"))
    assert found.imitates == pytest.approx(0.5, abs=1e-4)  # q is proportional to p times p


@pytest.mark.full
def test_an_objective_that_reads_the_base_gets_no_claim():
    lines = check(OBJECTIVES["asft"]()).words()
    assert lines[0] == "class       no claim: it depends on the model before training"
    assert re.match("with the truth in its place, .*: not calibrated", lines[1])
