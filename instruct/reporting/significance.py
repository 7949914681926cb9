"""Could chance alone have given this? The exact sign test, and the paired permutation test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instruct.reporting.intervals import RESAMPLES, SEED, chunks
from instruct.reporting.remembered import remembered

# 2 ** 13 flips are fewer than 10,000 resamples: all are counted.
_ALL_FLIPS = RESAMPLES.bit_length() - 1


@remembered
def sign_test(wins: int, losses: int) -> float | None:
    """The two-sided p-value of the exact sign test, ties dropped; None where nothing but ties is left.

    The hypothesis: a pair that is no tie is as likely won as lost. Source: Dixon and Mood, Journal of the American
    Statistical Association 41 (1946); computed by scipy.stats.binomtest.
    """
    if not wins + losses:
        return None
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses, 0.5).pvalue)


def sign_flip_test(differences: NDArray[np.float64]) -> tuple[float | None, int]:
    """The paired permutation test of mean(differences) = 0: its two-sided p-value, and the resamples it rests on.

    Within each pair the two sides change places, which turns the sign of the difference; all 2 ** n ways where these
    are fewer than 10,000, else 10,000 drawn with a fixed seed and p = (1 + as extreme) / (1 + 10,000), so that p is
    never 0 (Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010). For one system
    against its baseline the differences are scores - 1/2.

    Source: Fisher, The Design of Experiments (1935), section 21; scipy.stats.permutation_test with
    permutation_type="samples" gives the same up to the draw.
    """
    if not len(differences):
        return None, 0
    sizes = np.abs(differences[differences != 0])  # a pair without a difference is the same either way
    # Sums in another order differ in their last digits: what is as extreme may not be missed for that.
    observed = abs(float(differences.sum())) - 1e-9 * float(sizes.sum())
    if len(sizes) <= _ALL_FLIPS:
        ways = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float(np.mean(np.abs((2 * ways - 1) @ sizes) >= observed)), len(ways)
    rng = np.random.default_rng(SEED)
    distinct, counts = np.unique(sizes, return_counts=True)
    extreme = 0
    # Equal differences are flipped together: how many of them turn is binomial.
    for rows in chunks(len(distinct)):
        if len(distinct) < len(sizes) / 4:
            sums = (2 * rng.binomial(counts, 0.5, size=(rows, len(counts))) - counts) @ distinct
        else:
            bits = np.unpackbits(rng.integers(256, size=(rows, -(-len(sizes) // 8)), dtype=np.uint8), axis=1)
            sums = 2 * (bits[:, : len(sizes)] @ sizes) - sizes.sum()
        extreme += int((np.abs(sums) >= observed).sum())
    return (1 + extreme) / (1 + RESAMPLES), RESAMPLES
