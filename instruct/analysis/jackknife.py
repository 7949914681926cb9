"""Figures of whole samples of texts, such as MAUVE or the share of distinct words: their standard errors by a delete-a-
group jackknife over texts.

Resampling with replacement does not work for them: a text that is drawn twice is its own best match, and a histogram
with few texts per cell gets as much noise again as it already has (MAUVE .97 of 300 texts became .89, with a standard
error 2.5 times too large). Leaving groups out adds neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import Estimate, crossed

GROUPS = 40


def groups(clusters: NDArray[np.intp]) -> NDArray[np.intp]:
    """The group of each text, 0 to GROUPS - 1, at random but always the same; up to one, all have as many clusters.

    Texts about the same prefix that stand at the same position in two samples are left out together, and so are those
    of one cluster.

    Args:
        clusters: the cluster of each text, from 0; `np.arange(n)` if each is one of its own.
    """
    n = int(clusters.max()) + 1
    numbers: NDArray[np.intp] = np.random.default_rng(n).permutation(n) % min(GROUPS, n)
    return numbers[clusters]


def kept(clusters: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which texts are left when each group is left out: shape (groups, texts)."""
    group = groups(clusters)
    return np.arange(group.max() + 1)[:, None] != group


def estimate(
    values: Sequence[float] | NDArray[np.float64], without: Sequence[NDArray[np.float64]], other_variance: float = 0.0
) -> Estimate:
    """The mean of a figure over trainings (or the figure of one), with an interval for other texts and trainings.

    Groups of texts are the units of `crossed`: pseudo-values around each training's figure have the jackknife's
    variance.

    Args:
        values: of each training, of the same texts; at least one.
        without: of each training, its figure without each group of texts; empty: not known. With different groups, the
            texts' part is left out.
        other_variance: of the sum of the values, for other reasons than texts and trainings.
    """
    pseudo = figures = np.array(values)[:, None]
    if len({len(each) for each in without}) == 1 and len(without[0]):
        left = np.array(without)
        pseudo = figures - (left.shape[1] - 1) * (left - left.mean(axis=1, keepdims=True))
    return crossed(pseudo, value=float(figures.mean()), fixed=other_variance / len(values) ** 2)
