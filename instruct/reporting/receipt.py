"""The receipt of a published claim: what each check of its report leaves of it, and whether it would survive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from instruct.analysis.results import LengthAdjusted, PredictionPowered, StyleControl
from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.judging.human_agreement import is_chance
from instruct.reporting.cautions import LEAST_CONSISTENCY
from instruct.reporting.document import Block, Document, Paragraph, Section
from instruct.reporting.model import ComparisonReport, JudgeReport, ReportData, policy_rows
from instruct.reporting.render.html import tables_page
from instruct.reporting.render.lines import render_markdown
from instruct.reporting.tables import columns_table, text_columns
from instruct.reporting.text import adjusted, claim_figures, name, number, span, unread

Survives = Literal["yes", "no", "not known"]
_TITLE = "Replication receipt"
_NOTE = (
    "A claim survives a check if the rate of the system it prefers is above 50 with its whole 95 % interval. Not known "
    "means: the files do not say it, or it cannot be estimated from them. A claim that survives is no proof: another "
    "judge, other prompts or another training were not tried."
)


class Check(NamedTuple):
    """A check of a claim, what was found, and whether the claim survives it."""

    check: str
    found: str
    survives: Survives


class Receipt(NamedTuple):
    """What is left of one claim: `claim` in words, and `verdict`, would it survive."""

    claim: str
    verdict: str
    checks: list[Check]


def receipts(report: ReportData) -> list[Receipt]:
    """One for each comparison of the report with a verdict."""
    rows = [row for row in policy_rows(report.judges) if row.leads and row.figures.win_rate is not None]
    return [_receipt(row.judge, row.comparison) for row in rows]


def write_receipt(report: ReportData, folder: Path) -> Path:
    """Write receipt.md and receipt.html, each whole or not at all; the path of the first."""
    title = f"{_TITLE}: {one_line(report.run, 100)}"
    sections: list[Block] = []
    tables = []
    for receipt in receipts(report):
        table = columns_table("", receipt.checks, text_columns(*Check._fields))
        sections.append(Section(receipt.claim, [Paragraph(receipt.verdict), table]))
        tables.append(replace(table, title=f"{receipt.claim}. {receipt.verdict}"))
    write_atomically(folder / "receipt.md", render_markdown(Document(title, [*sections, Paragraph(_NOTE)])))
    write_atomically(folder / "receipt.html", tables_page(title, [_NOTE], tables))
    return folder / "receipt.md"


def _receipt(judge: JudgeReport, comparison: ComparisonReport) -> Receipt:
    figures = comparison.leading_figures
    rate = figures.win_rate or 0.0
    ours, theirs = name(comparison.candidate), name(comparison.baseline)
    better = f"{ours} is better than {theirs}" if rate > 50 else f"{theirs} is better than {ours}"
    better = better if rate != 50 else f"{ours} and {theirs} are alike"
    claim = f"{name(judge.name)}: {better} ({max(rate, 100 - rate):.1f} % for {ours if rate >= 50 else theirs})"
    checks = list(_checks(judge, comparison, rate > 50))
    failed, unknown = ([check.check for check in checks if check.survives == it] for it in ("no", "not known"))
    said = "Would not survive" if failed else "Would survive what could be checked" if unknown else "Would survive"
    held = f"{sum(check.survives == 'yes' for check in checks)} of {len(checks)} checks"
    parts = [f"{said}: {held}"]
    parts += [f"{what}: {', '.join(names)}" for what, names in (("fails", failed), ("not known", unknown)) if names]
    return Receipt(claim, f"{'; '.join(parts)}.", checks)


def _checks(judge: JudgeReport, comparison: ComparisonReport, above: bool) -> Iterator[Check]:
    """Every check, of a claim that the candidate's rate is `above` 50 or not; rates are those of the better one."""
    figures, tests, power = comparison.leading_figures, comparison.significance, comparison.power
    claimed = figures.finding == ("candidate" if above else "baseline")
    figure = f"{claim_figures(figures)}; {adjusted(tests)}" if tests.adjusted_p is not None else claim_figures(figures)
    yield Check("paired interval and test", figure, "yes" if claimed else "no")
    bounds = figures.bounds and _claimed(figures.bounds, above)
    missing = f"{unread(figures)}; bounds {span(bounds)} %"
    yield Check("pairs without a verdict", missing, "no" if figures.reversible else "yes")
    length = comparison.length.adjusted if comparison.length else None
    yield _rate("equal length", length, above)
    yield _rate("equal style", comparison.style, above)
    yield _order(comparison)
    yield _trust(judge)
    if people := comparison.with_labels:
        yield _rate("people's labels", people, above)
    least, distance = power.smallest_difference, abs((figures.win_rate or 50) - 50)
    shown = f"minimum detectable difference {number(least)} points, {distance:.1f} observed"
    yield Check("power", shown, "not known" if least is None else "yes" if distance >= least else "no")


def _rate(check: str, figures: LengthAdjusted | StyleControl | PredictionPowered | None, above: bool) -> Check:
    """Whether a rate and its interval are on the claim's side."""
    note = getattr(figures, "note", None)
    if figures is None or figures.win_rate is None or figures.interval is None:
        return Check(check, note or "no answers to compare", "not known")
    interval, (rate,) = _claimed(figures.interval, above), _claimed([figures.win_rate], above)
    figure = f"{rate:.1f} % ({span(interval)}{f'; {note}' if note else ''})"
    return Check(check, figure, "yes" if interval[0] > 50 else "no")


def _claimed(rates: Sequence[float], above: bool) -> list[float]:
    """Rates of the candidate as those of the side that the claim prefers, in order."""
    return list(rates) if above else [100 - rate for rate in reversed(rates)]


def _order(comparison: ComparisonReport) -> Check:
    if comparison.consistency is None:
        return Check("order of the answers", "the files have one order of each pair, or do not say it", "not known")
    figure = f"the same verdict in both orders for {comparison.consistency:.1f} % of {comparison.consistency_n}"
    return Check("order of the answers", figure, "yes" if comparison.consistency >= LEAST_CONSISTENCY else "no")


def _trust(judge: JudgeReport) -> Check:
    agreement = one_line(judge.agreement, 400)
    measured = [figures for figures in (judge.human_agreement or {}).values() if "kappa" in figures]
    weak = bool(judge.warning or judge.warnings) or any(map(is_chance, measured))
    return Check("the judge's trust", agreement, "not known" if not measured else "no" if weak else "yes")
