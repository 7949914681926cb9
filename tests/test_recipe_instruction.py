"""The planned test of instruction tuning: its differences and its conclusions."""

from __future__ import annotations

import instruction
import numpy as np
import pytest


def test_differences_have_the_interval_of_a_two_way_analysis():
    generator = np.random.default_rng(0)
    seeds, prompts, mean = 5, 500, 0.02
    noise = generator.normal(0, 0.004, (seeds, 1)) + generator.normal(0, 0.08, (1, prompts))
    noise = noise + generator.normal(0, 0.05, (seeds, prompts))
    first, second = 0.3 + mean + noise, np.full((seeds, prompts), 0.3)
    result = instruction.compared(first.tolist(), second.tolist())
    assert result["difference"] == pytest.approx((first - second).mean())
    assert result["low"] < result["difference"] < result["high"]
    assert result["high"] - result["difference"] == pytest.approx(
        1.98 * np.hypot(0.08 / 500**0.5, 0.004 / 5**0.5), rel=0.35
    )
    back = instruction.compared(second.tolist(), first.tolist())
    assert (back["low"], back["high"]) == pytest.approx((-result["high"], -result["low"]))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 0.02, "gain"),
        (-0.01, 0.005, "no gain detected; gains above 0.0050 excluded"),
        (-0.03, -0.001, "no gain detected; gains above 0.0000 excluded"),
        (-0.01, 0.02, "undecided"),
        (None, None, "undecided: no variation to estimate an interval from"),
    ],
)
def test_a_conclusion_is_one_of_those_planned(low, high, expected):
    assert instruction.conclusion({"low": low, "high": high}) == expected
