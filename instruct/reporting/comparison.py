"""One comparison's figures, from its pair results and from what the run says about how they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from instruct.analysis import results
from instruct.analysis.claims import agreeing_interval
from instruct.analysis.inference import power, sign_flip_test, sign_test
from instruct.analysis.lengths import LEAST_GROUP, Scored, length_figures, length_warning
from instruct.analysis.outcomes import ASKED_AGAIN, UNKNOWN_ORDER, PairResult
from instruct.analysis.sequential import StopRule, claim_p, sequential
from instruct.analysis.statistics import Tally, position_statistics, tally_pairs
from instruct.analysis.style import style_control, style_counts, style_features
from instruct.base.errors import counted
from instruct.data.evaluation import turn_of
from instruct.judging.store import Judgment
from instruct.reporting import model
from instruct.reporting.human_labels import with_labels
from instruct.reporting.length_control import Difficulty, length_control
from instruct.reporting.model import (
    ComparisonReport,
    ReportWarning,
    TallyFigures,
    claim_warning,
    note_warning,
    recorded,
)
from instruct.reporting.provenance import lineage_warnings
from instruct.reporting.read import Judged, RunContents

# A server's words may differ from reply to reply: beyond this many reasons the rest is one line.
_MOST_REASONS = 20


def comparison_figures(contents: RunContents, judged: Judged, difficulty: Difficulty | None) -> ComparisonReport:
    """What report.json holds about one comparison, with the warnings about how its verdicts were made."""
    judgments, card, recorded_results = judged.judgments, judged.card, judged.step.get("results", {})
    times = Counter(judgment.instruction for judgment in judgments)
    shown = max(times.values())
    wanted = judged.prompts or times.keys()
    complete = sum(times[instruction] == shown for instruction in wanted)
    rule, stopped = stop_rule(judged), recorded_results.get("stopped")
    looked = sequential(judged.pairs, wanted, rule) if rule else None
    unfinished = complete < len(wanted) and not (looked and looked.met)
    ratings, counts = _ratings(judgments), tally_pairs(judged.pairs)
    alone = card.rates_alone if card else bool(ratings) and shown == 1
    position = position_statistics(() if alone else judgments)
    policies: dict[str, TallyFigures] = {judged.leading: leading_figures(counts, looked)}
    for policy, pairs in judged.by_policy.items():
        if policy != judged.leading:
            policies[policy] = tally_figures(tally_pairs(pairs))
    length, style = _length_and_style(judged)
    controlled, doubts = length_control(judged, difficulty)
    people, cautions = with_labels(judged, contents.labels)
    figures = ComparisonReport(
        candidate=judged.key.candidate,
        baseline=judged.key.baseline,
        leading=judged.leading,
        policies=policies,
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
        warnings=[],
    )
    figures.warnings = [
        *_doubts(judged, figures, times),
        *map(claim_warning, lineage_warnings(contents.run, contents.manifest, card, judged.step)),
        *map(claim_warning, doubts),
        *_identical(judged),
        *map(claim_warning, cautions),
    ]
    return figures


def _notes_on_file(judged: Judged) -> Iterator[str]:
    if judged.imported:
        yield "these verdicts were read from a file, not made in this run"
    if unknown := sum(judgment.reason == UNKNOWN_ORDER for judgment in judged.judgments):
        yield f"{UNKNOWN_ORDER}: {counted(unknown, 'verdict')} left out of the figures about positions"


def _doubts(judged: Judged, figures: ComparisonReport, times: Counter[str]) -> Iterator[ReportWarning]:
    """What a reader must know about the verdicts; `times`: how often each pair was shown."""
    card, both = judged.card, max(times.values()) == 2
    if figures.partial:
        yield claim_warning(
            f"PARTIAL: judging has not finished{f' ({figures.stopped})' if figures.stopped else ''}: "
            f"{figures.pairs_judged} of {counted(figures.pairs_expected, 'pair')} judged{' in both orders' * both}; "
            "rerun the judge command to resume"
        )
    if judged.prompts and (unknown := len(times.keys() - judged.prompts)):
        yield claim_warning(f"{counted(unknown, 'verdict')} on prompts that are not among the candidate's answers")
    if card and figures.orders != "alone" and judged.leading != card.leading_policy:
        yield claim_warning(
            f"the judge's card puts the policy {card.leading_policy} first, which needs both orders; "
            "the pairs were shown in one"
        )
    if figures.trimmed:
        pairs = counted(len(times), "pair")
        yield note_warning(f"the answers of {figures.trimmed} of {pairs} were trimmed to fit the judge's context")
    if again := sum(judgment.reason == ASKED_AGAIN for judgment in judged.judgments):
        yield claim_warning(_first_asking(judged, again))
    if figures.length and (warning := length_warning(figures.length)):
        yield claim_warning(warning)


def _first_asking(judged: Judged, again: int) -> str:
    """What the win rate is without the verdicts that were read only when the judge was asked again."""
    first = [
        replace(judgment, verdict="unparsed", preference=None, ratings=None)
        if judgment.reason == ASKED_AGAIN
        else judgment
        for judgment in judged.judgments
    ]
    counts = tally_pairs(judged.results(first).get(judged.leading, []))
    rate = "none" if counts.win_rate is None else f"{counts.win_rate:.1f} %"
    return (
        f"{counted(again, 'verdict')} could be read only when the judge was asked again; by its first replies alone "
        f"the win rate is {rate} (n = {counts.n_judged})"
    )


def _identical(judged: Judged) -> Iterator[ReportWarning]:
    """Verdicts that another tool made may prefer one of two identical answers."""
    outputs = [{pair: row["output"] for pair, row in side.by_pair.items()} if side else {} for side in judged.sides]
    same = dict(outputs[0].items() & outputs[1].items())
    if preferred := sum(pair.instruction in same and pair.outcome in ("win", "loss") for pair in judged.pairs):
        remedy = "" if judged.imported else "; `instruct judge --reparse` makes them ties"
        yield note_warning(f"{counted(preferred, 'verdict')} for one of two identical answers{remedy}")


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
