"""More than two systems: simultaneous intervals, ranks with intervals, and Bradley-Terry strengths.

With many systems some look better by chance. Simultaneous intervals contain all the true win rates at once with
probability 0.95, and a rank interval contains the true rank. Prompts are resampled, each with the scores of all systems
on it, so that what is easy for every system is not mistaken for a difference.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.claims import ALPHA, holm
from instruct.analysis.inference import RESAMPLES, SEED, chunks, score_interval, sign_flip_test
from instruct.analysis.results import Ranked, RankedSystem, rounded

_BOUND = 15.0  # log-odds: no sample that fits into memory tells a larger strength from it


@dataclass(frozen=True)
class Standing:
    """One system against the common baseline; rates in percent.

    `interval` is one of simultaneous 95 % intervals; `rank` is 1 for the highest win rate, and `rank_interval` the
    ranks that the simultaneous pairwise comparisons leave open. `next_p`: the p-value of the paired test against the
    system that follows, corrected for all pairs of systems; None for the last one.
    """

    name: str
    n: int
    win_rate: float
    interval: list[float]
    rank: int
    rank_interval: list[int]
    next_p: float | None = None

    @property
    def next_apart(self) -> bool:
        """Whether the system can be told apart from the one that follows."""
        return self.next_p is not None and self.next_p <= ALPHA


@dataclass(frozen=True)
class Strength:
    """A system's Bradley-Terry strength in log-odds, mean 0 over all systems, with its 95 % bootstrap interval.

    The interval is None where no resample differs, as with ties alone: it is not estimable.
    """

    name: str
    strength: float
    interval: list[float] | None


def standings(scores: Mapping[str, Mapping[str, float | None]]) -> list[Standing]:
    """Rank systems that one judge compared with the same baseline, the best first.

    Args:
        scores: for each system the score (0 to 1) by prompt, None without a verdict.

    Raises:
        ValueError: fewer than two systems, or one without a verdict.

    Source: Sidak's level, JASA 62 (1967); rank intervals from simultaneous differences (Mogstad, Romano, Shaikh and
    Wilhelm, Review of Economic Studies 91, 2024), here from paired tests with Holm's correction.
    """
    names, matrix = list(scores), _matrix(scores)
    counts = (~np.isnan(matrix)).sum(axis=0)
    if len(names) < 2 or not counts.all():
        raise ValueError("needs two systems or more, each with a verdict")
    rates, level = 100 * np.nanmean(matrix, axis=0), 0.95 ** (1 / len(names))
    better, p_values = _compared(matrix)
    order = sorted(range(len(names)), key=lambda index: (-rates[index], names[index]))
    ranked = []
    for index, following in zip(order, [*order[1:], None], strict=True):
        column = matrix[:, index]
        low, high = score_interval(column[~np.isnan(column)], level, exact=True) or [0.0, 100.0]
        ranked.append(
            Standing(
                names[index],
                int(counts[index]),
                round(float(rates[index]), 6),
                [round(low, 6), round(high, 6)],
                1 + int((rates > rates[index]).sum()),
                [1 + int(better[:, index].sum()), len(names) - int(better[index].sum())],
                None if following is None else round(float(p_values[index, following]), 6),
            )
        )
    return ranked


def _matrix(scores: Mapping[str, Mapping[str, float | None]]) -> NDArray[np.float64]:
    """Scores by prompt and system, NaN without a verdict: shape (prompts, systems)."""
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    rows = [[by_prompt.get(prompt) for by_prompt in scores.values()] for prompt in prompts]
    return np.array(rows, dtype=np.float64).reshape(len(prompts), len(scores))


def _compared(matrix: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """[i, j]: whether system i is better than system j, at 5 % for all pairs of systems at once; and the p-value.

    By paired sign-flip tests, corrected by Holm's method. A resampled p-value is 1 / 10,001 or more, too much for many
    pairs of systems: beyond that, Hoeffding's bound 2 exp(-sum ** 2 / (2 sum of squares)) counts.
    """
    count = matrix.shape[1]
    better, corrected = np.zeros((count, count), dtype=bool), np.ones((count, count))
    pairs = list(itertools.combinations(range(count), 2))
    differences = [difference[~np.isnan(difference)] for difference in (matrix[:, i] - matrix[:, j] for i, j in pairs)]
    p_values = []
    for difference in differences:
        squares = float((difference**2).sum())
        bound = 2 * math.exp(-(float(difference.sum()) ** 2) / (2 * squares)) if squares else 1.0
        p = bound if bound < 1 / (1 + RESAMPLES) else sign_flip_test(difference)
        p_values.append(None if p is None else min(p, bound))
    for (i, j), difference, p in zip(pairs, differences, holm(p_values), strict=True):
        if p is not None:
            corrected[i, j] = corrected[j, i] = p
            if p <= ALPHA:
                better[(i, j) if difference.sum() > 0 else (j, i)] = True
    return better, corrected


def rank_systems(judge: str, policy: str, games: Sequence[tuple[str, str, Mapping[str, float | None]]]) -> Ranked:
    """All systems of a judge's comparisons, the best first; `games` as in bradley_terry."""
    rates: dict[str, list[float]] = {}
    for candidate, baseline, scores in games:
        if judged := [score for score in scores.values() if score is not None]:
            rate = 100 * math.fsum(judged) / len(judged)
            rates.setdefault(candidate, []).append(rate)
            rates.setdefault(baseline, []).append(100 - rate)
    fitted = {system.name: system for system in bradley_terry(games) or ()}
    systems = [
        RankedSystem(
            name=name,
            opponents=len(against),
            win_rate=rounded(math.fsum(against) / len(against)),
            strength=rounded(fitted[name].strength) if fitted else None,
            interval=rounded(fitted[name].interval) if fitted else None,
        )
        for name, against in rates.items()
    ]
    systems.sort(key=lambda system: (-(system.strength or 0), -system.win_rate, system.name))
    return Ranked(judge=judge, policy=policy, systems=systems)


def bradley_terry(games: Sequence[tuple[str, str, Mapping[str, float | None]]]) -> list[Strength] | None:
    """Strengths of systems that were compared in pairs, the strongest first.

    P(i beats j) = 1 / (1 + exp(s_j - s_i)); a tie is half a win for either.

    Args:
        games: candidate, baseline, and the candidate's score (0 to 1) by prompt, None without a verdict.

    Returns:
        None if the strengths are not determined: some systems never won a point against the others (Ford, American
        Mathematical Monthly 64, 1957).

    Source: Bradley and Terry, Biometrika 39 (1952); `choix.ilsr_pairwise` and `choix.opt_pairwise` give the same.
    """
    names = sorted({name for game in games for name in game[:2]})
    sides = np.array([[names.index(game[0]), names.index(game[1])] for game in games])
    scores = _matrix({str(index): game[2] for index, game in enumerate(games)})
    known, values = (~np.isnan(scores)).astype(np.float64), np.nan_to_num(scores)
    ones = np.ones((1, len(scores)))
    points, played = ones @ values, ones @ known
    if not _determined(sides, points[0], played[0], len(names)):
        return None
    strengths = _fitted(sides, points, played, len(names))[0]
    rng = np.random.default_rng(SEED)
    parts = []
    for rows in chunks(len(scores)):
        weights = rng.multinomial(len(scores), np.full(len(scores), 1 / len(scores)), size=rows)
        parts.append(_fitted(sides, weights @ values, weights @ known, len(names)))
    low, high = np.percentile(np.concatenate(parts), [2.5, 97.5], axis=0)
    fitted = [
        Strength(name, float(strengths[i]), [float(low[i]), float(high[i])] if high[i] - low[i] > 1e-6 else None)
        for i, name in enumerate(names)
    ]
    return sorted(fitted, key=lambda system: -system.strength)


def _determined(
    sides: NDArray[np.int64], points: NDArray[np.float64], played: NDArray[np.float64], systems: int
) -> bool:
    """Whether every system has points, directly or over others, against every other one."""
    from scipy.sparse.csgraph import connected_components

    won = np.zeros((systems, systems))
    np.add.at(won, (sides[:, 0], sides[:, 1]), points)
    np.add.at(won, (sides[:, 1], sides[:, 0]), played - points)
    return int(connected_components(won, connection="strong")[0]) == 1


def _fitted(
    sides: NDArray[np.int64], points: NDArray[np.float64], played: NDArray[np.float64], systems: int
) -> NDArray[np.float64]:
    """Maximum likelihood by Newton's method: points and played (fits, games) to strengths (fits, systems)."""
    design = np.zeros((len(sides), systems))
    design[np.arange(len(sides)), sides[:, 0]] += 1
    design[np.arange(len(sides)), sides[:, 1]] -= 1
    strengths = np.zeros((len(points), systems))
    # The mean is free, so it is tied to 0. The small ridge keeps a resample finite in which a system won everything.
    tie = np.full((systems, systems), 1 / systems) + 1e-6 * np.eye(systems)
    for _ in range(50):
        expected = 1 / (1 + np.exp(-(strengths @ design.T)))
        slope = (points - played * expected) @ design
        curvature = np.einsum("fg,gi,gj->fij", played * expected * (1 - expected), design, design) + tie
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        step *= np.minimum(1, 2 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-12))
        strengths = np.clip(strengths + step, -_BOUND, _BOUND)
        if np.abs(step).max() < 1e-10:
            break
    return strengths - strengths.mean(axis=1, keepdims=True)
