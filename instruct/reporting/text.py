"""The sentences of a report, plain text on one line; whoever renders them escapes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from instruct.analysis import results
from instruct.analysis.results import ELSEWHERE, Claim
from instruct.base.errors import counted, one_line
from instruct.reporting.digits import decimals, number, span
from instruct.reporting.model import (
    ComparisonReport,
    JudgeReport,
    ReportData,
    TallyFigures,
    Unjudged,
)
from instruct.scores.samples import LEAST_SEEDS

POLICIES = {
    "single": "one order per pair",
    "strict": "both orders, disagreement is a tie",
    "upstream": "as the judge's authors count",
    "averaged": "both orders, mean of the log-odds or ratings",
}


# What a figure is that no claim rests on: of another question than the headline's, or under another policy.
EXPLORATORY = "exploratory, not corrected"


def name(text: object) -> str:
    """A name in a sentence."""
    return one_line(text, 200)


def headline(judge: JudgeReport, comparison: ComparisonReport) -> str:
    """Which system is better under the leading policy, with win rate, interval and number of pairs."""
    people = "People's labels contradict this" if contradicted(comparison) else None
    return _headline(name(judge.name), comparison, comparison.leads, people, largest_tie(comparison.leading_figures))


def _headline(by: str, claimed: ComparisonReport, *further: str | None) -> str:
    """A claim with its figures, further sentences, and its p-value if it is one of several."""
    made = claimed.leading_figures.claim
    said = ": ".join(filter(None, [by, "".join(claim(claimed)), claim_figures(claimed.leading_figures)]))
    correction = adjusted(made) if made.claims > 1 and made.adjusted_p is not None else None
    return ". ".join(filter(None, [said, *further, correction]))


def excluded(made: Claim) -> str:
    """What is excluded where no difference is shown, to stand at the end; else empty. Rounded up."""
    beyond = excluded_beyond(made)
    return f"; differences beyond ±{beyond}{' points' * made.in_points} are excluded (90 % CI)" if beyond else ""


def excluded_beyond(made: Claim) -> str | None:
    """The difference beyond which all are excluded, in the unit of the value."""
    if made.excluded is None:
        return None
    digits = decimals(made.excluded, made.interval or made.excluding, made.null)
    return f"{math.ceil(made.excluded * 10**digits - 1e-6) / 10**digits:,.{digits}f}"


def adjusted(made: Claim) -> str:
    """The p-value that the finding follows."""
    several = f", corrected for {counted(made.claims, 'claim')}" if made.claims > 1 else ""
    return f"p {_equals(made.p if made.adjusted_p is None else made.adjusted_p)}{several}"


def leads(figures: TallyFigures) -> str | None:
    """Who is preferred on more prompts by a weighted judge, whose win rate is the mean of grades; None of others."""
    made = figures.preferred
    if made is None or made.value is None:
        return None
    lost = made.value < 50
    leader, wins = (made.baseline, figures.loss) if lost else (made.candidate, figures.win)
    who = {
        "no difference": "no difference shown",
        "too few": "too few",
    }.get(str(made.finding), name(leader))
    counts = f"{wins} of {figures.win + figures.loss}; {adjusted(made)}"
    return f"Preferred on more prompts: {who} ({counts}){excluded(made)}"


def contradicted(comparison: ComparisonReport) -> bool:
    """Whether people's labels are shown to prefer the other side than the finding."""
    preferred = comparison.with_labels.claim.finding if comparison.with_labels else None
    return {preferred, comparison.leading_figures.claim.finding} == {"candidate", "baseline"}


def largest_tie(figures: TallyFigures) -> str | None:
    """The more frequent kind of tie that the judge made, without a full stop; None without such ties."""
    kinds = [(figures.contradicted, "the judge contradicted itself"), (figures.called, "the judge called a tie")]
    count, words = max(kinds, key=lambda kind: kind[0])
    return f"{count} of {counted(figures.n_judged, 'pair')}: {words}" if count else None


def seeds_headline(claim: Claim) -> str:
    """A comparison over all its training seeds: the mean win rate, and how certain that is."""
    candidate, baseline, seeds = name(claim.candidate), name(claim.baseline), claim.trainings
    if claim.value is None:
        said = f"no prompt has a verdict on {candidate} against {baseline} for every one of {seeds} training seeds"
        return f"{name(claim.judge)}: {said}"
    said = _verdict(claim, "training seeds", f" over {seeds} training seeds")
    if claim.finding == "too few":
        said += f" ({few_trainings(claim)})" if claim.params.get(ELSEWHERE) else f" ({seeds}, not {LEAST_SEEDS})"
    text = f"{name(claim.judge)}: {said}; for {candidate}: {over_seeds(claim)}{excluded(claim)}"
    corrected = None if claim.adjusted_p is None else capital(adjusted(claim))
    return ". ".join(filter(None, [text, corrected]))


def _verdict(made: Claim, few: str, over: str = "", beats: str = "beats") -> str:
    """What a claim finds: who beats whom `over` something, or that there are too `few` of something to say."""
    return "".join(_pieces(made, few, over, beats))


def _pieces(made: Claim, few: str, over: str = "", beats: str = "beats") -> list[str]:
    """The same in pieces, every other one a name."""
    ours, theirs = name(made.candidate), name(made.baseline)
    first, second = (theirs, ours) if baseline_first(made) else (ours, theirs)
    return {
        "no difference": ["no difference shown between ", ours, " and ", theirs, over],
        "too few": [f"too few {few} to compare ", ours, " with ", theirs],
    }.get(str(made.finding), ["", first, f" {beats} ", second, over])


def bench_headlines(claims: Sequence[Claim]) -> list[str]:
    """Each objective beside MLE, by each measure."""
    lines = []
    for claim in claims:
        if claim.value is None:
            continue
        if claim.kind == "rate":
            lines.append(seeds_headline(claim))
            continue
        counts = f"n = {claim.n}, {counted(claim.trainings, 'seed')}"
        said = (
            f"{name(claim.candidate)} against {name(claim.baseline)}, "
            f"{one_line(claim.task or claim.measure, 60)}: {finding(claim)}"
        )
        lines.append(f"{said} ({difference(claim)}; {counts}){excluded(claim)}")
    return lines


def difference(claim: Claim, sign: int = 1) -> str:
    """A difference with its interval; `sign` -1: as the baseline sees it."""
    if claim.value is None:
        return "no unit has a value of both"
    interval = sorted(sign * end for end in claim.interval or ()) or None
    alone = claim.finding == "no difference" and interval and not interval[0] <= 0 <= interval[1]
    said = f", 95 % CI {'(not corrected) ' * bool(alone)}{span(interval, sign=True)}" if interval else ""
    return f"{number(sign * claim.value, interval, sign=True)}{' points' * claim.in_points}{said}"


def difference_headline(claim: Claim) -> str:
    """Which of two systems is better in a task of others' logs, as the better one sees it."""
    lost, few = baseline_first(claim), "units" if claim.trainings == 1 else "units or seeds"
    beats = "beats" if claim.better else "is not the same as"
    said = _verdict(claim, few, beats=beats)
    tasks = f", mean of {claim.params['tasks']} tasks" if "tasks" in claim.params else ""
    about = [f"n = {claim.n}"]
    about += [f"{claim.params['clusters']} clusters"] if "clusters" in claim.params else []
    about += [f"{claim.trainings} seeds"] if claim.trainings > 1 else []
    about += [adjusted(claim)] if claim.adjusted_p is not None else []
    side = "" if lost or claim.finding == "candidate" else f" for {name(claim.candidate)}"
    figures = f"{one_line(claim.measure, 60)}{tasks} {difference(claim, -1 if lost else 1)}{side}; {'; '.join(about)}"
    return f"{one_line(claim.task or '', 60)}: {said} ({figures}){excluded(claim)}"


def finding(claim: Claim) -> str:
    """What an objective's claim says of it beside another; of a measure without a better side, where it is higher."""
    words = (
        {"candidate": "better", "baseline": "worse"} if claim.better else {"candidate": "higher", "baseline": "lower"}
    )
    words |= {"no difference": "no difference shown", "too few": few_trainings(claim)}
    return words[str(claim.finding)]


def few_trainings(claim: Claim) -> str:
    """Why the trainings of a claim are too few for one."""
    if not claim.params.get(ELSEWHERE):
        return f"fewer than {LEAST_SEEDS} seeds"
    return "one training, elsewhere" if claim.trainings == 1 else f"{claim.trainings} trainings, elsewhere"


def seeds_cost(claim: Claim) -> list[str]:
    """How much wider the interval is because the trainings differ."""
    if claim.missing or claim.interval is None or claim.params["interval_prompts"] is None:
        return []
    both, prompts = ((high - low) / 2 for low, high in (claim.interval, claim.params["interval_prompts"]))
    said = f"±{number(prompts)} points over prompts alone, ±{number(both)} over prompts and seeds"
    return [f"what the seeds cost: {said}"]


def over_seeds(claim: Claim) -> str:
    """The mean win rate of several training seeds, their standard deviation, the intervals, and what is missing."""
    if claim.value is None:
        return "no prompt has a verdict for every seed"
    error = claim.interval
    parts = [f"standard deviation {number(claim.params['standard_deviation'], error)}"]
    if claim.params["interval_seeds"]:
        parts.append(f"95 % CI over seeds {span(claim.params['interval_seeds'], error)}")
    if error:
        parts.append(f"95 % CI over seeds and prompts {span(error)}{lost_or_won(claim)}")
    if claim.params["left_out"]:
        left_out = counted(claim.params["left_out"], "prompt")
        parts.append(f"n = {claim.n}; left out: {left_out} without a verdict for every seed")
    return f"mean win rate {number(claim.value, error)} % ({'; '.join(parts)})"


def paired_difference(claim: Claim) -> str:
    """Two systems with the same baseline."""
    judge, first, second, through = map(name, (claim.judge, claim.candidate, claim.baseline, claim.through))
    corrected = f"; {adjusted(claim)}" if claim.claims > 1 else ""
    return (
        f"{judge}: {first} minus {second}: {difference(claim)} (p {_equals(claim.p)}{corrected}) over "
        f"{counted(claim.n, 'prompt')}, both against {through}{excluded(claim)}"
    )


def claim(claimed: ComparisonReport) -> list[str]:
    """The first half of a headline in pieces, every other one a name; no claim rests on one of several seeds alone."""
    figures, ours, theirs = claimed.leading_figures, name(claimed.candidate), name(claimed.baseline)
    if figures.win_rate is None:
        return ["no verdict on ", ours, " against ", theirs, f" ({unread(figures)})"]
    first, *rest = _pieces(figures.claim, "pairs")
    return [f"one training seed: {first}" if claimed.one_seed else first, *rest]


def lost_or_won(claim: Claim) -> str:
    """What an interval allows for, to stand behind it; empty if nothing is missing."""
    return f" with {claim.missing} missing lost or won" if claim.missing else ""


def claim_figures(figures: TallyFigures) -> str:
    """The second half: the win rate of the system named first in the claim; empty without any verdict."""
    if figures.win_rate is None:
        return ""
    clusters = "" if figures.conversations is None else f" in {counted(figures.conversations, 'cluster')}"
    details = [*rate_details(figures), f"n = {figures.n_judged}{clusters}"]
    details += [f"{figures.identical} identical"] if figures.identical else []
    weighted = "weighted " * (figures.kind == "weighted")
    rate = number(claimed_rate(figures), figures.error)
    return f"{weighted}win rate {rate} % ({', '.join(details)}){excluded(figures.claim)}"


def baseline_first(claim: Claim) -> bool:
    """Whether the claim names the baseline first: if it beats the candidate."""
    return claim.finding == "baseline"


def claimed_rate(figures: TallyFigures) -> float | None:
    """The win rate of the system that the claim names first."""
    rate = figures.win_rate
    return 100 - rate if rate is not None and baseline_first(figures.claim) else rate


def rate_details(figures: TallyFigures) -> list[str]:
    """What follows the claimed rate: its interval, with the missing verdicts lost or won."""
    made = figures.claim
    if not made.interval:
        return []
    ends = sorted(100 - end if baseline_first(made) else end for end in made.interval)
    return [f"95 % CI {span(ends, figures.error)}{lost_or_won(made)}"]


def evidence(comparison: ComparisonReport) -> str | None:
    """The significance test, the win rate with people's labels, and the minimum detectable difference."""
    figures, parts = comparison.leading_figures, []
    made = figures.claim
    if made.p is not None and made.test in ("mean", "sign"):
        test, about = "Test of the mean", []
        if made.test == "sign":
            test, about = "Sign test", [f"{counted(figures.win + figures.loss, 'pair')} without ties"]
        about += [f"with {made.missing} missing lost or won"] if made.missing else []
        if made.claims > 1 and made.finding not in ("candidate", "baseline"):
            about.append(f"before the correction for {made.claims} claims")
        details = f" ({'; '.join(about)})" if about else ""
        parts.append(f"{test}: p {_equals(made.p)}{details}.")
    if people := comparison.with_labels:
        said = f"win rate of {name(people.claim.candidate)} {rate_and_interval(people)}, {adjusted(people.claim)}"
        parts.append(f"With people's labels on {people.labels} of {counted(people.pairs, 'pair')}: {said}.")
    if comparison.smallest_difference is not None:
        family = f" with {made.claims} claims" if made.claims > 1 else ""
        parts.append(f"Minimum detectable difference{family}: {number(comparison.smallest_difference)} points.")
    return " ".join(parts) or None


def trust(judge: JudgeReport) -> str:
    """How far the judge agrees with people, if anybody measured it."""
    agreement = one_line(judge.agreement, 400)
    return f"Judge {name(judge.name)} ({name(judge.model)}); agreement with people: {agreement}."


def exploratory(comparison: ComparisonReport) -> tuple[str, list[str]]:
    """What the rates that no claim rests on are called, and a sentence for each; [] without any."""
    figures, controlled, style = comparison.leading_figures, comparison.length_control, comparison.style
    said, interval = list[str](), style.score_interval if style else None
    if style and style.score is not None:
        about = f"95 % CI {span(interval)}{f'; {style.note}' if style.note else ''}"
        said.append(f"with Arena-Hard's style control: {number(style.score, interval)} % ({about})")
    if figures.kind == "weighted" and figures.discrete_win_rate is not None:
        rate = number(figures.discrete_win_rate, figures.error)
        said.append(f"counting who is preferred, not how clearly (discrete): {rate} %")
    if controlled:
        rate, error = (
            number(getattr(controlled, key), controlled.standard_error) for key in ("win_rate", "standard_error")
        )
        stated = f"length-controlled: {rate} % (standard error {error}; {controlled.note})"
        said.append(controlled.note if controlled.win_rate is None else stated)
    apart = interval is not None and not interval[0] <= 50 <= interval[1]
    unclaimed = apart and figures.claim.finding not in ("candidate", "baseline")
    about = "; an interval on one side of 50 is no finding here" * unclaimed
    return f"Win rates of {one_line(comparison.candidate, 60)}, {EXPLORATORY}{about}", said


def rate_and_interval(figures: results.PredictionPowered) -> str:
    """A win rate with its interval."""
    return f"{number(figures.win_rate, figures.interval)} % (95 % CI {span(figures.interval)})"


def kappas(agreement: results.PairAgreement) -> str:
    """How two judges agree, in a line."""
    names = " and ".join(map(name, agreement.judges))
    if agreement.agreement is None:
        return f"{names}: no pair that both read"
    kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    pairs = counted(agreement.n, "pair")
    return f"{names}: kappa {kappa}, the same outcome for {number(agreement.agreement)} % of {pairs}"


def spent(report: ReportData) -> str | None:
    """What judging cost, in total and by judge; None if it cost nothing."""
    if not report.usd:
        return None
    parts = ", ".join(f"{name(judge.name)} {judge.usd:.2f}" for judge in report.judges if judge.usd)
    return f"Spent on judging: {report.usd:.2f} USD" + (f" ({parts})" if parts else "") + "."


def not_judged(pair: Unjudged) -> str:
    """A comparison without any verdict, and what stopped it."""
    stopped = f" ({one_line(pair.stopped)})" if pair.stopped else ""
    return f"{name(pair.judge)}: {name(pair.candidate)} against {name(pair.baseline)}{stopped}"


def unread(figures: TallyFigures) -> str:
    """The pairs without a verdict, in words."""
    return f"{figures.unparsed} unparsed, {figures.failed} failed"


def capital(text: str) -> str:
    """A sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def probability(p: float | None) -> str:
    """A p-value to three decimals."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _equals(p: float | None) -> str:
    return f"= {probability(p)}".replace("= <", "<")
