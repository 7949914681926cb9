"""One comparison by one judge as the document shows it: the claim, its figures in short, a bar, warnings, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from instruct.base.errors import one_line
from instruct.judging.human_agreement import is_chance, kappa_text
from instruct.reporting import text as sentences
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.comparison_tables import comparison_tables
from instruct.reporting.model import ComparisonReport, JudgeReport, ReportWarning, TallyFigures
from instruct.reporting.tables import Table
from instruct.reporting.text import capital, name, number

# More reasons than this are in the table only.
_MOST_REASONS = 3


class Fact(NamedTuple):
    """A title, which may end in a system's name, a value, and a few words on it."""

    title: str
    name: str
    value: str
    words: str


@dataclass(frozen=True)
class BarPart:
    """A part of the stacked bar: `x` and `width` in percent of all pairs."""

    name: str
    label: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class Verdict:
    """A comparison; `claim` is the headline's first half in pieces, every other one a name.

    `details` are the sentences below the headline, `notes` say how the replies were made, and `missing` why there is no
    verdict; a section below has these in full. `seeds`: the spread over training seeds, if this is one of several.
    """

    judge: str
    model: str
    candidate: str
    baseline: str
    headline: str
    claim: list[str]
    leads: str | None
    details: list[str]
    seeds: str | None
    facts: list[Fact]
    parts: list[BarPart]
    rate: float | None
    interval: list[float] | None
    judge_warnings: list[ReportWarning]
    warnings: list[ReportWarning]
    missing: list[str]
    notes: list[str]
    tables: list[Table]


def verdict(judge: JudgeReport, comparison: ComparisonReport) -> Verdict:
    """What the document says of a comparison."""
    figures, spread = comparison.leading_figures, comparison.spread
    said = (sentences.evidence, sentences.length_control, sentences.style, sentences.noise)
    details = [text(comparison) for text in said]
    return Verdict(
        judge=name(judge.name),
        model=name(judge.model),
        candidate=name(comparison.candidate),
        baseline=name(comparison.baseline),
        headline=sentences.headline(judge, comparison),
        claim=sentences.claim(figures, comparison.candidate, comparison.baseline, bool(spread)),
        leads=comparison.leads,
        details=[one_line(capital(text), 1000) for text in details if text],
        seeds=f"One of {len(spread.seeds)} training seeds; over all of them: {sentences.over_seeds(spread)}."
        if spread
        else None,
        facts=_facts(judge, comparison, figures),
        parts=_parts(figures, name(comparison.candidate), name(comparison.baseline)),
        rate=figures.win_rate,
        interval=figures.interval,
        judge_warnings=judge_warnings(judge),
        warnings=comparison.warnings,
        missing=_missing(comparison),
        notes=[one_line(note, 1000) for note in comparison.notes],
        tables=comparison_tables([comparison], named=False),
    )


def _missing(comparison: ComparisonReport) -> list[str]:
    reasons = [reason for reason in comparison.reasons if reason.verdict in ("unparsed", "failed")]
    lines = [f"{reason.n} x {reason.verdict}: {one_line(reason.reason, 120)}" for reason in reasons[:_MOST_REASONS]]
    more = sum(reason.n for reason in reasons[_MOST_REASONS:])
    return [*lines, f"{more} more without a verdict; report.md lists the reasons"] if more else lines


def _parts(figures: TallyFigures, candidate: str, baseline: str) -> list[BarPart]:
    counts = {
        "win": (f"{candidate} better", figures.win),
        "tie": ("tie called by the judge", figures.called),
        "split": ("judge contradicted itself", figures.contradicted),
        "same": ("identical answers", figures.identical),
        "loss": (f"{baseline} better", figures.loss),
        "none": ("no verdict", figures.unparsed + figures.failed),
    }
    parts, x = [], 0.0
    for kind, (label, count) in counts.items():
        width = 100 * count / figures.n if figures.n else 0.0
        if count or kind in ("win", "loss"):
            parts.append(BarPart(kind, label, count, x, width))
        x += width
    return parts


def _facts(judge: JudgeReport, comparison: ComparisonReport, figures: TallyFigures) -> list[Fact]:
    """Win rate, decided pairs, the judge's agreement with people, and its consistency."""
    facts = [_rate(comparison, figures), _decided(comparison, figures), _trust(judge)]
    if comparison.consistency is not None:
        first = f"the answer shown first wins {number(comparison.first_position_rate)} % of the time"
        facts.append(Fact("Same verdict in both orders", "", f"{comparison.consistency:.1f} %", first))
    return facts


def _rate(comparison: ComparisonReport, figures: TallyFigures) -> Fact:
    """The win rate of the system that the claim names first."""
    names = [one_line(system, 40) for system in (comparison.candidate, comparison.baseline)]
    title = "Weighted win rate of" if figures.kind == "weighted" else "Win rate of"
    if figures.win_rate is None:
        return Fact(title, names[0], "none", "no pair has a verdict")
    lost = figures.finding == "baseline"
    words = sentences.rate_details(figures) or ["no interval"]
    words += [f"{names[0]}: {figures.win_rate:.1f} %"] if lost else []
    return Fact(title, names[lost], f"{number(sentences.claimed_rate(figures))} %", "; ".join(words))


def _decided(comparison: ComparisonReport, figures: TallyFigures) -> Fact:
    """How many pairs have a winner, and what the others are."""
    orders = {"both": "judged in both orders", "one": "judged in one order", "alone": "each answer rated alone"}
    identical = f"{figures.identical} of {figures.n_judged} pairs: identical answers" if figures.identical else None
    missing = comparison.pairs_expected - figures.n_judged
    words = [
        sentences.largest_tie(figures) or identical or ("no ties" if figures.n_judged else None),
        f"{missing} of {comparison.pairs_expected} without a verdict" if missing else None,
        orders[comparison.orders],
    ]
    value = f"{figures.win + figures.loss} of {figures.n_judged}"
    return Fact("Decided pairs", "", value, "; ".join(filter(None, words)))


def _trust(judge: JudgeReport) -> Fact:
    measured = [agreement for agreement in (judge.human_agreement or {}).values() if "kappa" in agreement]
    worst = min(measured, key=lambda agreement: agreement["kappa"], default=None)  # the least flattering of several
    trusted = f"κ {kappa_text(worst)}" if worst else "not measured"
    if worst and is_chance(worst):
        trusted = "no better than chance"
    detail = one_line(judge.agreement, 400) if judge.human_agreement else "how often this judge decides as people do"
    if not measured and judge.agreement != "not measured":
        trusted, detail = "unknown", one_line(judge.agreement, 400)
    return Fact("Agreement with people", "", trusted, detail)
