"""Comparisons: the figures of each one, from its pair results and from what the run says about how they were made; what
is said of several, over training seeds, by several judges, in pairs; and which findings hold.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from instruct.analysis import results
from instruct.analysis.agreement import READABLE, agreements
from instruct.analysis.outcomes import UNKNOWN_ORDER, PairResult, Policy, position_statistics
from instruct.analysis.results import SINGLE_SEEDS
from instruct.analysis.style import Scored, length_figures, style_control, style_counts, style_features
from instruct.base.errors import counted
from instruct.base.replies import PROMPT_CUT
from instruct.data.prompts import turn_of
from instruct.judging.store import Judgment
from instruct.reporting import model
from instruct.reporting.cautions import identical_warnings
from instruct.reporting.human_labels import with_labels
from instruct.reporting.length_control import Difficulty, length_control
from instruct.reporting.model import (
    ComparisonReport,
    Panel,
    ReportData,
    claim_warning,
)
from instruct.reporting.read import Judged, RunContents
from instruct.scores import samples
from instruct.scores.claims import claim_of
from instruct.training.options import without_seed

# A server's words may differ from reply to reply: beyond this many reasons the rest is one line.
_MOST_REASONS = 20
# The pairs of a data set have a rate of their own from this many on.
_LEAST_PART = 5
# The families of claims that verdicts make.
VERDICTS, LABELS = "verdicts", "labels"


def comparison_figures(contents: RunContents, judged: Judged, difficulty: Difficulty | None) -> ComparisonReport:
    """What report.json holds about one comparison, with the warnings about how its verdicts were made."""
    judgments, card, recorded_results = judged.judgments, judged.card, judged.step.get("results", {})
    shown = max(judged.times.values())
    wanted = judged.prompts or judged.times.keys()
    complete = sum(judged.times[instruction] == shown for instruction in wanted)
    stopped = recorded_results.get("stopped")
    ratings = _ratings(judgments)
    alone = card.rates_alone if card else bool(ratings) and shown == 1
    position = position_statistics(() if alone else judgments)
    strict = judged.by_policy.get("strict") if judged.leading != "strict" else None
    names = judged.key._asdict()
    length, style = _length_and_style(judged)
    controlled, doubts = length_control(judged, difficulty)
    people, cautions = with_labels(judged, contents.labels)
    notes = [*(recorded_results.get("notes") or []), *_notes_on_file(judged)]
    cautions += [note for note in notes if PROMPT_CUT in note]
    return ComparisonReport(
        candidate=judged.key.candidate,
        baseline=judged.key.baseline,
        claim=claim_of(samples.match(judged.pairs), measure=results.WIN_RATE, policy=judged.leading, **names),
        strict=claim_of(samples.match(strict), measure=results.WIN_RATE, policy="strict", **names) if strict else None,
        orders="alone" if alone else "both" if shown == 2 else "one",
        pairs_judged=complete,
        pairs_expected=len(wanted),
        partial=bool(stopped) or judged.step.get("status") in ("started", "stopped") or complete < len(wanted),
        stopped=stopped,
        consistency=results.rounded(position.consistency),
        consistency_n=position.in_both,
        first_position_rate=results.rounded(position.first_position_rate),
        first_position_n=position.decided,
        ratings=ratings,
        reasons=_reasons(judgments),
        trimmed=len({judgment.instruction for judgment in judgments if judgment.trimmed}),
        length=length,
        length_control=controlled,
        style=style,
        parts=_parts(judged.pairs),
        with_labels=people,
        requests=len({key for judgment in judgments for key in judgment.key.split()}),
        notes=[note for note in notes if PROMPT_CUT not in note],
        warnings=[*map(claim_warning, doubts), *identical_warnings(judged), *map(claim_warning, cautions)],
    )


def _notes_on_file(judged: Judged) -> Iterator[str]:
    if judged.imported:
        yield "these verdicts were read from a file, not made in this run"
    if unknown := sum(judgment.reason == UNKNOWN_ORDER for judgment in judged.judgments):
        yield f"{UNKNOWN_ORDER}: {counted(unknown, 'verdict')} left out of the figures about positions"


def _length_and_style(judged: Judged) -> tuple[results.LengthFigures | None, results.StyleControl | None]:
    """Over the pairs with a verdict and both answers."""
    styles = [
        {pair: style_counts(str(row["output"])) for pair, row in side.by_pair.items() if not row.get("failed")}
        if side
        else {}
        for side in judged.sides
    ]
    rows = [
        (pair.score, pair.weight, pair.unit, *(side[pair.instruction] for side in styles))
        for pair in judged.pairs
        if pair.score is not None and all(pair.instruction in side for side in styles)
    ]
    if not rows:
        return None, None
    scores, weights, names, ours, theirs = map(np.array, zip(*rows, strict=True))
    scored = Scored(scores, weights, np.unique(names, return_inverse=True)[1])
    return length_figures(scored, ours[:, 0], theirs[:, 0]), style_control(scored, style_features(ours, theirs))


def _parts(pairs: Iterable[PairResult]) -> list[results.Part]:
    """One for each data set, in the order of the pairs, with a rate if it is of enough pairs."""
    datasets: dict[str, list[PairResult]] = {}
    for pair in pairs:
        datasets.setdefault(pair.dataset, []).append(pair)
    return [_part(dataset, samples.match(inside)) for dataset, inside in datasets.items()]


def _part(dataset: str, sample: samples.Sample) -> results.Part:
    claim, counts = claim_of(sample, measure=results.WIN_RATE, candidate="", baseline=""), sample.counts
    assert counts is not None
    enough = sample.n >= _LEAST_PART
    return results.Part(
        dataset=dataset,
        n=counts.n,
        win=counts.win,
        tie=counts.tie,
        loss=counts.loss,
        unread=counts.unread,
        win_rate=claim.value if enough else None,
        interval=claim.interval if enough else None,
    )


def _ratings(judgments: Iterable[Judgment]) -> model.Ratings | None:
    """Mean ratings, over both orders if there are two, and those of each turn of conversations."""
    rated = [judgment for judgment in judgments if judgment.ratings is not None]
    if not rated:
        return None
    by_turn: dict[int, list[Judgment]] = {}
    for judgment in rated:
        if turn := turn_of(judgment.instruction):
            by_turn.setdefault(turn[1], []).append(judgment)
    return _mean_ratings(rated).model_copy(update={"turns": [_mean_ratings(by_turn[turn]) for turn in sorted(by_turn)]})


def _mean_ratings(rated: Sequence[Judgment]) -> model.Ratings:
    """The first of two ratings is the candidate's if `position` is first."""
    sides = [judgment.ratings[:: 1 if judgment.position == "first" else -1] for judgment in rated if judgment.ratings]
    candidate, baseline = (round(sum(side) / len(rated), 6) for side in zip(*sides, strict=True))
    return model.Ratings(candidate=candidate, baseline=baseline, n=len({judgment.instruction for judgment in rated}))


def _reasons(judgments: Iterable[Judgment]) -> list[model.ReasonCount]:
    """Why there is no verdict, or one without a request; the most frequent first."""
    unexplained = {"unparsed": "no reason recorded", "failed": "no reason recorded"}
    counts = Counter(
        (judgment.verdict, reason)
        for judgment in judgments
        if judgment.reason != UNKNOWN_ORDER and (reason := judgment.reason or unexplained.get(judgment.verdict))
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest: Counter[str] = Counter()
    for (verdict, _), n in ranked[_MOST_REASONS:]:
        rest[verdict] += n
    others = [((verdict, "other reasons"), n) for verdict, n in sorted(rest.items())]
    return [
        model.ReasonCount(verdict=verdict, reason=reason, n=n)
        for (verdict, reason), n in [*ranked[:_MOST_REASONS], *others]
    ]


def seed_claims(
    compared: Iterable[tuple[Judged, ComparisonReport]], seeds: Mapping[str, int], elsewhere: Collection[str] = ()
) -> list[results.Claim]:
    """For every comparison that a judge made with several seeds, the mean of the win rates over the prompts that have a
    verdict for every seed; interval and p hold for all prompts, whatever the missing verdicts would have been.

    Seed is paired with seed: a comparison of systems with different seeds belongs to none. Nor does one without any
    verdict, or one that a different policy leads.

    Args:
        seeds: by system, see `seeds_of`.
        elsewhere: systems that were trained elsewhere; one without a seed is one training beside every seed.
    """
    arms = {without_seed(name, seeds.get(name)) for name in elsewhere}
    groups: dict[tuple[str, ...], dict[int, list[PairResult]]] = {}
    for judged, comparison in compared:
        judge, *names = judged.key
        pairs = judged.pairs
        different = {seeds[name] for name in names if name in seeds}
        if comparison.claim.value is not None and len(different) == 1:
            (seed,) = different
            systems = [without_seed(name, seed) for name in names]
            if (judge, judged.leading, *reversed(systems)) in groups:
                pairs, systems = [pair.mirrored for pair in pairs], systems[::-1]
            groups.setdefault((judge, judged.leading, *systems), {})[seed] = pairs
    claims = []
    for (judge, policy, candidate, baseline), by_seed in groups.items():
        if len(by_seed) < 2:
            continue
        ordered, about = sorted(by_seed), {candidate, baseline} & arms
        number = 1 if about & {*elsewhere} else len(ordered)
        sample = samples.match_over_seeds({seed: by_seed[seed] for seed in ordered}, trainings=number)
        claim = claim_of(
            sample, measure=results.WIN_RATE, candidate=candidate, baseline=baseline, judge=judge, policy=policy
        )
        claim.params |= {results.ELSEWHERE: True} if about else {}
        claims.append(claim)
    return claims


def paired(comparisons: Sequence[Judged], seeds: Mapping[str, int]) -> list[results.Claim]:
    """For every two systems that a judge compared with a third, not with each other, the difference of their win rates.

    The third one is a baseline, or any system if one of them stands on both sides. Under the policy that leads for
    both, or `single` if different policies lead. Systems trained with different seeds are not paired: seed_claims
    shows what a seed changes.
    """
    claims = []
    directly = {(judged.key.judge, frozenset(judged.key[1:])) for judged in comparisons}
    candidates, baselines = ({(judged.key.judge, judged.key[side]) for judged in comparisons} for side in (1, 2))
    crossing = {judge for judge, _ in candidates & baselines}
    for one, other in itertools.combinations(comparisons, 2):
        judge = one.key.judge
        common = set(one.key[1:]) & set(other.key[1:])
        if judge not in crossing:
            common &= {one.key.baseline, other.key.baseline}
        if judge != other.key.judge or len(common) != 1:
            continue
        (through,) = common
        first, second = (next(iter({*judged.key[1:]} - common), through) for judged in (one, other))
        if (judge, frozenset((first, second))) in directly or len({seeds.get(first), seeds.get(second)} - {None}) > 1:
            continue
        policy: Policy = one.leading if one.leading == other.leading else "single"
        ours, theirs = (
            [pair if judged.key.baseline == through else pair.mirrored for pair in judged.by_policy[policy]]
            for judged in (one, other)
        )
        sample = samples.difference_of_matches(ours, theirs)
        about: dict[str, Any] = {"candidate": first, "baseline": second, "through": through, "judge": judge}
        about |= {"policy": policy, "family": "through"}
        claims.append(claim_of(sample, measure="difference of win rates", **about))
    return claims


def panels_of(comparisons: Sequence[Judged]) -> list[Panel]:
    """How several judges of one comparison agree; one without a verdict on two different answers is left out."""
    members: dict[tuple[str, ...], list[Judged]] = {}
    for judged in comparisons:
        names = judged.key[1:]
        if (*reversed(names),) in members:
            names = names[::-1]
        members.setdefault((*names,), []).append(judged)
    panels = []
    for (candidate, baseline), panel in members.items():
        outcomes = {
            judged.key.judge: {
                pair.instruction: (pair if judged.key.candidate == candidate else pair.mirrored).outcome
                for pair in judged.pairs
            }
            for judged in panel
        }
        identical = {pair.instruction for judged in panel for pair in judged.pairs if pair.tie == "identical"}
        voted = {
            judge: by_pair
            for judge, by_pair in outcomes.items()
            if any(outcome in READABLE and pair not in identical for pair, outcome in by_pair.items())
        }
        if len(voted) < 2:
            continue
        panels.append(
            Panel(
                candidate=candidate,
                baseline=baseline,
                policies={judged.key.judge: judged.leading for judged in panel if judged.key.judge in voted},
                agreements=agreements(voted, identical),
            )
        )
    return panels


def put_into_families(report: ReportData) -> Iterator[results.Claim]:
    """All claims of a report, those of judges with the family that they are corrected in.

    Systems trained with several seeds claim over all of them; the comparisons of single seeds are detail, and corrected
    among themselves. All judges are corrected together: of several judges that see no difference one may seem to. So
    are the estimates with people's labels, among themselves. Figures under a policy that does not lead belong to no
    family.
    """
    for claim in report.seeds:
        claim.family = VERDICTS
    yield from report.claims
    for judge in report.judges:
        for comparison in judge.comparisons:
            comparison.claim.family = SINGLE_SEEDS if report.over_seeds(comparison.claim) else VERDICTS
            yield comparison.claim
            if comparison.strict:
                yield comparison.strict
            if comparison.with_labels:
                comparison.with_labels.claim.family = LABELS
                yield comparison.with_labels.claim
