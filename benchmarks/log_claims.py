"""What `instruct compare` says of logs, in worlds whose truth is known: coverage of its intervals, and false claims.

    python benchmarks/log_claims.py [--runs 1000]

The logs are made as readers make them; truths, draws and counts are written here, apart from the package. A true
difference of 0 must be claimed in at most 5 % of the logs, by any claim of a family; intervals must cover the truth in
95 %. The Monte Carlo error is one standard error.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instruct import compare_logs
from instruct.analysis.results import Claim
from instruct.logs.log import Log, Row

Array = NDArray[np.float64]


class Drawn(NamedTuple):
    """Logs of one draw; `arguments` of compare_logs; the true difference by task, candidate and baseline."""

    logs: list[Log]
    arguments: dict[str, Any]
    truth: Callable[[Claim], float]


def log_of(system: str, values: Array, task: str = "t", seed: int | None = None, **about: Any) -> Log:
    """A log with a row for each value; two dimensions: units and their repeats; NaN: missing."""
    clusters = about.pop("clusters", None)
    folder = "" if seed is None else f"s{seed}/"
    log = Log("made", Path(f"{folder}{system}/{task}.jsonl"), system, task, **about)
    units = values if values.ndim == 2 else values[:, None]
    for place, row in enumerate(units.tolist()):
        cluster = None if clusters is None else str(clusters[place])
        for epoch, value in enumerate(row):
            score = {"acc": None if math.isnan(value) else value}
            log.add(Row(str(place), score, epoch=epoch if len(row) > 1 else None, cluster=cluster), "made")
    return log


def right(rng: np.random.Generator, chance: Array) -> Array:
    """Right (1) or wrong (0)."""
    return (rng.random(chance.shape) < chance).astype(float)


def ease(rng: np.random.Generator, n: int) -> Array:
    """How easy rows are for both systems."""
    return 0.1 + 0.7 * rng.beta(0.6, 0.6, n)


def pair(rng: np.random.Generator, gain: float, n: int = 300) -> Drawn:
    """Two systems that are right or wrong; the tuned one is right on `gain` more of the rows."""
    chance = ease(rng, n)
    return two(right(rng, chance), right(rng, chance + gain), gain)


def two(base: Array, tuned: Array, gain: float, scale: float = 100, **about: Any) -> Drawn:
    """The logs of two systems in one task."""
    logs = [log_of("base", base, **about), log_of("tuned", tuned, **about)]
    return Drawn(logs, {}, lambda claim: scale * gain)


def few(rng: np.random.Generator, gain: float) -> Drawn:
    """As `pair`, with 40 rows."""
    return pair(rng, gain, 40)


def graded(rng: np.random.Generator, gain: float) -> Drawn:
    """Values from 0 to 1, most of them low, such as ROUGE."""
    base, tuned = (rng.beta(1, 1 / mean - 1, 200) for mean in (0.2, 0.2 + gain))
    return two(base, tuned, gain)


def ratings(rng: np.random.Generator, gain: float) -> Drawn:
    """Ratings of 80 rows whose differences are skewed, in their own unit."""
    base = rng.integers(1, 11, 80).astype(float)
    return two(base, base + rng.exponential(2, 80) - 2 + 10 * gain, 10 * gain, scale=1)


@functools.cache
def _mean_chance(gain: float) -> float:
    """The mean over passages."""
    return float(np.clip(0.4 + gain + np.random.default_rng(99).normal(0, 0.25, 5_000_000), 0, 1).mean())


def clusters(rng: np.random.Generator, gain: float) -> Drawn:
    """Rows of 60 passages, one to nine of each, which are alike easy for each system."""
    of = np.repeat(np.arange(60), rng.integers(1, 10, 60))
    base, tuned = (right(rng, np.clip(0.4 + shift + rng.normal(0, 0.25, 60), 0, 1)[of]) for shift in (0.0, gain))
    return two(base, tuned, _mean_chance(gain) - _mean_chance(0.0), clusters=of)


def repeats(rng: np.random.Generator, gain: float) -> Drawn:
    """Four samples of each of 100 rows."""
    chance = ease(rng, 100)
    base, tuned = (right(rng, np.repeat((chance + shift)[:, None], 4, axis=1)) for shift in (0.0, gain))
    return two(base, tuned, gain)


def missing(rng: np.random.Generator, gain: float) -> Drawn:
    """Hard rows time out, and more often those of one system; the truth is that of all rows."""
    chance = ease(rng, 300)
    base, tuned = right(rng, chance), right(rng, chance + gain)
    base[(rng.random(300) < 0.1) & (chance < 0.4)] = math.nan
    tuned[(rng.random(300) < 0.2) & (tuned == 0)] = math.nan
    return two(base, tuned, gain)


def groups(rng: np.random.Generator, gain: float, by_size: bool = True) -> Drawn:
    """A group of five tasks of 20 to 200 rows; the gain is in the largest task alone, so weights matter."""
    sizes = np.array([20, 40, 60, 80, 200])
    gains = np.array([0.0, 0.0, 0.0, 0.0, gain])
    logs = []
    for task, (n, more) in enumerate(zip(sizes, gains, strict=True)):
        chance = ease(rng, int(n))
        for system, shift in (("base", 0.0), ("tuned", more)):
            logs.append(log_of(system, right(rng, chance + shift), f"t{task}", groups={"group": by_size}))
    weights = sizes / sizes.sum() if by_size else np.full(5, 0.2)
    true = {f"t{task}": float(more) for task, more in enumerate(gains)} | {"group": float(weights @ gains)}
    return Drawn(logs, {}, lambda claim: 100 * true[claim.task or ""])


def equal_groups(rng: np.random.Generator, gain: float) -> Drawn:
    """The same, each task counting once."""
    return groups(rng, gain, by_size=False)


def seeds(rng: np.random.Generator, gain: float) -> Drawn:
    """Five trainings of one system, which differ, beside one base."""
    chance = ease(rng, 300)
    logs = [log_of("base", right(rng, chance))]
    for seed in range(5):
        shift = gain + rng.normal(0, 0.03)
        logs.append(log_of("tuned", right(rng, np.clip(chance + shift, 0, 1)), seed=seed))
    return Drawn(logs, {"seeds": r"s(?P<seed>\d)/"}, lambda claim: 100 * gain)


def many_tasks(rng: np.random.Generator, gain: float) -> Drawn:
    """Eight tasks; the gain is in the first."""
    logs = []
    for task in range(8):
        chance = ease(rng, 150)
        for system in ("base", "tuned"):
            more = gain * (task == 0) * (system == "tuned")
            logs.append(log_of(system, right(rng, chance + more), f"t{task}"))
    return Drawn(logs, {}, lambda claim: 100 * gain * (claim.task == "t0"))


def many_systems(rng: np.random.Generator, gain: float) -> Drawn:
    """Six systems, every two compared; the last one is better by the gain."""
    chance = ease(rng, 200)
    logs = [log_of(f"s{place}", right(rng, chance + gain * (place == 5))) for place in range(6)]

    def truth(claim: Claim) -> float:
        return 100 * gain * ((claim.candidate == "s5") - (claim.baseline == "s5"))

    return Drawn(logs, {"all_pairs": True}, truth)


WORLDS = (pair, few, graded, ratings, clusters, repeats, missing, groups, equal_groups, seeds, many_tasks, many_systems)
GAIN = 0.1


class Result(NamedTuple):
    """What claims of a world do: shares of the runs, and of the intervals."""

    world: str
    covered: float
    simultaneous: float | None
    false: float
    found: float
    error: float


def run_world(world: Callable[[np.random.Generator, float], Drawn], runs: int, seed: int = 0) -> Result:
    """Coverage with a gain and without, false claims of any kind, and how often a true difference is claimed."""
    rng = np.random.default_rng(seed)
    intervals: list[bool] = []
    together: list[bool] = []
    false = found = 0
    for _ in range(runs):
        for gain in (0.0, GAIN):
            drawn = world(rng, gain)
            compared = compare_logs(drawn.logs, **drawn.arguments)
            wrong = right_claims = 0
            all_hold = True
            for claim in compared.main:
                true = drawn.truth(claim)
                if claim.interval:
                    intervals.append(claim.interval[0] <= true <= claim.interval[1])
                if wide := claim.params.get("simultaneous"):
                    all_hold &= wide[0] <= true <= wide[1]
                said = {"candidate": 1, "baseline": -1}.get(str(claim.finding), 0)
                wrong += said != 0 and said != np.sign(true)
                right_claims += said != 0 and said == np.sign(true)
            false += bool(wrong) and gain == 0
            found += bool(right_claims) and gain > 0
            if drawn.arguments.get("all_pairs"):
                together.append(all_hold)
    return Result(
        world.__name__,
        float(np.mean(intervals)),
        float(np.mean(together)) if together else None,
        false / runs,
        found / runs,
        math.sqrt(0.05 * 0.95 / runs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--world", action="append", choices=[world.__name__ for world in WORLDS])
    arguments = parser.parse_args()
    print("| world | intervals cover | all at once | claims of no difference | true difference found |")
    print("|---|---:|---:|---:|---:|")
    for world in WORLDS:
        if arguments.world and world.__name__ not in arguments.world:
            continue
        result = run_world(world, arguments.runs)
        together = "" if result.simultaneous is None else f"{100 * result.simultaneous:.1f} %"
        false = f"{100 * result.false:.1f} % (± {100 * result.error:.1f})"
        print(f"| {result.world} | {100 * result.covered:.1f} % | {together} | {false} | {100 * result.found:.0f} % |")


if __name__ == "__main__":
    main()
