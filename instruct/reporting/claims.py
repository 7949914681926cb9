"""What is said of several comparisons: over training seeds, by panels of judges, in pairs; and which findings hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from instruct.analysis.claims import LEAST_SEEDS, agreeing_interval, enough_decided, finding_of, holm
from instruct.analysis.inference import paired_difference
from instruct.analysis.outcomes import PairResult, Policy
from instruct.analysis.panel import agreements, majority, votes
from instruct.analysis.results import Paired, SeedSpread, Sequential
from instruct.analysis.seeds import seed_spread
from instruct.analysis.sequential import sequential
from instruct.analysis.statistics import tally_pairs
from instruct.reporting.comparison import leading_figures, significance, stop_rule
from instruct.reporting.model import ComparisonReport, Panel, ReportData, recorded
from instruct.reporting.read import Judged, in_conversations
from instruct.training.options import without_seed


def settle(report: ReportData) -> None:
    """Set every finding by its test, corrected for all claims of the judge, and make the interval agree with it.

    Systems trained with several seeds claim over all of them; the comparisons of single seeds are detail, and corrected
    among themselves. The majorities of panels are corrected like the claims of one judge.
    """
    for judge in report.judges:
        alone = [comparison for comparison in judge.comparisons if not comparison.spread]
        _settle_together([*(spread for spread in report.seeds if spread.judge == judge.name), *alone])
        _settle_together([comparison for comparison in judge.comparisons if comparison.spread])
    for one_seed in (False, True):
        _settle_together([panel for panel in report.panels if panel.one_seed == one_seed])


def _settle_together(claims: Sequence[SeedSpread | ComparisonReport | Panel]) -> None:
    tests = [(claim, claim if isinstance(claim, SeedSpread) else claim.significance) for claim in claims]
    tested = [(claim, test) for claim, test in tests if test]  # a majority of an older report has no test
    made = sum(test.p is not None for _, test in tested)
    for (claim, test), adjusted in zip(tested, holm([test.p for _, test in tested]), strict=True):
        test.adjusted_p, test.claims = adjusted, made
        if isinstance(claim, SeedSpread):
            claim.finding = finding_of(adjusted, claim.mean, len(claim.seeds) >= LEAST_SEEDS)
            claim.interval_both = agreeing_interval(claim.interval_both, claim.finding)
        else:
            figures = claim.leading_figures
            graded = figures.interval if figures.graded else None
            units = figures.n_judged if figures.conversations is None else figures.conversations
            enough = enough_decided(figures.win, figures.loss, units)
            figures.finding = finding_of(adjusted, figures.win_rate, enough, graded)
            figures.interval = agreeing_interval(figures.interval, figures.finding)


def seeds_of(config: Mapping[str, Any]) -> dict[str, int]:
    """The training seed of each system that has one of its own."""
    systems = (config.get("systems") or {}).items()
    return {name: system["seed"] for name, system in systems if system.get("seed") is not None}


def seed_spreads(compared: Iterable[tuple[Judged, ComparisonReport]], seeds: Mapping[str, int]) -> list[SeedSpread]:
    """For every comparison that a judge made with several seeds, the win rates and their spread.

    Seed is paired with seed: a comparison of systems with different seeds belongs to none. Nor does one without any
    verdict, or one that a different policy leads.

    Args:
        seeds: by system, see `seeds_of`.
    """
    groups: dict[tuple[str, ...], dict[int, tuple[float, Mapping[str, float | None]]]] = {}
    for judged, comparison in compared:
        judge, *names = judged.key
        rate = comparison.leading_figures.win_rate
        different = {seeds[name] for name in names if name in seeds}
        if rate is not None and len(different) == 1:
            (seed,) = different
            systems = (without_seed(name, seed) for name in names)
            groups.setdefault((judge, judged.leading, *systems), {})[seed] = rate, judged.scores()
    spreads = []
    for (judge, policy, candidate, baseline), by_seed in groups.items():
        if len(by_seed) > 1:
            ordered = sorted(by_seed)
            rates, scores = zip(*(by_seed[seed] for seed in ordered), strict=True)
            spread = seed_spread(rates, scores)
            about = {"judge": judge, "policy": policy, "candidate": candidate, "baseline": baseline}
            spreads.append(recorded(SeedSpread, spread, **about, seeds=ordered, win_rates=list(rates), p=spread.p))
    return spreads


def paired(found: Sequence[Judged], seeds: Mapping[str, int]) -> list[Paired]:
    """For every two candidates that a judge compared with one baseline, the difference of their win rates.

    Under the policy that leads for both, or `single` if different policies lead. Systems trained with different seeds
    are not paired: seed_spreads shows what a seed changes.
    """
    rows = []
    for one, other in itertools.combinations(found, 2):
        (judge, first, baseline), (another, second, other_baseline) = one.key, other.key
        if (judge, baseline) != (another, other_baseline) or len({seeds.get(first), seeds.get(second)} - {None}) > 1:
            continue
        policy: Policy = one.leading if one.leading == other.leading else "single"
        difference = paired_difference(one.scores(policy), other.scores(policy))
        names = {"judge": judge, "policy": policy, "first": first, "second": second, "baseline": baseline}
        rows.append(recorded(Paired, difference, **names, p=difference.p))
    return rows


def panels_of(found: Sequence[Judged]) -> list[Panel]:
    """Who voted, how they agree, and the majority of each panel: several judges of one comparison and the same sets."""
    members: dict[tuple[str, ...], list[Judged]] = {}
    for judged in found:
        members.setdefault((*judged.key[1:], *judged.eval_sets), []).append(judged)
    panels = []
    for (candidate, baseline, *_), panel in members.items():
        outcomes = {judged.key.judge: {pair.instruction: pair.outcome for pair in judged.pairs} for judged in panel}
        identical = {pair.instruction for judged in panel for pair in judged.pairs if pair.tie == "identical"}
        voted = votes(outcomes, identical)
        if sum(map(bool, voted.values())) < 2:
            continue
        together = {pair: name for judged in panel for pair, name in judged.conversations.items()}
        most = in_conversations(majority(outcomes, identical), together)
        looked, counts = _sequential(panel, most), tally_pairs(most)
        panels.append(
            Panel(
                candidate=candidate,
                baseline=baseline,
                policies={judged.key.judge: judged.leading for judged in panel},
                votes=voted,
                agreements=agreements({name: outcomes[name] for name in voted if voted[name]}, identical),
                majority=leading_figures(counts, looked),
                significance=significance(counts, looked),
            )
        )
    return panels


def _sequential(panel: Sequence[Judged], most: Sequence[PairResult]) -> Sequential | None:
    """The confidence sequence of a panel with members that were to stop early, over the pairs that all of these judged.

    A majority over pairs whose number was chosen by its own votes must not be tested as if it had been fixed.
    """
    early = [(judged, rule) for judged in panel if (rule := stop_rule(judged))]
    if not early:
        return None
    seen = set.intersection(*({pair.instruction for pair in judged.pairs} for judged, _ in early))
    ours = panel[0].sides[0]
    pairs = set(ours.by_pair) if ours else {pair.instruction for pair in most}
    return sequential([pair for pair in most if pair.instruction in seen], pairs, early[0][1])
