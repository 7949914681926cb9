"""Figures of whole samples of texts, such as MAUVE or the share of distinct words: their standard errors by a delete-a-
group jackknife over texts, and tests between two systems.

Resampling with replacement does not work for them: a text that is drawn twice is its own best match, and a histogram
with few texts per cell gets as much noise again as it already has (MAUVE .97 of 300 texts became .89, with a standard
error 2.5 times too large). Leaving groups out adds neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import Estimate, crossed

GROUPS = 40


@dataclass(frozen=True)
class Sample:
    """A figure of a sample of texts.

    value: of all texts. without: of all texts but one group, shape (GROUPS,); None: not known.
    other_variance: of `value`, for other reasons than the texts, such as a clustering's random start.
    by_text: of a figure that is a mean over texts, its value for each text, by id; None: it is no such mean.
    clusters: the cluster of each text that is not one of its own, by id.
    """

    value: float
    without: NDArray[np.float64] | None = None
    other_variance: float = 0.0
    by_text: Mapping[str, float] | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)


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


def estimate(measured: Sequence[Sample]) -> Estimate:
    """The mean of a figure over trainings (or the figure of one), with an interval for other texts and trainings.

    Groups of texts are the units of `crossed`: pseudo-values around each training's figure have the jackknife's
    variance.

    Args:
        measured: one entry per training, of the same texts (with other groups, the texts' part is left out); at least
            one.
    """
    values = np.array([[sample.value] for sample in measured])
    known = [sample.without for sample in measured if sample.without is not None]
    pseudo = values
    if len(known) == len(measured) and len({len(without) for without in known}) == 1:
        without = np.array(known)
        pseudo = values - (without.shape[1] - 1) * (without - without.mean(axis=1, keepdims=True))
    fixed = float(np.sum([sample.other_variance for sample in measured])) / len(measured) ** 2
    return crossed(pseudo, value=float(values.mean()), fixed=fixed)


def difference(first: Sequence[Sample], second: Sequence[Sample]) -> Estimate:
    """The first system's figure minus the second's, both measured on the same prefixes, training by training.

    Raises:
        ValueError: different numbers of trainings.
    """
    return estimate(
        [
            Sample(
                ours.value - theirs.value,
                None if ours.without is None or theirs.without is None else ours.without - theirs.without,
                ours.other_variance + theirs.other_variance,
            )
            for ours, theirs in zip(first, second, strict=True)
        ]
    )
