"""Sentences that report.md, the page and the terminal share, and the escaping of foreign text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from instruct.analysis.results import PairAgreement, SeedSpread
from instruct.analysis.statistics import LEAST_DECIDED
from instruct.base.errors import counted, one_line
from instruct.reporting.model import Comparison, Judge, Panel, ReportData, TallyFigures

Escape = Callable[[object], str]

POLICIES = {
    "single": "one order per pair",
    "strict": "both orders, disagreement is a tie",
    "upstream": "as the judge's authors count",
    "averaged": "both orders, mean of the log-odds or ratings",
}

# Below this percentage of pairs with the same verdict in both orders, the report warns.
_LEAST_CONSISTENCY = 80.0
_SPECIAL = re.compile(r"[\\`*\[\]|~$#!{}]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}


def escape_markdown(text: object, limit: int = 200) -> str:
    """Foreign text as one line of Markdown that shows it and does nothing else: no markup, table cell, HTML or link."""
    line = _SPECIAL.sub(lambda match: "\\" + match.group(), one_line(text, limit))
    for mark, entity in _ENTITIES.items():
        line = re.sub(re.escape(mark), entity, line, flags=re.IGNORECASE)
    return line


def escape_terminal(text: object, limit: int = 300) -> str:
    """Foreign text as one line without control characters; nothing that prints it reads markup."""
    return one_line(text, limit)


def headline(judge: Judge, comparison: Comparison, escape: Escape) -> str:
    """Which system is better under the leading policy, with win rate, interval and number of pairs."""
    names = (escape(comparison.candidate), escape(comparison.baseline))
    said = _sentence(escape(judge.name), comparison.leading_figures, *names)
    ties = largest_tie(comparison.leading_figures)
    return f"{said}. {ties}" if ties else said


def largest_tie(figures: TallyFigures) -> str | None:
    """The more frequent kind of tie that the judge made, without a full stop; None without such ties."""
    kinds = [(figures.contradicted, "the judge contradicted itself"), (figures.called, "the judge called a tie")]
    count, words = max(kinds, key=lambda kind: kind[0])
    return f"{count} of {counted(figures.n_judged, 'pair')}: {words}" if count else None


def majority_headline(panel: Panel, escape: Escape) -> str:
    """The same for the majority of a panel."""
    names = (escape(panel.candidate), escape(panel.baseline))
    return _sentence(f"majority of {len(panel.policies)} judges", panel.majority, *names)


def seeds_headline(spread: SeedSpread, escape: Escape) -> str:
    """A comparison over all its training seeds: the mean win rate, and how certain that is."""
    judge, candidate, baseline = (escape(name) for name in (spread.judge, spread.candidate, spread.baseline))
    return f"{judge}: {candidate} against {baseline}, {len(spread.seeds)} training seeds: {over_seeds(spread)}"


def over_seeds(spread: SeedSpread) -> str:
    """The mean win rate of several training seeds, their standard deviation and the intervals."""
    found = [f"standard deviation {spread.standard_deviation:.1f}"]
    if spread.interval_seeds:
        found.append(f"95 % CI over seeds {span(spread.interval_seeds)}")
    if spread.interval_both:
        found.append(f"95 % CI over seeds and prompts {span(spread.interval_both)}")
    return f"mean win rate {spread.mean:.1f} % ({'; '.join(found)})"


def _sentence(by: str, figures: TallyFigures, candidate: str, baseline: str) -> str:
    claim, evidence = verdict(figures, candidate, baseline)
    return f"{by}: {claim}: {evidence}" if evidence else f"{by}: {claim}"


def verdict(figures: TallyFigures, candidate: str, baseline: str) -> tuple[str, str]:
    """The two halves of a headline: the claim, and its figures; the second is empty without any verdict.

    The win rate is that of the system named first in the claim.
    """
    if figures.win_rate is None:
        return f"no verdict on {candidate} against {baseline} ({unread(figures)})", ""
    claim = {
        "candidate": f"{candidate} beats {baseline}",
        "baseline": f"{baseline} beats {candidate}",
        "no difference": f"no difference shown between {candidate} and {baseline}",
        "too few": f"too few pairs to compare {candidate} with {baseline}",
    }[figures.finding]
    weighted = figures.kind == "weighted"
    found = rate_details(figures)
    found.append(f"n = {figures.n_judged}")
    found += [f"{figures.identical} identical"] if figures.identical else []
    evidence = f"{'weighted ' * weighted}win rate {number(claimed_rate(figures))} % ({', '.join(found)})"
    if figures.reversible and figures.finding in ("candidate", "baseline"):
        evidence += f". The pairs without a verdict ({unread(figures)}) could reverse this"
    return claim, evidence


def claimed_rate(figures: TallyFigures) -> float | None:
    """The win rate of the system that the claim names first: the baseline if it beats the candidate."""
    return _claimed(figures, figures.win_rate)


def rate_details(figures: TallyFigures) -> list[str]:
    """What follows the claimed rate: its interval and, of a weighted judge, the discrete rate."""
    ends = [_claimed(figures, end) for end in figures.interval or ()]
    found = [f"{interval_name(figures)} {span(sorted(end for end in ends if end is not None))}"] if ends else []
    if figures.kind == "weighted":
        found.append(f"discrete {number(_claimed(figures, figures.discrete_win_rate))} %")
    return found


def _claimed(figures: TallyFigures, rate: float | None) -> float | None:
    return rate if rate is None or figures.finding != "baseline" else 100 - rate


def evidence(comparison: Comparison) -> str | None:
    """The significance test, the win rate at equal length, and the minimum detectable difference.

    For counted verdicts the sign test is named, for graded preferences the permutation test.
    """
    tests, length, power = comparison.significance, comparison.length, comparison.power
    found = [sequence] if (sequence := _stopping(comparison)) else []
    if tests.permutation_test.p is not None:
        if comparison.leading_figures.kind == "weighted":
            found.append(f"Permutation test: p {_equals(tests.permutation_test.p)}.")
        elif tests.sign_test.p is not None:
            found.append(
                f"Sign test: p {_equals(tests.sign_test.p)} ({counted(tests.sign_test.n, 'pair')} without ties)."
            )
    if length is not None and length.adjusted.win_rate is not None:
        adjusted = length.adjusted
        found.append(
            f"Win rate of {one_line(comparison.candidate, 60)} at equal length: {number(adjusted.win_rate)} % "
            f"(95 % CI {span(adjusted.interval)}{f'; {adjusted.note}' if adjusted.note else ''})."
        )
    if people := comparison.with_labels:
        found.append(
            f"With people's labels on {people.labels} of {counted(people.pairs, 'pair')}: win rate of "
            f"{one_line(comparison.candidate, 60)} {people.win_rate:.1f} % (95 % CI {span(people.interval)})."
        )
    if power.smallest_difference is not None:
        found.append(f"Minimum detectable difference: {power.smallest_difference:.1f} points.")
    return " ".join(found) or None


def interval_name(figures: TallyFigures) -> str:
    """What kind of interval the figures have."""
    return "95 % confidence sequence" if figures.interval_method == "confidence sequence" else "95 % CI"


def _stopping(comparison: Comparison) -> str | None:
    """When judging stopped, and how many pairs that saved; None if all pairs were to be judged."""
    looked = comparison.sequential
    if looked is None:
        return None
    goal = "decided" if looked.rule == "decided" else f"an interval of {looked.rule.removeprefix('width=')} points"
    if looked.judged == looked.pairs:
        return f"To be judged until {goal}: it took all {counted(looked.pairs, 'pair')}."
    if not looked.met:
        return f"To be judged until {goal}: not reached after {looked.judged} of {looked.pairs} pairs."
    return (
        f"Judged until {goal}: {looked.judged} of {looked.pairs} pairs, {looked.pairs - looked.judged} saved; the "
        f"confidence sequence is for the win rate over all {looked.pairs}."
    )


def cautions(judge: Judge, comparison: Comparison) -> list[str]:
    """Every warning that applies to one comparison, plain text: the judge's and the comparison's."""
    figures = comparison.leading_figures
    found = judge_warnings(judge)
    if figures.finding == "too few":
        pairs = counted(figures.win + figures.loss, "pair")
        found.append(f"too few: {pairs} with a winner of {figures.n_judged} judged; a finding takes {LEAST_DECIDED}")
    if figures.second_interval:
        found.append(
            f"uncertain: the bootstrap interval ({span(figures.second_interval)} %) would lead to another finding"
        )
    if missing := figures.unparsed + figures.failed:
        reverses = ", which could reverse the result" * figures.reversible
        found.append(
            f"{missing} of {counted(figures.n, 'pair')} {'has' if figures.n == 1 else 'have'} no verdict "
            f"({unread(figures)}): worst- and best-case bounds "
            f"{span(figures.bounds)} %{reverses}"
        )
    consistency = comparison.consistency
    if consistency is not None and consistency < _LEAST_CONSISTENCY:
        changed = round(comparison.consistency_n * (1 - consistency / 100))
        found.append(
            f"inconsistent: the verdict changed with the order of the answers for {changed} of "
            f"{counted(comparison.consistency_n, 'pair')} ({100 - consistency:.1f} %)"
        )
    return [capital(text) for text in (*found, *comparison.warnings)]


def trust(judge: Judge, escape: Escape) -> str:
    """How far the judge agrees with people, if anybody measured it."""
    return f"Judge {escape(judge.name)} ({escape(judge.model)}); agreement with people: {escape(judge.agreement)}."


def judge_warnings(judge: Judge) -> list[str]:
    """What a reader must know about the judge before its figures."""
    found = [judge.warning] if judge.warning else []
    if judge.other_model:
        found.append("another model than the card's was asked; do not compare these figures with published ones")
    return [*found, *judge.warnings]


def length_control(comparison: Comparison) -> str | None:
    """AlpacaEval's length-controlled rate, or why there is none; None if it does not apply."""
    figures = comparison.length_control
    if figures is None:
        return None
    if figures.win_rate is None:
        return figures.note
    error = figures.standard_error
    spread = "" if error is None else f"standard error {error:.1f}; "
    return f"length-controlled win rate {figures.win_rate:.1f} % ({spread}{figures.note})"


def probability(p: float | None) -> str:
    """A p-value to three decimals."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _equals(p: float | None) -> str:
    return f"= {probability(p)}".replace("= <", "<")


def kappas(agreement: PairAgreement, escape: Escape) -> str:
    """How two judges agree, in a line."""
    names = " and ".join(map(escape, agreement.judges))
    if agreement.agreement is None:
        return f"{names}: no pair that both read"
    kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    pairs = counted(agreement.n, "pair")
    return f"{names}: kappa {kappa}, the same outcome for {agreement.agreement:.1f} % of {pairs}"


def spent(report: ReportData, escape: Escape) -> str | None:
    """What judging cost, in total and by judge; None if it cost nothing."""
    if not report.usd:
        return None
    parts = ", ".join(f"{escape(judge.name)} {judge.usd:.2f}" for judge in report.judges if judge.usd)
    return f"Spent on judging: {report.usd:.2f} USD" + (f" ({parts})" if parts else "")


def unjudged(report: ReportData, escape: Escape) -> list[str]:
    """The comparisons that are still to be judged."""
    return [
        f"{escape(each.judge)}: {escape(each.candidate)} against {escape(each.baseline)}"
        + (f" ({escape(each.stopped)})" if each.stopped else "")
        for each in report.not_judged
    ]


def unread(figures: TallyFigures) -> str:
    """The pairs without a verdict, in words."""
    return f"{figures.unparsed} unparsed, {figures.failed} failed"


def capital(text: str) -> str:
    """A sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def number(value: float | None) -> str:
    """A figure to one decimal."""
    return "-" if value is None else f"{value:.1f}"


def span(values: Sequence[float] | None) -> str:
    """An interval."""
    if values is None:
        return "-"
    low, high = values
    return f"{low:.1f}–{high:.1f}" if low >= 0 else f"{low:.1f} to {high:.1f}"
