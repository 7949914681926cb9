"""One comparison's figures, from its pair results and from what the run says about how they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from instruct.analysis.claims import agreeing_interval
from instruct.analysis.inference import power, sign_flip_test, sign_test
from instruct.analysis.lengths import LEAST_GROUP, Scored, length_figures, length_warning
from instruct.analysis.outcomes import (
    ASKED_AGAIN,
    UNKNOWN_ORDER,
    PairResult,
    Policy,
    leading_policy,
    results_by_policy,
    unit_scores,
)
from instruct.analysis.results import (
    JudgeNoise,
    LengthFigures,
    Part,
    PermutationTest,
    Record,
    Sequential,
    Significance,
    SignTest,
    StyleControl,
    rounded,
)
from instruct.analysis.samples import judge_noise, mean_of_samples
from instruct.analysis.sequential import StopRule, claim_p, sequential
from instruct.analysis.statistics import Tally, position_statistics, tally_pairs
from instruct.analysis.style import style_control, style_features
from instruct.base.errors import counted
from instruct.data.evaluation import turn_of
from instruct.judging.store import Judgment
from instruct.reporting.model import (
    ComparisonReport,
    LengthControl,
    Ratings,
    ReasonCount,
    ReportWarning,
    TallyFigures,
    claim_warning,
    note_warning,
)
from instruct.reporting.read import Judged

Kind = TypeVar("Kind", bound=Record)
# The style_counts of each prompt's answer.
Styles = Mapping[str, tuple[int, ...]]

# A server's words may differ from reply to reply: beyond this many reasons the rest is one line.
_MOST_REASONS = 20


@dataclass(frozen=True)
class Outcomes:
    """A comparison's pair results under each policy, computed once; `leading` is the policy whose figures lead."""

    judged: Judged
    by_policy: dict[Policy, list[PairResult]]
    leading: Policy
    noise: JudgeNoise | None = None

    @property
    def pairs(self) -> list[PairResult]:
        """The results under the leading policy."""
        return self.by_policy[self.leading]

    def scores(self, policy: Policy) -> dict[str, float | None]:
        """The score of each conversation, or of each pair that is no turn of one by its instruction."""
        pairs = self.by_policy[policy]
        return {**dict.fromkeys(pair.unit for pair in pairs), **unit_scores(pairs)}


def outcomes_of(judged: Judged) -> Outcomes:
    """The results of a comparison's pairs; the card's policy leads if the pairs were shown in the orders it needs.

    Without a card the strict policy leads, and no author's rule is known.
    """
    card = judged.card
    rule = card.verdict.parser if card else None
    by_policy = results_by_policy(judged.judgments, rule, judged.margins)
    wanted: Policy = card.leading_policy if card else "strict"
    leading, noise = leading_policy(by_policy, wanted), None
    if judged.samples:
        further = [results_by_policy(sample, rule, judged.margins) for sample in judged.samples]
        every = {policy: [pairs, *(one.get(policy, []) for one in further)] for policy, pairs in by_policy.items()}
        noise = judge_noise(every[leading])
        by_policy = {policy: mean_of_samples(samples) for policy, samples in every.items()}
    by_policy = {policy: in_conversations(pairs, judged.conversations) for policy, pairs in by_policy.items()}
    return Outcomes(judged, by_policy, leading, noise)


def in_conversations(pairs: list[PairResult], conversations: Mapping[str, str]) -> list[PairResult]:
    """The pairs, of which some are turns of these conversations."""
    if not conversations:
        return pairs
    return [replace(pair, conversation=conversations.get(pair.instruction, "")) for pair in pairs]


def comparison_figures(
    outcomes: Outcomes,
    prompts: set[str] | None,
    styles: tuple[Styles, Styles] | None,
    length_control: LengthControl | None,
    warnings: Sequence[ReportWarning],
) -> ComparisonReport:
    """What report.json holds about one comparison.

    Args:
        prompts: those of the candidate's answers, None if these are not available.
        styles: the style_counts of each prompt's answer, the candidate's and the baseline's; None if not available.
        warnings: further ones, about the answers and the run.
    """
    judged, judgments, card = outcomes.judged, outcomes.judged.judgments, outcomes.judged.card
    times = Counter(judgment.instruction for judgment in judgments)
    shown = max(times.values())
    wanted = times.keys() if prompts is None else prompts
    complete = sum(times[instruction] == shown for instruction in wanted)
    results = judged.step.get("results", {})
    stopped = results.get("stopped")
    rule = stop_rule(outcomes)
    looked = sequential(outcomes.pairs, wanted, rule) if rule else None
    unfinished = complete < len(wanted) and not (looked and looked.met)
    partial = bool(stopped) or judged.step.get("status") in ("started", "stopped") or unfinished
    trimmed = len({judgment.instruction for judgment in judgments if judgment.trimmed})
    ratings = _ratings(judgments)
    alone = card.rates_alone if card else bool(ratings) and shown == 1
    position = position_statistics(() if alone else judgments)
    counts = tally_pairs(outcomes.pairs)
    policies: dict[str, TallyFigures] = {outcomes.leading: leading_figures(counts, looked)}
    for policy, pairs in outcomes.by_policy.items():
        if policy != outcomes.leading:
            policies[policy] = tally_figures(tally_pairs(pairs))
    doubts = []
    if partial:
        doubts.append(
            f"PARTIAL: judging has not finished{f' ({stopped})' if stopped else ''}: {complete} of "
            f"{counted(len(wanted), 'pair')} judged{' in both orders' if shown == 2 else ''}; rerun the judge command "
            "to resume"
        )
    if unknown := len(times.keys() - wanted):
        doubts.append(f"{counted(unknown, 'verdict')} on prompts that are not among the candidate's answers")
    if card and not alone and outcomes.leading != card.leading_policy:
        doubts.append(
            f"the judge's card puts the policy {card.leading_policy} first, which needs both orders; "
            "the pairs were shown in one"
        )
    own = list(map(claim_warning, doubts))
    if trimmed:
        text = f"the answers of {trimmed} of {counted(len(times), 'pair')} were trimmed to fit the judge's context"
        own.append(note_warning(text))
    if again := sum(judgment.reason == ASKED_AGAIN for judgment in judgments):
        own.append(claim_warning(_first_asking(outcomes, again)))
    length, style = _length_and_style(outcomes.pairs, *styles) if styles else (None, None)
    if length and (warning := length_warning(length)):
        own.append(claim_warning(warning))
    from_file = ["these verdicts were read from a file, not made in this run"] if judged.imported else []
    if unknown := sum(judgment.reason == UNKNOWN_ORDER for judgment in judgments):
        from_file.append(f"{UNKNOWN_ORDER}: {counted(unknown, 'verdict')} left out of the figures about positions")
    return ComparisonReport(
        candidate=judged.key.candidate,
        baseline=judged.key.baseline,
        leading=outcomes.leading,
        policies=policies,
        orders="alone" if alone else "both" if shown == 2 else "one",
        pairs_judged=complete,
        pairs_expected=len(wanted),
        partial=partial,
        stopped=stopped,
        consistency=rounded(position.consistency),
        consistency_n=position.in_both,
        first_position_rate=rounded(position.first_position_rate),
        first_position_n=position.decided,
        ratings=ratings,
        reasons=_reasons(judgments),
        trimmed=trimmed,
        significance=significance(counts, looked),
        length=length,
        length_control=length_control,
        style=style,
        parts=_parts(outcomes.pairs),
        power=power(counts.values, counts.n_judged),
        sequential=looked,
        with_labels=None,
        noise=outcomes.noise,
        requests=len({key for one in (judgments, *judged.samples) for judgment in one for key in judgment.key.split()}),
        notes=[*(results.get("notes") or []), *from_file],
        warnings=[*own, *warnings],
    )


def _first_asking(outcomes: Outcomes, again: int) -> str:
    """What the win rate is without the verdicts that were read only when the judge was asked again."""
    judged = outcomes.judged
    first = [
        replace(judgment, verdict="unparsed", preference=None, ratings=None)
        if judgment.reason == ASKED_AGAIN
        else judgment
        for judgment in judged.judgments
    ]
    results = results_by_policy(first, judged.card.verdict.parser if judged.card else None, judged.margins)
    counts = tally_pairs(results.get(outcomes.leading, []))
    rate = "none" if counts.win_rate is None else f"{counts.win_rate:.1f} %"
    return (
        f"{counted(again, 'verdict')} could be read only when the judge was asked again; by its first replies alone "
        f"the win rate is {rate} (n = {counts.n_judged})"
    )


def stop_rule(outcomes: Outcomes) -> StopRule | None:
    """When the judge was told to stop; None if it was to judge all pairs."""
    rule = outcomes.judged.step.get("config", {}).get("stop_when")
    return StopRule.parse(rule) if rule else None


def leading_figures(counts: Tally, looked: Sequential | None) -> TallyFigures:
    """The figures that lead, whose finding and interval are settled together with the judge's other claims.

    If the verdicts decided when to stop, with the interval that is valid at every look.
    """
    figures = tally_figures(counts).model_copy(update={"interval": rounded(counts.interval)})
    if looked and looked.judged < looked.pairs:
        return figures.model_copy(update={"interval": looked.interval, "interval_method": "confidence sequence"})
    return figures


def tally_figures(counts: Tally) -> TallyFigures:
    """A tally as report.json holds it, its finding by its own test."""
    kind: Any = "counted" if counts.scores is None else "weighted"
    interval = rounded(agreeing_interval(counts.interval, counts.finding))
    number = None if counts.conversations is None else len(counts.conversations)
    return recorded(TallyFigures, counts, kind=kind, conversations=number, interval=interval, interval_method="score")


def recorded(kind: type[Kind], source: object, /, **known: Any) -> Kind:
    """What was computed as a part of report.json, see `rounded`.

    Args:
        known: the fields that `source` does not have.
    """
    computed = {name: rounded(getattr(source, name)) for name in kind.model_fields if name not in known}
    return kind(**known, **computed)


def significance(counts: Tally, looked: Sequential | None) -> Significance:
    """The tests of a claim, which is not yet corrected for the others; `looked` as in leading_figures."""
    flip, resamples = sign_flip_test(counts.values - 0.5)
    sign = None if counts.conversations is not None else sign_test(counts.win, counts.loss)
    p = flip if counts.graded else sign
    return Significance(
        sign_test=SignTest(p=sign, n=counts.win + counts.loss),
        permutation_test=PermutationTest(p=flip, resamples=resamples),
        p=claim_p(looked, p) if looked else p,
    )


def _length_and_style(
    pairs: Iterable[PairResult], candidate: Styles, baseline: Styles
) -> tuple[LengthFigures | None, StyleControl | None]:
    rows = [
        (pair.score, pair.weight, pair.unit, candidate[pair.instruction], baseline[pair.instruction])
        for pair in pairs
        if pair.score is not None and pair.instruction in candidate and pair.instruction in baseline
    ]
    if not rows:
        return None, None
    scores, weights, names, ours, theirs = map(np.array, zip(*rows, strict=True))
    judged = Scored(scores, weights, np.unique(names, return_inverse=True)[1])
    return length_figures(judged, ours[:, 0], theirs[:, 0]), style_control(judged, style_features(ours, theirs))


def _parts(pairs: Iterable[PairResult]) -> list[Part]:
    """One for each data set, in the order of the pairs, with a rate if it is of enough pairs."""
    datasets: dict[str, list[PairResult]] = {}
    for pair in pairs:
        datasets.setdefault(pair.dataset, []).append(pair)
    parts = [recorded(Part, tally_pairs(inside), dataset=dataset) for dataset, inside in datasets.items()]
    nothing = {"win_rate": None, "interval": None}
    return [part if part.n - part.unread >= LEAST_GROUP else part.model_copy(update=nothing) for part in parts]


def _ratings(judgments: Iterable[Judgment]) -> Ratings | None:
    """Mean ratings, over both orders if there are two, and those of each turn of conversations."""
    rated = [judgment for judgment in judgments if judgment.ratings is not None]
    if not rated:
        return None
    by_turn: dict[int, list[Judgment]] = {}
    for judgment in rated:
        if turn := turn_of(judgment.instruction):
            by_turn.setdefault(turn[1], []).append(judgment)
    return _mean_ratings(rated).model_copy(update={"turns": [_mean_ratings(by_turn[turn]) for turn in sorted(by_turn)]})


def _mean_ratings(rated: Sequence[Judgment]) -> Ratings:
    """The first of two ratings is the candidate's if `position` is first."""
    sides = [judgment.ratings[:: 1 if judgment.position == "first" else -1] for judgment in rated if judgment.ratings]
    candidate, baseline = (round(sum(side) / len(rated), 6) for side in zip(*sides, strict=True))
    return Ratings(candidate=candidate, baseline=baseline, n=len({judgment.instruction for judgment in rated}))


def _reasons(judgments: Iterable[Judgment]) -> list[ReasonCount]:
    """Why there is no verdict, or one without a request; the most frequent first."""
    unexplained = {"unparsed": "no reason recorded", "failed": "no reason recorded"}
    counts = Counter(
        (judgment.verdict, reason)
        for judgment in judgments
        if judgment.reason != UNKNOWN_ORDER and (reason := judgment.reason or unexplained.get(judgment.verdict))
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = [ReasonCount(verdict=verdict, reason=reason, n=n) for (verdict, reason), n in ranked[:_MOST_REASONS]]
    rest: Counter[str] = Counter()
    for (verdict, _), n in ranked[_MOST_REASONS:]:
        rest[verdict] += n
    return [*found, *(ReasonCount(verdict=verdict, reason="other reasons", n=n) for verdict, n in sorted(rest.items()))]
