"""Comparisons: the figures of each one, from its pair results and from what the run says about how they were made; what
is said of several, over training seeds, by panels of judges, in pairs; and which findings hold.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from instruct.analysis import results
from instruct.analysis.claims import LEAST_SEEDS, agreeing_interval, enough_decided, finding_of, holm
from instruct.analysis.inference import paired_difference, power, sign_flip_test, sign_test
from instruct.analysis.lengths import LEAST_GROUP, Scored, length_figures
from instruct.analysis.outcomes import UNKNOWN_ORDER, PairResult, Policy, mirrored_scores
from instruct.analysis.panel import agreements, majority, votes
from instruct.analysis.seeds import seed_spread
from instruct.analysis.sequential import StopRule, claim_p, sequential
from instruct.analysis.statistics import Tally, position_statistics, tally_pairs
from instruct.analysis.style import style_control, style_counts, style_features
from instruct.base.errors import counted
from instruct.data.prompts import turn_of
from instruct.judging.store import Judgment
from instruct.reporting import model
from instruct.reporting.cautions import identical_warnings
from instruct.reporting.human_labels import with_labels
from instruct.reporting.length_control import Difficulty, length_control
from instruct.reporting.model import ComparisonReport, Panel, ReportData, TallyFigures, claim_warning, recorded
from instruct.reporting.read import Judged, RunContents, in_conversations
from instruct.training.options import without_seed

# A server's words may differ from reply to reply: beyond this many reasons the rest is one line.
_MOST_REASONS = 20


def comparison_figures(contents: RunContents, judged: Judged, difficulty: Difficulty | None) -> ComparisonReport:
    """What report.json holds about one comparison, with the warnings about how its verdicts were made."""
    judgments, card, recorded_results = judged.judgments, judged.card, judged.step.get("results", {})
    shown = max(judged.times.values())
    wanted = judged.prompts or judged.times.keys()
    complete = sum(judged.times[instruction] == shown for instruction in wanted)
    rule, stopped = stop_rule(judged), recorded_results.get("stopped")
    looked = sequential(judged.pairs, wanted, rule) if rule else None
    unfinished = complete < len(wanted) and not (looked and looked.met)
    ratings, counts = _ratings(judgments), tally_pairs(judged.pairs)
    alone = card.rates_alone if card else bool(ratings) and shown == 1
    position = position_statistics(() if alone else judgments)
    others = {policy: pairs for policy, pairs in judged.by_policy.items() if policy != judged.leading}
    length, style = _length_and_style(judged)
    controlled, doubts = length_control(judged, difficulty)
    people, cautions = with_labels(judged, contents.labels)
    return ComparisonReport(
        candidate=judged.key.candidate,
        baseline=judged.key.baseline,
        leading=judged.leading,
        policies={
            judged.leading: leading_figures(counts, looked),
            **{policy: tally_figures(tally_pairs(pairs)) for policy, pairs in others.items()},
        },
        orders="alone" if alone else "both" if shown == 2 else "one",
        pairs_judged=complete,
        pairs_expected=len(wanted),
        partial=bool(stopped) or judged.step.get("status") in ("started", "stopped") or unfinished,
        stopped=stopped,
        consistency=results.rounded(position.consistency),
        consistency_n=position.in_both,
        first_position_rate=results.rounded(position.first_position_rate),
        first_position_n=position.decided,
        ratings=ratings,
        reasons=_reasons(judgments),
        trimmed=len({judgment.instruction for judgment in judgments if judgment.trimmed}),
        significance=significance(counts, looked),
        length=length,
        length_control=controlled,
        style=style,
        parts=_parts(judged.pairs),
        power=power(counts.values, counts.n_judged),
        sequential=looked,
        with_labels=people,
        noise=judged.noise,
        requests=len({key for one in (judgments, *judged.samples) for judgment in one for key in judgment.key.split()}),
        notes=[*(recorded_results.get("notes") or []), *_notes_on_file(judged)],
        warnings=[*map(claim_warning, doubts), *identical_warnings(judged), *map(claim_warning, cautions)],
    )


def _notes_on_file(judged: Judged) -> Iterator[str]:
    if judged.imported:
        yield "these verdicts were read from a file, not made in this run"
    if unknown := sum(judgment.reason == UNKNOWN_ORDER for judgment in judged.judgments):
        yield f"{UNKNOWN_ORDER}: {counted(unknown, 'verdict')} left out of the figures about positions"


def stop_rule(judged: Judged) -> StopRule | None:
    """When the judge was told to stop; None if it was to judge all pairs."""
    rule = judged.step.get("config", {}).get("stop_when")
    return StopRule.parse(rule) if rule else None


def leading_figures(counts: Tally, looked: results.Sequential | None) -> TallyFigures:
    """The figures that lead, whose finding and interval are settled together with the judge's other claims.

    If the verdicts decided when to stop, with the interval that is valid at every look.
    """
    figures = tally_figures(counts).model_copy(update={"interval": results.rounded(counts.interval)})
    if looked and looked.judged < looked.pairs:
        return figures.model_copy(update={"interval": looked.interval, "interval_method": "confidence sequence"})
    return figures


def tally_figures(counts: Tally) -> TallyFigures:
    """A tally as report.json holds it, its finding by its own test."""
    return recorded(
        TallyFigures,
        counts,
        kind="counted" if counts.scores is None else "weighted",
        conversations=None if counts.conversations is None else len(counts.conversations),
        interval=results.rounded(agreeing_interval(counts.interval, counts.finding)),
        interval_method="score",
    )


def significance(counts: Tally, looked: results.Sequential | None) -> results.Significance:
    """The tests of a claim, which is not yet corrected for the others; `looked` as in leading_figures."""
    flip, resamples = sign_flip_test(counts.values - 0.5)
    sign = None if counts.conversations is not None else sign_test(counts.win, counts.loss)
    p = flip if counts.graded else sign
    return results.Significance(
        sign_test=results.SignTest(p=sign, n=counts.win + counts.loss),
        permutation_test=results.PermutationTest(p=flip, resamples=resamples),
        p=claim_p(looked, p) if looked else p,
    )


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
    parts = [recorded(results.Part, tally_pairs(inside), dataset=dataset) for dataset, inside in datasets.items()]
    nothing = {"win_rate": None, "interval": None}
    return [part if part.n - part.unread >= LEAST_GROUP else part.model_copy(update=nothing) for part in parts]


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


def seed_spreads(
    compared: Iterable[tuple[Judged, ComparisonReport]], seeds: Mapping[str, int]
) -> list[results.SeedSpread]:
    """For every comparison that a judge made with several seeds, the win rates and their spread.

    Seed is paired with seed: a comparison of systems with different seeds belongs to none. Nor does one without any
    verdict, or one that a different policy leads.

    Args:
        seeds: by system, see `seeds_of`.
    """
    groups: dict[tuple[str, ...], dict[int, tuple[float, Mapping[str, float | None]]]] = {}
    for judged, comparison in compared:
        judge, *names = judged.key
        rate, by_pair = comparison.leading_figures.win_rate, judged.scores()
        different = {seeds[name] for name in names if name in seeds}
        if rate is not None and len(different) == 1:
            (seed,) = different
            systems = [without_seed(name, seed) for name in names]
            if (judge, judged.leading, *reversed(systems)) in groups:
                rate, by_pair, systems = 100 - rate, mirrored_scores(by_pair), systems[::-1]
            groups.setdefault((judge, judged.leading, *systems), {})[seed] = rate, by_pair
    spreads = []
    for (judge, policy, candidate, baseline), by_seed in groups.items():
        if len(by_seed) > 1:
            ordered = sorted(by_seed)
            rates, scores = zip(*(by_seed[seed] for seed in ordered), strict=True)
            spread = seed_spread(rates, scores)
            about = {"judge": judge, "policy": policy, "candidate": candidate, "baseline": baseline}
            spreads.append(
                recorded(results.SeedSpread, spread, **about, seeds=ordered, win_rates=list(rates), p=spread.p)
            )
    return spreads


def paired(comparisons: Sequence[Judged], seeds: Mapping[str, int]) -> list[results.Paired]:
    """For every two systems that a judge compared with a third, not with each other, the difference of their win rates.

    The third one is a baseline, or any system if one of them stands on both sides. Under the policy that leads for
    both, or `single` if different policies lead. Systems trained with different seeds are not paired: seed_spreads
    shows what a seed changes.
    """
    rows = []
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
        (baseline,) = common
        first, second = (next(iter({*judged.key[1:]} - common), baseline) for judged in (one, other))
        if (judge, frozenset((first, second))) in directly or len({seeds.get(first), seeds.get(second)} - {None}) > 1:
            continue
        policy: Policy = one.leading if one.leading == other.leading else "single"
        scores = [
            judged.scores(policy) if judged.key.baseline == baseline else mirrored_scores(judged.scores(policy))
            for judged in (one, other)
        ]
        difference = paired_difference(*scores)
        names = {"judge": judge, "policy": policy, "first": first, "second": second, "baseline": baseline}
        rows.append(recorded(results.Paired, difference, **names, p=difference.p))
    return rows


def panels_of(comparisons: Sequence[Judged]) -> list[Panel]:
    """Who voted, how they agree, and the majority of each panel: several judges of one comparison and the same sets."""
    members: dict[tuple[str, ...], list[Judged]] = {}
    for judged in comparisons:
        names = judged.key[1:]
        if (*reversed(names), *judged.eval_sets) in members:
            names = names[::-1]
        members.setdefault((*names, *judged.eval_sets), []).append(judged)
    panels = []
    for (candidate, baseline, *_), panel in members.items():
        outcomes = {
            judged.key.judge: {
                pair.instruction: (pair if judged.key.candidate == candidate else pair.mirrored).outcome
                for pair in judged.pairs
            }
            for judged in panel
        }
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


def _sequential(panel: Sequence[Judged], most: Sequence[PairResult]) -> results.Sequential | None:
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


def _settle_together(claims: Sequence[results.SeedSpread | ComparisonReport | Panel]) -> None:
    tests = [(claim, claim if isinstance(claim, results.SeedSpread) else claim.significance) for claim in claims]
    tested = [(claim, test) for claim, test in tests if test]  # a majority of an older report has no test
    made = sum(test.p is not None for _, test in tested)
    for (claim, test), adjusted in zip(tested, holm([test.p for _, test in tested]), strict=True):
        test.adjusted_p, test.claims = adjusted, made
        if isinstance(claim, results.SeedSpread):
            claim.finding = finding_of(adjusted, claim.mean, len(claim.seeds) >= LEAST_SEEDS)
            claim.interval_both = agreeing_interval(claim.interval_both, claim.finding)
        else:
            figures = claim.leading_figures
            graded = figures.interval if figures.graded else None
            units = figures.n_judged if figures.conversations is None else figures.conversations
            enough = enough_decided(figures.win, figures.loss, units)
            figures.finding = finding_of(adjusted, figures.win_rate, enough, graded)
            figures.interval = agreeing_interval(figures.interval, figures.finding)
