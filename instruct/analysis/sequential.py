"""When enough pairs have been judged: a confidence sequence for the win rate over all pairs.

The pairs are judged in a random order, so those judged so far are a sample without replacement from all pairs. An
ordinary 95 % interval is valid for one look. A confidence sequence is valid at every look at once: with probability
0.95 it contains the win rate over all pairs after each of them, so judging may stop as soon as it is narrow enough.

That one system beats the other is a claim about prompts like these, not about these: once nearly all of them have been
judged, their mean is known, and excludes 50 for a fair coin, too. So claims follow a second sequence, for independent
prompts. One error budget covers looks and end: 1 % at most for the sequence, and the rest of 5 % for the ordinary test
of all pairs.

Source: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024), section 5
(sampling without replacement), and Confidence sequences for sampling without replacement, NeurIPS 2020.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.claims import ALPHA
from instruct.analysis.outcomes import PairResult
from instruct.analysis.results import Look, Sequential, rounded

LEVEL = 0.95
# The part of a claim's error that the looks before the end may use up; the test of all pairs has what they cannot.
LOOKS_SHARE = 0.2
# A bet is a share of the most that may be staked; the capital is the mean over these. Small shares find small
# differences, large ones decide early on clear ones; the mean costs little against the best, which nobody knows.
_SHARES = (np.arange(1, 9) / 9) ** 2
# 2 ** -20 of the range of scores: far below the six decimals of a percentage that are reported.
_BISECTIONS = 20


# How many looks a report shows: enough for a smooth band.
_LOOKS = 100


@dataclass(frozen=True)
class StopRule:
    """When judging may stop: `width` None, when a claim may be made; else when the interval has `width` points."""

    width: float | None = None

    @classmethod
    def parse(cls, text: str) -> StopRule:
        """`decided`, or `width=5`.

        Raises:
            ValueError: anything else.
        """
        if text == "decided":
            return cls()
        match = re.fullmatch(r"width=(\d+(?:\.\d+)?)", text)
        if match is None or not 0 < float(match[1]) < 100:
            raise ValueError("must be `decided`, or `width=POINTS` with POINTS between 0 and 100, such as width=5")
        return cls(float(match[1]))

    def met_by(self, scores: Sequence[float | None]) -> bool:
        """Whether the scores so far, in the random order, are enough."""
        if self.width is None:
            return anytime_p(scores) <= LOOKS_SHARE * ALPHA
        low, high = confidence_interval(*_worst_and_best(scores))
        return high - low <= self.width

    def __str__(self) -> str:
        return "decided" if self.width is None else f"width={self.width:g}"


def sequential(results: Iterable[PairResult], identities: Iterable[str], rule: StopRule, seed: int = 0) -> Sequential:
    """What the pairs judged so far say about all pairs.

    Replies arrive out of order, and fast ones are not a random sample. So only the pairs that come first in the random
    order count, up to the first one that has not been judged.

    Args:
        results: of the pairs judged so far; a missing score counts 0 for the lower end and 1 for the upper.
        identities: of all pairs.
    """
    order = random_order(identities, seed)
    scores = _scores_in_order({result.instruction: result.score for result in results}, order)
    step = max(1, len(scores) // _LOOKS)
    looks = [_look(scores[:n], len(order)) for n in [*range(step, len(scores), step), len(scores)] if n]
    return Sequential(
        rule=str(rule),
        seed=seed,
        pairs=len(order),
        judged=len(scores),
        met=rule.met_by(scores),
        looks=looks,
        p=anytime_p(scores),
        interval=rounded(confidence_interval(*_worst_and_best(scores))),
    )


def enough(results: Iterable[PairResult], order: Sequence[str], rule: StopRule) -> bool:
    """Whether the pairs judged so far meet the rule; `order`: all pairs in their random order."""
    scores = _scores_in_order({result.instruction: result.score for result in results}, order)
    return rule.met_by(scores)


def anytime_p(scores: Sequence[float | None]) -> float:
    """The two-sided p-value, valid at every look at once, of the hypothesis that prompts like these average 1/2.

    Source: Ville's inequality, as in capital; Shafer et al., Test martingales, Statistical Science 26 (2011).
    """
    low, high = map(np.asarray, _worst_and_best(scores))
    if not len(low):
        return 1.0
    return float(min(1.0, 2 / max(capital(low, 0.5).max(), capital(1 - high, 0.5).max())))


def claim_p(looked: Sequential, p: float | None, graded: bool = True) -> float | None:
    """The p-value of the claim of a judge that was to stop early, with one error budget for looks and end.

    Args:
        p: of the ordinary test, which counts only after all pairs.
        graded: whether scores are others than 0, 1/2 and 1; for these it is known how often looks at so many pairs
            claim a difference, which the ordinary test need not leave to them.
    """
    if looked.p is None:
        return None
    early = looked.p / LOOKS_SHARE
    if looked.judged < looked.pairs or p is None:
        return min(1.0, early)
    spent = LOOKS_SHARE if graded else spent_by_looks(looked.pairs) / ALPHA
    return min(1.0, early, p / (1 - spent))


@cache
def spent_by_looks(pairs: int) -> float:
    """How often a fair judge, of wins and losses alone, stops within so many pairs; ties make it rarer.

    The capital depends on the numbers of wins and losses alone, so the chances follow these from pair to pair.
    """
    needed = 2 / (LOOKS_SHARE * ALPHA)
    chances, stopped = np.ones(1), 0.0  # by the number of wins, of those that go on
    for n in range(1, pairs + 1):
        chances = (np.append(chances, 0.0) + np.append(0.0, chances)) / 2
        wins = np.arange(n + 1)[:, None]
        logs = wins * np.log1p(_SHARES) + (n - wins) * np.log1p(-_SHARES)
        reached = np.exp(logs).mean(axis=1) >= needed
        reached |= reached[::-1]
        stopped += float(chances[reached].sum())
        chances = np.where(reached, 0.0, chances)
    return stopped


def _scores_in_order(results: Mapping[str, float | None], order: Sequence[str]) -> list[float | None]:
    return [results[pair] for pair in itertools.takewhile(results.__contains__, order)]


def _look(scores: Sequence[float | None], total: int) -> Look:
    known = [score for score in scores if score is not None]
    interval = confidence_interval(*_worst_and_best(scores), total)
    rate = 100 * math.fsum(known) / len(known) if known else None
    return Look(n=len(scores), win_rate=rate, interval=[round(end, 6) for end in interval])


def _worst_and_best(scores: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """The scores with 0, and with 1, for a pair without a verdict."""
    low, high = ([fill if score is None else score for score in scores] for fill in (0.0, 1.0))
    return low, high


def random_order(identities: Iterable[str], seed: int = 0) -> list[str]:
    """The pairs in the order in which they are judged: by a hash of seed and identity, whatever order they came in."""
    return sorted(identities, key=lambda pair: hashlib.sha256(f"{seed} {pair}".encode()).digest())


def confidence_interval(low: Sequence[float], high: Sequence[float], total: int | None = None) -> list[float]:
    """The confidence sequence's 95 % interval of the mean score over all `total` pairs, in percent.

    Args:
        low: the scores (0 to 1) of the pairs judged so far, in the random order; a pair without a verdict counts 0.
        high: the same, with 1 for a pair without a verdict.
        total: how many pairs there are; None: the interval is of the mean over all prompts like these.

    Raises:
        ValueError: more scores than pairs, or a score outside 0 to 1.
    """
    lower = _lower_bound(np.asarray(low, dtype=np.float64), total)
    upper = 1 - _lower_bound(1 - np.asarray(high, dtype=np.float64), total)
    return [100 * lower, 100 * upper]


def capital(scores: NDArray[np.float64], mean: float, total: int | None = None) -> NDArray[np.float64]:
    """The capital after each score of a gambler who starts with 1 and bets that the mean of all scores exceeds `mean`.

    If the mean is `mean`, the rest of the pairs average m_t = (total * mean - sum of the scores before t) /
    (total - t + 1), and the gambler multiplies the capital by 1 + share * (x_t / m_t - 1): a fair game. The chance that
    the capital ever reaches 1 / a is therefore at most a (Ville's inequality). Without a `total` the scores are
    independent, and m_t is `mean`.

    Returns:
        shape (n,); infinite once the scores are larger than `mean` allows.
    """
    if total is None:
        left, impossible = np.full(len(scores), mean), np.zeros(len(scores), dtype=bool)
    else:
        before, to_come = np.concatenate([[0.0], np.cumsum(scores)[:-1]]), total - np.arange(len(scores))
        left = (total * mean - before) / to_come
        impossible = np.logical_or.accumulate(scores > left * to_come + 1e-9)
    ratio = np.where(left > 0, scores / np.where(left > 0, left, 1.0), 1.0)
    growth = np.cumsum(np.log1p(_SHARES[:, None] * (ratio - 1)), axis=1)
    most = growth.max(axis=0)
    mixed = most + np.log(np.exp(growth - most).mean(axis=0))
    return np.where(impossible, math.inf, np.exp(np.minimum(mixed, 700.0)))


def _lower_bound(scores: NDArray[np.float64], total: int | None) -> float:
    """The smallest mean that no gambler's capital has refuted so far, at half the error of the interval."""
    if total is not None and len(scores) > total:
        raise ValueError(f"{len(scores)} scores of {total} pairs")
    if len(scores) and not (scores.min() >= 0 and scores.max() <= 1):
        raise ValueError("scores must be between 0 and 1")
    if not len(scores):
        return 0.0
    low, high = 0.0, 1.0
    if total is not None:
        # Scores that are known bound the mean whatever the others are.
        low = float(scores.sum()) / total
        if len(scores) == total or not _refuted(scores, low, total):
            return low
    # The capital falls as the mean grows, so what is refuted is an interval from 0.
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _refuted(scores, middle, total) else (low, middle)
    return low


def _refuted(scores: NDArray[np.float64], mean: float, total: int | None) -> bool:
    return bool(capital(scores, mean, total).max() >= 2 / (1 - LEVEL))
