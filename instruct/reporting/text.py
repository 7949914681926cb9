"""The sentences of a report, plain text on one line; whoever renders them escapes them."""

from __future__ import annotations

import math

from instruct.analysis import results
from instruct.analysis.results import ELSEWHERE, SINGLE_SEEDS, Claim, Counts
from instruct.base.errors import counted, one_line
from instruct.reporting.digits import decimals, number, span
from instruct.reporting.model import (
    ComparisonReport,
    JudgeReport,
    ReportData,
    Unjudged,
)
from instruct.scores.claims import stated
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


def headline(comparison: ComparisonReport) -> str:
    """What a judge says about two systems under its leading policy."""
    return claim_headline(comparison.claim, *further(comparison))


def further(comparison: ComparisonReport) -> tuple[str | None, ...]:
    """The sentences of a headline before that of the corrected p-value."""
    people = "People's labels contradict this" if contradicted(comparison) else None
    return leads(comparison), people, largest_tie(comparison.claim)


def claim_headline(made: Claim, *further: str | None) -> str:
    """Who is better, by how much and how certainly: by whose verdicts, or in what; what is found; the figure."""
    made = stated(made)
    about = name(made.judge) if made.judge else one_line(made.task or made.measure, 60)
    said = "".join(finding_pieces(made))
    if made.finding == "too few" and made.params.get(ELSEWHERE):
        said += f" ({few_trainings(made)})"
    sentence = ": ".join(filter(None, [about, said, stated_figure(made)]))
    return ". ".join([sentence, *qualified(made, *further)])


def qualified(made: Claim, *further: str | None) -> list[str]:
    """The sentences after a claim's figure, of which `further` come first."""
    correction = adjusted(made) if made.adjusted_p is not None and (made.claims > 1 or made.kind != "rate") else None
    skewed = made.has_winner and "unbounded" in made.params and made.test != "jackknife"
    caution = "Skewed values can break this test" if skewed else None
    return [text for text in (*further, correction, caution) if text]


def stated_figure(made: Claim) -> str:
    """The win rate of the system that a claim names first, or what it has more than the other, with interval and n;
    with too few pairs their outcomes.

    Empty without a value.
    """
    if made.value is None:
        return ""
    counts, value = made.counts, claimed_value(made)
    if made.finding == "too few" and counts:
        figure = f"{counts.win} won, {counts.tie} tied, {counts.loss} lost"
    elif made.kind == "rate":
        figure = f"{'weighted ' if counts and counts.weighted else ''}win rate {number(value, made.error)} %"
    else:
        tasks = f", mean of {made.params['tasks']} tasks" if "tasks" in made.params else ""
        side = "" if made.finding in (None, "candidate", "baseline") else f" for {name(made.candidate)}"
        measure = one_line(made.measure, 60) + tasks + " " if made.judge or made.task else ""
        figure = f"{measure}{number(value, made.interval, sign=True)}{' points' * made.in_points}{side}"
    clusters = f" in {counted(made.params['clusters'], 'cluster')}" if "clusters" in made.params else ""
    sample = [f"n = {made.n}{clusters}"] * bool(made.n)
    sample += [f"{made.missing} missing"] if made.missing and "unbounded" in made.params else []
    sample += [f"{counts.identical} identical"] if counts and counts.identical else []
    sample += [f"both against {name(made.through)}"] if made.through else []
    sample += ["the same on each"] if identical(made) else []
    sample += ["the difference never varies"] if "constant" in made.params else []
    details = ", ".join([*interval_words(made), *sample])
    return f"{figure}{f' ({details})' if details else ''}{excluded(made)}"


def identical(made: Claim) -> bool:
    """Whether two systems scored the same on every unit."""
    return bool(made.n) and made.params.get("candidate_above") == made.params.get("baseline_above") == 0


def interval_words(made: Claim) -> list[str]:
    """The interval of a figure, as the system that is named first sees it, with the missing values lost or won."""
    if not made.interval:
        return []
    first, ends = baseline_first(made), made.interval
    seen = sorted(2 * made.null - end for end in ends) if first else ends
    alone = made.finding in ("no difference", "too few") and not ends[0] <= made.null <= ends[1]
    bounded = made.missing and "unbounded" not in made.params
    missing = f" with {made.missing} missing lost or won" if bounded else ""
    corrected = "(not corrected) " * alone
    return [f"95 % CI {corrected}{span(seen, made.error, sign=made.kind != 'rate')}{missing}"]


def excluded(made: Claim) -> str:
    """What is excluded where no difference is shown, to stand at the end; else empty. Rounded up."""
    beyond = excluded_beyond(made)
    if beyond is None:
        return ""
    corrected = f", corrected for {counted(made.claims, 'claim')}" if made.claims > 1 else ""
    return f"; differences beyond ±{beyond}{' points' * made.in_points} are excluded (90 % CI{corrected})"


def excluded_beyond(made: Claim) -> str | None:
    """The difference beyond which all are excluded, in the unit of the value."""
    if made.excluded is None:
        return None
    digits = decimals(made.excluded, made.interval or made.excluding)
    beyond = math.ceil(made.excluded * 10**digits - 1e-6) / 10**digits
    return None if made.in_points and beyond >= 100 - made.null else f"{beyond:,.{digits}f}"


def adjusted(made: Claim) -> str:
    """The p-value that the finding follows."""
    several = f", corrected for {counted(made.claims, 'claim')}" if made.claims > 1 else ""
    return f"p {_equals(made.p if made.adjusted_p is None else made.adjusted_p)}{several}"


def leads(comparison: ComparisonReport) -> str | None:
    """Who is preferred on more prompts by a weighted judge, whose win rate is the mean of grades; None of others."""
    made, pairs = comparison.claim, comparison.counts
    if not pairs.weighted or not pairs.decided:
        return None
    leader, wins = (made.baseline, pairs.loss) if pairs.loss > pairs.win else (made.candidate, pairs.win)
    return f"Preferred on more prompts: {name(leader) if pairs.win != pairs.loss else 'neither'} ({wins} of {made.n})"


def contradicted(comparison: ComparisonReport) -> bool:
    """Whether people's labels are shown to prefer the other side than the finding."""
    preferred = comparison.with_labels.claim.finding if comparison.with_labels else None
    return {preferred, comparison.claim.finding} == {"candidate", "baseline"}


def largest_tie(made: Claim) -> str | None:
    """The more frequent kind of tie that the judge made, without a full stop; None without such ties."""
    if made.counts is None:
        return None
    ties = made.counts
    kinds = [(ties.contradicted, "the judge contradicted itself"), (ties.called, "the judge called a tie")]
    count, words = max(kinds, key=lambda kind: kind[0])
    return f"{count} of {counted(made.n, 'pair')}: {words}" if count else None


def finding_pieces(made: Claim) -> list[str]:
    """What a claim finds in pieces, every other one a name: who beats whom, or that there is too little to say."""
    ours, theirs = name(made.candidate), name(made.baseline)
    first, second = (theirs, ours) if baseline_first(made) else (ours, theirs)
    several = made.trainings > 1 or "seeds" in made.params
    over = f" over {counted(made.trainings, 'training seed')}" * several
    over += f" of {ours}" * ("baseline_trainings" in made.params)
    seeded = several or "seeded" in made.params
    few = "training seeds" if seeded and made.trainings < LEAST_SEEDS else "pairs" if made.kind == "rate" else "units"
    pieces = {
        "no difference": ["no difference shown between ", ours, " and ", theirs, over],
        "too few": [f"too few {few} to compare ", ours, " with ", theirs],
        "None": ["", ours, " minus ", theirs, ""],
    }.get(str(made.finding), ["", first, " beats " if made.better else " is higher than ", second, over])
    if made.value is None:
        nothing, missing = "nothing has a value of both ", f" for every one of {made.trainings} trainings" * several
        if made.counts:
            nothing, missing = "no verdict on ", f" ({unread(made.counts)})"
        pieces = [nothing, ours, " against " if made.counts else " and ", theirs, missing]
    one_seed = made.family == SINGLE_SEEDS and made.value is not None
    return [f"one training seed: {pieces[0]}", *pieces[1:]] if one_seed else pieces


def difference(claim: Claim) -> str:
    """A difference with its interval."""
    if claim.value is None:
        return "no unit has a value of both"
    interval = ", ".join(interval_words(claim))
    amount = number(claim.value, claim.interval, sign=True)
    return f"{amount}{' points' * claim.in_points}{', ' * bool(interval)}{interval}"


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


def baseline_first(claim: Claim) -> bool:
    """Whether the claim names the baseline first: if it beats the candidate."""
    return claim.finding == "baseline"


def claimed_value(made: Claim) -> float | None:
    """The win rate of the system that the claim names first, or by how much it is higher than the other."""
    return 2 * made.null - made.value if made.value is not None and baseline_first(made) else made.value


def evidence(comparison: ComparisonReport) -> str | None:
    """The significance test, the win rate with people's labels, and the minimum detectable difference."""
    made, parts = comparison.claim, []
    if made.p is not None:
        test, about = "Test of the mean", []
        if made.test == "sign" and made.counts:
            test, about = "Sign test", [f"{counted(made.counts.decided, 'pair')} without ties"]
        about += [f"with {made.missing} missing lost or won"] if made.missing else []
        if made.claims > 1 and not made.has_winner:
            about.append(f"before the correction for {made.claims} claims")
        details = f" ({'; '.join(about)})" if about else ""
        parts.append(f"{test}: p {_equals(made.p)}{details}.")
    if people := comparison.with_labels:
        said = f"win rate of {name(people.claim.candidate)} {rate_and_interval(people)}, {adjusted(people.claim)}"
        parts.append(f"With people's labels on {people.labels} of {counted(people.pairs, 'pair')}: {said}.")
    if not made.has_winner and (detectable := made.detectable) is not None:
        family = f" with {made.claims} claims" if made.claims > 1 else ""
        parts.append(f"Minimum detectable difference{family}: {number(detectable)} points.")
    return " ".join(parts) or None


def trust(judge: JudgeReport) -> str:
    """How far the judge agrees with people, if anybody measured it."""
    agreement = one_line(judge.agreement, 400)
    return f"Judge {name(judge.name)} ({name(judge.model)}); agreement with people: {agreement}."


def exploratory(comparison: ComparisonReport) -> tuple[str, list[str]]:
    """What the rates that no claim rests on are called, and a sentence for each; [] without any."""
    made, controlled, style = comparison.claim, comparison.length_control, comparison.style
    said, interval = list[str](), style.score_interval if style else None
    if style and style.score is not None:
        about = f"95 % CI {span(interval)}{f'; {style.note}' if style.note else ''}"
        said.append(f"with Arena-Hard's style control: {number(style.score, interval)} % ({about})")
    if made.counts and made.counts.weighted and made.counts.discrete_win_rate is not None:
        rate = number(made.counts.discrete_win_rate, made.error)
        said.append(f"counting who is preferred, not how clearly (discrete): {rate} %")
    if controlled:
        stated = f"length-controlled: {number(controlled.win_rate, made.error)} % ({controlled.note})"
        said.append(controlled.note if controlled.win_rate is None else stated)
    apart = interval is not None and not interval[0] <= 50 <= interval[1]
    unclaimed = apart and not made.has_winner
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


def unread(counts: Counts) -> str:
    """The pairs without a verdict, in words."""
    return f"{counts.unparsed} unparsed, {counts.failed} failed"


def capital(text: str) -> str:
    """A sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def probability(p: float | None) -> str:
    """A p-value to three decimals."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _equals(p: float | None) -> str:
    return f"= {probability(p)}".replace("= <", "<")
