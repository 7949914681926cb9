"""One comparison's figures, from its verdicts and from what the run says of how they were made."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from instruct.analysis.intervals import rounded_interval
from instruct.analysis.lengths import length_figures
from instruct.analysis.outcomes import Policy
from instruct.analysis.paired import paired_difference
from instruct.analysis.pairs import PairResult, pair_results
from instruct.analysis.power import power
from instruct.analysis.results import LengthFigures, Paired, Part, PermutationTest, Significance, SignTest
from instruct.analysis.significance import sign_flip_test, sign_test
from instruct.analysis.statistics import Tally, position_statistics, tally
from instruct.judging import comparison as judging
from instruct.judging.cards import JudgeCard
from instruct.judging.store import Judgment
from instruct.reporting.schema import Comparison, Ratings, ReasonCount, TallyFigures

# A server's words may differ from reply to reply: beyond so many reasons the rest is one line.
_MOST_REASONS = 20


def compare(
    card: JudgeCard | None,
    candidate: str,
    baseline: str,
    judgments: Sequence[Judgment],
    prompts: set[str] | None,
    step: dict[str, Any],
    lengths: tuple[Mapping[str, int], Mapping[str, int]] | None = None,
) -> Comparison:
    """What report.json holds of one comparison.

    Args:
        card: the judge's; None where it is gone: the strict policy leads, and no author's rule is known.
        prompts: those of the candidate's answers, None where these are not at hand.
        step: what the manifest says of the judging, {} where it says nothing.
        lengths: the characters of each prompt's answer, the candidate's and the baseline's; None where not at hand.
    """
    times = Counter(judgment.instruction for judgment in judgments)
    shown = max(times.values())
    leading = leading_policy(card, judgments)
    wanted = times.keys() if prompts is None else prompts
    judged = sum(times[instruction] == shown for instruction in wanted)
    results = step.get("results", {})
    stopped = results.get("stopped")
    partial = bool(stopped) or step.get("status") in ("started", "stopped") or judged < len(wanted)
    trimmed = len({judgment.instruction for judgment in judgments if judgment.trimmed})
    ratings = _ratings(judgments)
    alone = bool(ratings) or (card is not None and card.protocol == "single")
    position = position_statistics(() if alone else judgments)
    pairs = results_under(card, judgments, leading)
    counts = tally_pairs(pairs)

    warnings = []
    if partial:
        warnings.append(
            f"PARTIAL: judging has not finished{f' ({stopped})' if stopped else ''}; {judged} of {len(wanted)} pairs "
            f"are judged{' in both orders' if shown == 2 else ''}; the same judge command goes on where it stopped"
        )
    if times.keys() - wanted:
        warnings.append(
            f"{len(times.keys() - wanted)} verdicts are on prompts that the candidate's answers do not hold"
        )
    if card is not None and leading != card.leading_policy and not alone:
        warnings.append(
            f"the policy {card.leading_policy}, which leads by the judge's card, needs both orders; one was shown"
        )
    if trimmed:
        warnings.append(f"the answers of {trimmed} of {len(times)} pairs were trimmed to fit the judge's context")
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        leading=leading,
        policies={
            policy: tally_figures(tally_pairs(results_under(card, judgments, policy)))
            for policy in sorted(_policies(judgments), key=lambda policy: policy != leading)
        },
        orders="alone" if alone else "both" if shown == 2 else "one",
        pairs_judged=judged,
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
        significance=_significance(counts),
        length=_length(pairs, *lengths) if lengths else None,
        length_control=None,
        parts=_parts(pairs),
        power=power(counts.values),
        requests=len({key for judgment in judgments for key in judgment.key.split()}),
        notes=list(results.get("notes") or []),
        warnings=warnings,
    )


def paired_comparisons(
    judged: Mapping[judging.Comparison, Sequence[Judgment]], cards: Mapping[str, JudgeCard | None]
) -> list[Paired]:
    """For every two candidates that a judge compared with one baseline, the difference of their win rates.

    Under the policy that leads for both, or `single` if different policies lead.

    Args:
        judged: verdicts by judge, candidate and baseline.
        cards: the judges', None if a card is gone.
    """
    found = []
    for (one, ours), (other, theirs) in itertools.combinations(judged.items(), 2):
        (judge, first, baseline), (another, second, other_baseline) = one, other
        if (judge, baseline) != (another, other_baseline):
            continue
        card = cards[judge]
        leading = {leading_policy(card, ours), leading_policy(card, theirs)}
        policy: Policy = leading.pop() if len(leading) == 1 else "single"
        difference = paired_difference(
            *({pair.instruction: pair.score for pair in results_under(card, each, policy)} for each in (ours, theirs))
        )
        found.append(
            Paired(
                judge=judge,
                policy=policy,
                first=first,
                second=second,
                baseline=baseline,
                n=difference.n,
                difference=rounded(difference.points),
                interval=rounded_interval(difference.interval),
                p=difference.p,
            )
        )
    return found


def leading_policy(card: JudgeCard | None, judgments: Sequence[Judgment]) -> Policy:
    """The policy whose figures lead: the card's, as far as the pairs were shown in the orders that it needs."""
    wanted: Policy = card.leading_policy if card else "strict"
    return wanted if wanted in _policies(judgments) else "single"


def results_under(card: JudgeCard | None, judgments: Sequence[Judgment], policy: Policy) -> list[PairResult]:
    """Each pair's result; a policy for two orders says nothing about pairs that were shown in one."""
    if policy != "single":
        times = Counter(judgment.instruction for judgment in judgments)
        judgments = [judgment for judgment in judgments if times[judgment.instruction] == 2]
    return pair_results(judgments, policy, card.verdict.parser if card else None)


def tally_pairs(pairs: Sequence[PairResult]) -> Tally:
    """The pairs' outcomes, and their scores where these have shades."""
    scores = [pair.score for pair in pairs if pair.score is not None]
    return tally(
        (pair.outcome for pair in pairs), scores if any(score not in (0, 0.5, 1) for score in scores) else None
    )


def tally_figures(counts: Tally) -> TallyFigures:
    """A tally as report.json holds it, figures to six decimals as AlpacaEval's leaderboards print them."""
    return TallyFigures(
        kind="counted" if counts.scores is None else "weighted",
        n=counts.n,
        n_judged=counts.n_judged,
        win=counts.win,
        tie=counts.tie,
        loss=counts.loss,
        unparsed=counts.unparsed,
        failed=counts.failed,
        win_rate=rounded(counts.win_rate),
        discrete_win_rate=rounded(counts.discrete_win_rate),
        standard_error=rounded(counts.standard_error),
        interval=rounded_interval(counts.interval),
        interval_method=counts.interval_method,
        second_interval=rounded_interval(counts.second_interval),
        bounds=rounded_interval(counts.bounds),
        finding=counts.finding,
        reversible=counts.reversible,
    )


def rounded(value: float | None) -> float | None:
    """To the six decimals of report.json."""
    return None if value is None else round(value, 6)


def _significance(counts: Tally) -> Significance:
    p, resamples = sign_flip_test(counts.values - 0.5)
    return Significance(
        sign_test=SignTest(p=sign_test(counts.win, counts.loss), n=counts.win + counts.loss),
        permutation_test=PermutationTest(p=p, resamples=resamples),
    )


def _length(
    pairs: Iterable[PairResult], candidate: Mapping[str, int], baseline: Mapping[str, int]
) -> LengthFigures | None:
    rows = [
        (pair.score, candidate[pair.instruction], baseline[pair.instruction])
        for pair in pairs
        if pair.score is not None and pair.instruction in candidate and pair.instruction in baseline
    ]
    if not rows:
        return None
    scores, ours, theirs = zip(*rows, strict=True)
    return length_figures(np.array(scores), np.array(ours), np.array(theirs))


def _parts(pairs: Iterable[PairResult]) -> list[Part]:
    """One for each data set, in the order of the pairs; a single one has them all."""
    datasets: dict[str, list[PairResult]] = {}
    for pair in pairs:
        datasets.setdefault(pair.dataset, []).append(pair)
    found = []
    for dataset, inside in datasets.items():
        counts = tally_pairs(inside)
        found.append(
            Part(
                dataset=dataset,
                n=counts.n,
                win=counts.win,
                tie=counts.tie,
                loss=counts.loss,
                unread=counts.unread,
                win_rate=rounded(counts.win_rate),
                interval=rounded_interval(counts.interval),
            )
        )
    return found


def _policies(judgments: Sequence[Judgment]) -> Sequence[Policy]:
    times = Counter(judgment.instruction for judgment in judgments)
    return ("single",) if max(times.values()) == 1 else get_args(Policy)


def _ratings(judgments: Iterable[Judgment]) -> Ratings | None:
    """Mean ratings; the first of two stands where the candidate stood if `position` is first."""
    pairs = [
        judgment.ratings if judgment.position == "first" else judgment.ratings[::-1]
        for judgment in judgments
        if judgment.ratings is not None
    ]
    if not pairs:
        return None
    candidate, baseline = (round(sum(side) / len(pairs), 6) for side in zip(*pairs, strict=True))
    return Ratings(candidate=candidate, baseline=baseline, n=len(pairs))


def _reasons(judgments: Iterable[Judgment]) -> list[ReasonCount]:
    """Why there is no verdict, or one without a request; the most frequent first."""
    unexplained = {"unparsed": "no reason noted", "failed": "no reason noted"}
    counts = Counter(
        (judgment.verdict, reason)
        for judgment in judgments
        if (reason := judgment.reason or unexplained.get(judgment.verdict))
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = [ReasonCount(verdict=verdict, reason=reason, n=n) for (verdict, reason), n in ranked[:_MOST_REASONS]]
    rest: Counter[str] = Counter()
    for (verdict, _), n in ranked[_MOST_REASONS:]:
        rest[verdict] += n
    return [*found, *(ReasonCount(verdict=verdict, reason="other reasons", n=n) for verdict, n in sorted(rest.items()))]
