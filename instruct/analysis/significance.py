"""Tests of no difference: the exact sign test, and the paired permutation test."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.intervals import RESAMPLES, SEED, chunks

# 2 ** 13 flips are fewer than 10,000 resamples: all are enumerated.
_ALL_FLIPS = RESAMPLES.bit_length() - 1


def sign_test(wins: int, losses: int) -> float | None:
    """The two-sided p-value of the exact sign test, ties dropped; None if only ties are left.

    The hypothesis: a pair that is not a tie is as likely won as lost. With n such pairs, m of them on the side that has
    fewer, p = min(1, 2 P(X <= m)) for X ~ Binomial(n, 1/2).

    Source: Dixon and Mood, Journal of the American Statistical Association 41 (1946).
    """
    n, fewer = wins + losses, min(wins, losses)
    if not n:
        return None
    # P(X <= m) as a multiple of P(X = m): each term is the one before it times k / (n - k + 1).
    total, term = 1.0, 1.0
    for k in range(fewer, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < 1e-18:
            break
    return min(1.0, 2 * total * (math.comb(n, fewer) / 2**n))


def sign_flip_test(differences: NDArray[np.float64]) -> tuple[float | None, int]:
    """The paired permutation test of mean(differences) = 0: its two-sided p-value, and the resamples it rests on.

    Within each pair the two sides are swapped, which flips the sign of the difference: all 2 ** n ways if these are
    fewer than 10,000, else 10,000 drawn with a fixed seed and p = (1 + as extreme) / (1 + 10,000), so that p is
    never 0 (Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010). For one system
    against its baseline the differences are scores - 1/2.

    Source: Fisher, The Design of Experiments (1935), section 21; scipy.stats.permutation_test with
    permutation_type="samples" gives the same up to the draw.
    """
    if not len(differences):
        return None, 0
    sizes = np.abs(differences[differences != 0])  # flipping a zero changes nothing
    # Sums in another order differ in their last digits; an equally extreme sum must not be missed for that.
    observed = abs(float(differences.sum())) - 1e-9 * float(sizes.sum())
    if len(sizes) <= _ALL_FLIPS:
        ways = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float(np.mean(np.abs((2 * ways - 1) @ sizes) >= observed)), len(ways)
    rng = np.random.default_rng(SEED)
    distinct, counts = np.unique(sizes, return_counts=True)
    extreme = 0
    # Equal differences are flipped together: the number that flip is binomial.
    for rows in chunks(len(distinct)):
        if len(distinct) < len(sizes) / 4:
            sums = (2 * rng.binomial(counts, 0.5, size=(rows, len(counts))) - counts) @ distinct
        else:
            bits = np.unpackbits(rng.integers(256, size=(rows, -(-len(sizes) // 8)), dtype=np.uint8), axis=1)
            sums = 2 * (bits[:, : len(sizes)] @ sizes) - sizes.sum()
        extreme += int((np.abs(sums) >= observed).sum())
    return (1 + extreme) / (1 + RESAMPLES), RESAMPLES
