"""More than two systems: Bradley-Terry strengths.

Prompts are resampled, each with the scores of all systems on it, so that what is easy for every system is not mistaken
for a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import SEED, chunks
from instruct.analysis.results import Ranked, RankedSystem, rounded

_BOUND = 15.0  # log-odds: no sample that fits into memory tells a larger strength from it


@dataclass(frozen=True)
class Strength:
    """A system's Bradley-Terry strength in log-odds, mean 0 over all systems, with its 95 % bootstrap interval.

    The interval is None where no resample differs, as with ties alone: it is not estimable.
    """

    name: str
    strength: float
    interval: list[float] | None


def _matrix(scores: Mapping[str, Mapping[str, float | None]]) -> NDArray[np.float64]:
    """Scores by prompt and system, NaN without a verdict: shape (prompts, systems)."""
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    rows = [[by_prompt.get(prompt) for by_prompt in scores.values()] for prompt in prompts]
    return np.array(rows, dtype=np.float64).reshape(len(prompts), len(scores))


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
