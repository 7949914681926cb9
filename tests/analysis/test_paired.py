"""The paired difference of two systems."""

from __future__ import annotations

import pytest

from instruct.analysis.inference import paired_difference


def test_only_prompts_with_a_verdict_on_both_count():
    found = paired_difference({"a": 1.0, "b": 0.0, "c": None, "d": 1.0}, {"a": 0.0, "b": 0.5, "c": 1.0})
    assert (found.n, found.difference) == (2, 25.0)
    assert found.interval == [-50.0, 100.0]


@pytest.mark.parametrize("difference", [0.0, 0.5])
def test_equal_differences_have_no_interval(difference):
    """Resampling them gave an interval of no width, as if two systems with ties only were known to be equal."""
    first = {str(prompt): 0.5 for prompt in range(24)}
    found = paired_difference(first, dict.fromkeys(first, 0.5 - difference))
    assert (found.n, found.difference, found.interval) == (24, 100 * difference, None)
    assert found.p == (1.0 if difference == 0 else pytest.approx(0, abs=1e-4))
