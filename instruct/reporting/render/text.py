"""Sentences that report.md, the page and the terminal share, and the escaping of foreign text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from instruct.analysis.results import PairAgreement
from instruct.errors import one_line
from instruct.reporting.schema import Comparison, Judge, Panel, Report, TallyFigures

Escape = Callable[[object], str]

POLICIES = {
    "single": "one order a pair",
    "strict": "both orders, disagreement is a tie",
    "upstream": "as the judge's authors count",
}
POSITIONS = (
    "Consistency: the same answer preferred in both orders, over pairs readable in both. First position: verdicts "
    "other than ties that went to the answer shown first; without a preference for a place it is 50."
)

_SPECIAL = re.compile(r"[\\`*\[\]|~$#!{}]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}


def escape_markdown(text: object, limit: int = 200) -> str:
    """Foreign text as one line of Markdown that shows it and does nothing else: no markup, table cell, HTML or link."""
    line = _SPECIAL.sub(lambda match: "\\" + match.group(), one_line(text, limit))
    for mark, entity in _ENTITIES.items():
        line = re.sub(re.escape(mark), entity, line, flags=re.IGNORECASE)
    return line


def escape_terminal(text: object, limit: int = 300) -> str:
    """Foreign text as one line without control characters, and without brackets that rich would read."""
    return one_line(text, limit).replace("[", "(").replace("]", ")")


def headline(judge: Judge, comparison: Comparison, escape: Escape) -> str:
    """Who won under the leading policy, by how much, from how many pairs, and how sure that is."""
    names = (escape(comparison["candidate"]), escape(comparison["baseline"]))
    return _sentence(escape(judge["name"]), comparison["policies"][comparison["leading"]], *names)


def majority_headline(panel: Panel, escape: Escape) -> str:
    """The same of what most judges of a panel said."""
    names = (escape(panel["candidate"]), escape(panel["baseline"]))
    return _sentence(f"majority of {len(panel['policies'])} judges", panel["majority"], *names)


def _sentence(by: str, figures: TallyFigures, candidate: str, baseline: str) -> str:
    claim, evidence = verdict(figures, candidate, baseline)
    return f"{by}: {claim}: {evidence}" if evidence else f"{by}: {claim}."


def verdict(figures: TallyFigures, candidate: str, baseline: str) -> tuple[str, str]:
    """The two halves of a headline: who won, and by which figures; the second is empty without any verdict."""
    if figures["win_rate"] is None:
        return f"no verdict on {candidate} against {baseline} ({unread(figures)})", ""
    error = figures["standard_error"]
    discrete = f"discrete {number(figures['discrete_win_rate'])} %, " if figures["kind"] == "weighted" else ""
    rate = (
        f"{candidate}'s {'weighted ' if discrete else ''}win rate is {figures['win_rate']:.1f} % ({discrete}"
        f"n = {figures['n_judged']}, {'no standard error' if error is None else f'standard error {error:.1f}'})"
    )
    if figures["finding"] == "too few":
        return f"too few pairs to tell {candidate} from {baseline}", f"{rate}."
    low, high = figures["interval"] or (0.0, 100.0)
    interval = f"its 95 % interval, {low:.1f} to {high:.1f}"
    if figures["finding"] == "no difference":
        return f"no difference shown between {candidate} and {baseline}", f"{rate}; {interval}, includes 50."
    won, lost = (candidate, baseline) if figures["finding"] == "candidate" else (baseline, candidate)
    margin = abs(figures["win_rate"] - 50)
    evidence = f"{rate}; {interval}."
    if figures["reversible"]:
        evidence += f" The pairs without a verdict ({unread(figures)}) could reverse that."
    return f"{won} won against {lost} by {margin:.1f} points over an even 50", evidence


def trust(judge: Judge, escape: Escape) -> str:
    """How far the judge agrees with people, as far as anybody measured it."""
    model = escape(judge["model"])
    return f"Judge {escape(judge['name'])} ({model}); agreement with people: {escape(judge['agreement'])}."


def judge_warnings(judge: Judge) -> list[str]:
    """What must be said of the judge before its figures."""
    found = [judge["warning"]] if judge["warning"] else []
    if judge["other_model"]:
        found.append("another model than the card's was asked; these figures may not stand beside published ones")
    return [*found, *judge["warnings"]]


def length_control(comparison: Comparison) -> str | None:
    """The length-controlled rate, or why there is none, where it applies at all."""
    figures = comparison["length_control"]
    if figures is None:
        return None
    if figures["win_rate"] is None:
        return figures["note"]
    error = figures["standard_error"]
    spread = "" if error is None else f"standard error {error:.1f}; "
    return f"length-controlled win rate {figures['win_rate']:.1f} % ({spread}{figures['note']})"


def evidence(comparison: Comparison) -> str | None:
    """How far from chance the result is, what is left of it at equal length, and what so many pairs could show."""
    tests, length, power = comparison["significance"], comparison["length"], comparison["power"]
    sign, permutation = tests["sign_test"], tests["permutation_test"]
    found = []
    if permutation["p"] is not None:
        found.append(
            f"permutation test p {_equals(permutation['p'])}; sign test p {_equals(sign['p'])} over {sign['n']} pairs"
        )
    if length is not None and length["adjusted"]["win_rate"] is not None:
        adjusted = length["adjusted"]
        found.append(f"win rate at equal length {number(adjusted['win_rate'])} % ({span(adjusted['interval'])})")
    if power["smallest_difference"] is not None:
        found.append(f"so many pairs can show {power['smallest_difference']:.1f} points")
    return "; ".join(found) or None


def probability(p: float | None) -> str:
    """A p-value to three decimals."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _equals(p: float | None) -> str:
    return f"= {probability(p)}".replace("= <", "<")


def kappas(agreement: PairAgreement, escape: Escape) -> str:
    """How two judges agree, in a line."""
    names = " and ".join(map(escape, agreement["judges"]))
    if agreement["agreement"] is None:
        return f"{names}: no pair that both read"
    kappa = "undefined" if agreement["kappa"] is None else f"{agreement['kappa']:.2f}"
    return f"{names}: kappa {kappa}, the same outcome for {agreement['agreement']:.1f} % of {agreement['n']} pairs"


def spent(report: Report, escape: Escape) -> str | None:
    """What judging cost and each judge's part of it; None where it cost nothing."""
    if not report["usd"]:
        return None
    parts = ", ".join(f"{escape(judge['name'])} {judge['usd']:.2f}" for judge in report["judges"] if judge["usd"])
    return f"spent on judging: {report['usd']:.2f} USD" + (f" ({parts})" if parts else "")


def unjudged(report: Report, escape: Escape) -> list[str]:
    """The comparisons that are to be judged and are not."""
    return [
        f"{escape(each['judge'])}: {escape(each['candidate'])} against {escape(each['baseline'])}"
        + (f" ({escape(each['stopped'])})" if each["stopped"] else "")
        for each in report["not_judged"]
    ]


def unread(figures: TallyFigures) -> str:
    """The pairs without a verdict, in words."""
    return f"{figures['unparsed']} unparsed, {figures['failed']} failed"


def number(value: float | None) -> str:
    """A figure to one decimal."""
    return "-" if value is None else f"{value:.1f}"


def span(values: Sequence[float] | None) -> str:
    """An interval."""
    return "-" if values is None else f"{values[0]:.1f} to {values[1]:.1f}"
