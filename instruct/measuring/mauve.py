"""MAUVE: how close the distribution of a system's texts is to that of human texts, from features of both.

Pillutla et al., MAUVE: Measuring the Gap Between Neural Text and Human Text using Divergence Frontiers (NeurIPS 2021),
and MAUVE Scores for Generative Models: Theory and Practice (JMLR 24, 2023). Both samples are quantized together by
k-means, which gives two histograms p and q. With r = w p + (1 - w) q, the divergence curve is

    (exp(-c KL(q | r)), exp(-c KL(p | r))),   0 < w < 1,   c = 5,

from (1, 0), all of q's mass is among p's, to (0, 1), all of p's is among q's. MAUVE is the area under it: 1 for equal
histograms, near 0 for disjoint ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.jackknife import kept
from instruct.base.errors import InputError, counted
from instruct.base.output import progress

SCALE = 5.0
POINTS = 25
EXPLAINED_VARIANCE = 0.9
RESTARTS = 5
ITERATIONS = 500
KMEANS_SEEDS = (0, 1, 2, 3, 4)
LEAST_TEXTS = 200
ENOUGH_TEXTS = 1000
_EDGE = 1e-6  # the first and the last mixture weight: at 0 and 1 a divergence may be infinite

Features = NDArray[np.floating]


@dataclass(frozen=True)
class Mauve:
    """MAUVE of one system's texts against the reference texts.

    by_seed: one MAUVE per k-means seed.
    without: their mean without each group of texts (analysis.jackknife), within the same clusters.
    star: MAUVE*, of histograms smoothed by Krichevsky and Trofimov's 1/2 per cluster.
    frontier_integral: 0 for equal histograms, 1 for disjoint ones; needs no scale c.
    n: the system's texts. clusters: of k-means.
    """

    by_seed: list[float]
    without: NDArray[np.float64]
    star: float
    frontier_integral: float
    n: int
    clusters: int

    @property
    def value(self) -> float:
        """The mean over the k-means seeds."""
        return float(np.mean(self.by_seed))

    @property
    def variance(self) -> float:
        """Of the value, for other k-means seeds."""
        count = len(self.by_seed)
        return float(np.var(self.by_seed, ddof=1)) / count if count > 1 else 0.0


def mauve(
    reference: Features,
    texts: Features,
    kmeans_seeds: Sequence[int] = KMEANS_SEEDS,
    dependent: NDArray[np.intp] | None = None,
) -> Mauve:
    """MAUVE of features.

    Args:
        reference: (n_reference, width), one row per human text.
        texts: (n, width), one row per text of the system. If the numbers of rows are equal, rows at the same position
            are about the same prefix.
        kmeans_seeds: at least one.
        dependent: of as many texts as human ones, numbers from 0 that are equal where texts depend on each other, such
            as those with the same prefix; None: no two do.

    Raises:
        InputError: fewer than 200 texts on a side, or a feature that is not finite.
    """
    _check(reference, texts)
    clusters = cluster_count(len(reference), len(texts))
    reduced = reduce_features(np.concatenate([reference, texts]))
    values, withouts, stars, integrals = [], [], [], []
    with progress(f"MAUVE's clusters of {counted(len(reduced), 'text')}", len(kmeans_seeds)) as done:
        for seed in kmeans_seeds:
            members = np.eye(clusters)[quantize(reduced, clusters, seed)]
            sides = np.split(members, [len(reference)])
            counts = [side.sum(axis=0) for side in sides]
            p, q = map(histogram, counts)
            values.append(float(area(p, q)))
            stars.append(float(area(*(histogram(each, smooth=True) for each in counts))))
            integrals.append(frontier_integral(p, q))
            left = [kept(np.arange(len(side)) if dependent is None else dependent) @ side for side in sides]
            withouts.append(area(*map(histogram, left)))
            done(1)
    return Mauve(
        by_seed=values,
        without=np.mean(withouts, axis=0),
        star=float(np.mean(stars)),
        frontier_integral=float(np.mean(integrals)),
        n=len(texts),
        clusters=clusters,
    )


def _check(*samples: Features) -> None:
    """Refuse what MAUVE is not defined for, or too noisy."""
    for features in samples:
        if len(features) < LEAST_TEXTS:
            raise InputError(
                f"MAUVE: {len(features)} texts are too few, {LEAST_TEXTS} are needed ({ENOUGH_TEXTS:,} recommended); "
                "continue more prefixes; running text gives more of them if it is cut into windows"
            )
        if not np.isfinite(features).all():
            row = int(np.argmin(np.isfinite(features).all(axis=1)))
            raise InputError(f"MAUVE: the features of text {row} are not finite; compute them in float32")


def cluster_count(*texts: int) -> int:
    """A tenth of the smaller number of texts (Pillutla et al. 2021, section 3)."""
    return max(2, round(min(texts) / 10))


def reduce_features(features: Features) -> NDArray[np.float64]:
    """Rows scaled to unit length, then the principal components that hold 90 % of their variance.

    Source: Pillutla et al. 2021, appendix on the details of the quantization.
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    # The solver is exact, and much faster than a full decomposition of tall data.
    components = PCA(EXPLAINED_VARIANCE, svd_solver="covariance_eigh")
    reduced: NDArray[np.float64] = components.fit_transform(normalize(features.astype(np.float64)))
    return reduced


def quantize(features: NDArray[np.float64], clusters: int, seed: int) -> NDArray[np.intp]:
    """The cluster of each row, by k-means: 5 restarts of at most 500 iterations."""
    from sklearn.cluster import KMeans

    kmeans = KMeans(clusters, init="random", n_init=RESTARTS, max_iter=ITERATIONS, tol=0, random_state=seed)
    # In OMP_NUM_THREADS threads; those without a free core wait for each other.
    labels: NDArray[np.intp] = kmeans.fit_predict(features.astype(np.float32))
    return labels


def histogram(counts: NDArray, smooth: bool = False) -> NDArray[np.float64]:
    """The shares of clusters, shape (..., clusters); `smooth` adds 1/2 to each count.

    Source: Krichevsky and Trofimov, IEEE Transactions on Information Theory 27 (1981); for MAUVE, Pillutla et al. 2023.
    """
    filled = counts + 0.5 if smooth else counts
    return filled / filled.sum(axis=-1, keepdims=True)


def divergence_curve(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """The curve between two histograms, from (1, 0) to (0, 1).

    Args:
        p, q: shape (..., clusters), each row sums to 1; p is the reference's.

    Returns:
        Shape (..., 27, 2): precision and recall side.
    """
    from scipy.special import rel_entr  # takes half a second

    weights = np.linspace(_EDGE, 1 - _EDGE, POINTS)
    curve = np.zeros((*p.shape[:-1], POINTS + 2, 2))
    curve[..., 0, 0] = curve[..., -1, 1] = 1
    for index, weight in enumerate(weights, 1):
        r = weight * p + (1 - weight) * q
        curve[..., index, 0] = np.exp(-SCALE * rel_entr(q, r).sum(axis=-1))
        curve[..., index, 1] = np.exp(-SCALE * rel_entr(p, r).sum(axis=-1))
    return curve


def area(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """MAUVE of histograms: the area under their divergence curve by the trapezoidal rule, shape (...)."""
    precision, recall = np.moveaxis(divergence_curve(p, q), -1, 0)
    return np.trapezoid(precision, recall)  # recall grows along the curve


def frontier_integral(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """2 times the integral of w KL(p | r) + (1 - w) KL(q | r) over w, in closed form.

    Source: Liu et al., Divergence Frontiers for Generative Models (NeurIPS 2021), proposition 2.
    """
    both = (p > 0) & (q > 0) & (p != q)
    a, b = np.where(both, p, 1.0), np.where(both, q, 2.0)
    mixed = np.where(both, a * b / (a - b) * np.log(a / b), np.where(p == q, p, 0.0))
    return max(0.0, float(((p + q) / 2 - mixed).sum()))
