"""The jackknife over texts: equal to formulas for means, and calibrated for what has no formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from instruct.analysis.jackknife import GROUPS, Sample, difference, estimate, groups, kept


def measured_mean(values: np.ndarray, other: float = 0.0) -> Sample:
    left = kept(np.arange(len(values)))
    return Sample(float(values.mean()), left @ values / left.sum(axis=1), other)


@pytest.mark.parametrize("n", [1, 7, 40, 203])
def test_groups_are_fixed_and_equally_large(n):
    alone = np.arange(n)
    sizes = np.bincount(groups(alone))
    assert len(sizes) == min(n, GROUPS)
    assert np.ptp(sizes) <= 1
    assert (groups(alone) == groups(alone)).all()
    assert (kept(alone).sum(axis=0) == min(n, GROUPS) - 1).all()


def test_clusters_are_left_out_whole():
    clusters = np.repeat(np.arange(50), np.random.default_rng(0).integers(1, 6, size=50))
    left = kept(clusters)
    assert len(left) == GROUPS
    assert all(len({tuple(column) for column in left[:, clusters == cluster].T}) == 1 for cluster in range(50))
    assert (left.sum(axis=0) == GROUPS - 1).all()


def test_the_difference_of_two_systems_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    easy = rng.normal(size=GROUPS) * 5
    first, second = easy + rng.normal(size=GROUPS) + 0.4, easy + rng.normal(size=GROUPS)
    found = difference([measured_mean(first)], [measured_mean(second)])
    assert found.p == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert found.value == pytest.approx((first - second).mean())


def test_other_variance_is_added():
    values = np.random.default_rng(3).normal(size=200)
    one, more = estimate([measured_mean(values)]), estimate([measured_mean(values, other=1.0)])
    assert np.ptp(more.interval) > 2 * 1.95 > np.ptp(one.interval)


def test_what_does_not_vary_has_no_interval():
    same = Sample(0.5, np.full(40, 0.5))
    assert estimate([same]).interval is None
    assert difference([same], [same]).p is None
    assert estimate([Sample(1.0)]).p is None


def test_trainings_without_groups_are_compared_by_their_spread_alone():
    found = difference([Sample(1.0), Sample(2.0), Sample(3.0)], [Sample(0.0)] * 3)
    assert found.p == pytest.approx(stats.ttest_1samp([1, 2, 3], 0).pvalue)


def test_trainings_with_different_groups_are_compared_by_their_spread_alone():
    alone = estimate([Sample(1.0), Sample(1.2)])
    assert estimate([Sample(1.0, np.ones(3)), Sample(1.2, np.ones(4))])[:3] == alone[:3]


def test_the_interval_of_a_ratio_covers_it():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(300):
        nats, tokens = rng.gamma(2, 50, size=120), rng.integers(20, 60, size=120)
        left = kept(np.arange(120))
        found = estimate([Sample(float(nats.sum() / tokens.sum()), (left @ nats) / (left @ tokens))])
        hits += found.interval[0] < 100 / 39.5 < found.interval[1]
    assert 0.91 < hits / 300 < 0.985
