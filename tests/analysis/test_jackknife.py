"""The jackknife over texts: equal to formulas for means, and calibrated for what has no formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from instruct.analysis.jackknife import GROUPS, estimate, groups, kept


@pytest.mark.parametrize("n", [1, 7, 40, 203])
def test_groups_are_equally_large(n):
    alone = np.arange(n)
    sizes = np.bincount(groups(alone))
    assert len(sizes) == min(n, GROUPS)
    assert np.ptp(sizes) <= 1
    assert (kept(alone).sum(axis=0) == min(n, GROUPS) - 1).all()


def test_clusters_are_left_out_whole():
    clusters = np.repeat(np.arange(50), np.random.default_rng(0).integers(1, 6, size=50))
    left = kept(clusters)
    assert len(left) == GROUPS
    assert all(len({tuple(column) for column in left[:, clusters == cluster].T}) == 1 for cluster in range(50))
    assert (left.sum(axis=0) == GROUPS - 1).all()


def test_the_test_of_a_mean_is_student_s_to_which_other_variance_is_added():
    values = np.random.default_rng(1).normal(0.4, size=GROUPS)
    left = kept(np.arange(GROUPS))
    without = [left @ values / left.sum(axis=1)]
    one, more = (estimate([values.mean()], without, other) for other in (0.0, 1.0))
    assert one.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert np.ptp(more.interval) > 2 * 1.95 > np.ptp(one.interval)


@pytest.mark.parametrize("without", [np.full(40, 0.5), []])
def test_what_does_not_vary_has_no_interval(without):
    alone = estimate([0.5], [without])
    assert (alone.value, alone.interval, alone.p) == (0.5, None, None)


@pytest.mark.parametrize("sizes", [(0, 0, 0), (3, 4, 4), (0, 4, 4)])
def test_trainings_with_different_groups_are_compared_by_their_spread_alone(sizes):
    found = estimate([1.0, 2.0, 3.0], [np.arange(size) for size in sizes])
    assert found.p == pytest.approx(stats.ttest_1samp([1, 2, 3], 0).pvalue)
