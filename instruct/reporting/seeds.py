"""What training seeds change: the comparisons that were made once for each seed, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from instruct.analysis.results import SeedSpread
from instruct.analysis.seeds import seed_spread
from instruct.reporting.comparison import Outcomes, recorded
from instruct.reporting.model import JudgeReport
from instruct.training.options import without_seed


def seeds_of(config: Mapping[str, Any]) -> dict[str, int]:
    """The training seed of each system that has one of its own."""
    systems = (config.get("systems") or {}).items()
    return {name: system["seed"] for name, system in systems if system.get("seed") is not None}


def seed_spreads(
    judges: Iterable[JudgeReport], found: Sequence[Outcomes], seeds: Mapping[str, int]
) -> list[SeedSpread]:
    """For every comparison that a judge made with several seeds, the win rates and their spread.

    Seed is paired with seed: a comparison of systems with different seeds belongs to none. Nor does one without any
    verdict, or one that a different policy leads.

    Args:
        seeds: by system, see `seeds_of`.
    """
    outcomes = {each.judged.key: each for each in found}
    groups: dict[tuple[str, str, str, str], dict[int, tuple[float, Mapping[str, float | None]]]] = {}
    for judge in judges:
        for comparison in judge.comparisons:
            names, rate = (comparison.candidate, comparison.baseline), comparison.leading_figures.win_rate
            different = {seeds[name] for name in names if name in seeds}
            if rate is None or len(different) != 1:
                continue
            (seed,) = different
            candidate, baseline = (without_seed(name, seed) for name in names)
            made = outcomes[(judge.name, *names)]  # type: ignore[index]
            by_seed = groups.setdefault((judge.name, candidate, baseline, made.leading), {})
            by_seed[seed] = rate, made.scores(made.leading)
    return [_spread(*names, dict(sorted(by_seed.items()))) for names, by_seed in groups.items() if len(by_seed) > 1]


def _spread(
    judge: str, candidate: str, baseline: str, policy: str, by_seed: Mapping[int, tuple[float, Mapping[str, Any]]]
) -> SeedSpread:
    rates = [rate for rate, _ in by_seed.values()]
    spread = seed_spread(rates, [scores for _, scores in by_seed.values()])
    names = {"judge": judge, "policy": policy, "candidate": candidate, "baseline": baseline}
    claimed = {"p": spread.p, "adjusted_p": None, "claims": 1, "finding": "no difference"}
    return recorded(SeedSpread, spread, **names, **claimed, seeds=list(by_seed), win_rates=rates)
