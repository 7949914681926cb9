"""report.html: the report and its pairs as one file that opens from disk and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from instruct.analysis.results import SeedSpread
from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.judging.human_agreement import is_chance, kappa_text
from instruct.reporting.model import Comparison, Judge, ReportData, TallyFigures
from instruct.reporting.render.html import escaped_json, image, render
from instruct.reporting.seeds import spread_with
from instruct.reporting.tables import Table, comparison_tables, lineage_tables, panel_tables, report_tables
from instruct.reporting.task_tables import task_tables
from instruct.reporting.text import (
    capital,
    cautions,
    claimed_rate,
    evidence,
    kappas,
    largest_tie,
    length_control,
    majority_headline,
    number,
    over_seeds,
    rate_details,
    seeds_headline,
    spent,
    unjudged,
    verdict,
)
from instruct.reporting.text_tables import text_tables
from instruct.run.directory import RunDirectory


@dataclass(frozen=True)
class Part:
    """A part of the stacked bar: `x` and `width` in percent of all pairs."""

    name: str
    label: str
    count: int
    x: float
    width: float


class Fact(NamedTuple):
    """What the page says before its bars: a title, which may end in a system's name, a value, and a few words on it."""

    title: str
    name: str
    value: str
    words: str


@dataclass(frozen=True)
class View:
    """One comparison as the page shows it; names and sentences are plain text, which the template escapes.

    `claim`: the first sentence in pieces, every other one a name, which is not broken at its hyphens.
    """

    judge: str
    model: str
    candidate: str
    baseline: str
    claim: list[str]
    evidence: str
    finding: str
    parts: list[Part]
    rate: float | None
    interval: list[float] | None
    facts: list[Fact]
    cautions: list[str]
    notes: list[str]
    tables: list[Table]


def write_page(run: RunDirectory, report: ReportData, pairs: str) -> None:
    """Write report/report.html next to the report's other files, with its figures and pairs.

    Args:
        pairs: as in render_page.
    """
    write_atomically(run.report / "report.html", render_page(report, page_figures(report, run.report), pairs))


def render_page(report: ReportData, figures: Mapping[str, Path], pairs: str | None) -> str:
    """report.html.

    The page's policy (Content-Security-Policy) allows its own style sheet and script by their hashes, and embedded
    images: nothing else runs, and nothing is loaded. Names are escaped; prompts, answers and replies come as JSON and
    are shown with `textContent` only.

    Args:
        figures: a figure's title to its SVG file; shown as an image, in which nothing can run.
        pairs: what page_pairs.packed_pairs made, in the order of the report's comparisons; None: a page without them.
    """
    views = [
        _view(judge, comparison, spread_with(report, judge, comparison))
        for judge in report.judges
        for comparison in judge.comparisons
    ]
    of_texts, of_tasks = text_tables(report), task_tables(report.tasks)
    leading = [] if views else of_texts[:1] + of_tasks[:1]  # without verdicts, what the first screen has
    return render(
        "report.html.jinja",
        "report.css",
        "report.js",
        run=clean(report.run),
        created=clean(report.created)[:10],
        views=views,
        panels=[
            (capital(majority_headline(panel, clean)), [kappas(each, clean) for each in panel.agreements])
            for panel in report.panels
        ],
        seeds=[seeds_headline(each, clean) for each in report.seeds],
        unjudged=unjudged(report, clean),
        spent=spent(report, clean),
        judges=[judge for judge in report.judges if judge.description or judge.notes],
        figures={clean(title): image(path.read_bytes()) for title, path in figures.items()},
        tables=[
            *(table for panel in report.panels for table in panel_tables(panel)),
            *(table for table in of_texts + of_tasks if table not in leading),
            *report_tables(report),
        ],
        leading=leading,
        text_warnings=[clean(capital(warning), 1000) for warning in report.texts.warnings] if report.texts else [],
        lineage=lineage_tables(report),
        version=clean(report.versions.get("instruct", "")),
        # The names go with the pairs: the script shows them with the texts.
        data=_json(views, pairs) if pairs is not None and views else None,
        clean=clean,
    )


def page_figures(report: ReportData, folder: Path) -> dict[str, Path]:
    """The report's figures by title; missing files are left out."""
    found = {each.title: folder / each.svg for each in report.figures}
    return {title: path for title, path in found.items() if path.is_file()}


def _view(judge: Judge, comparison: Comparison, spread: SeedSpread | None) -> View:
    figures = comparison.leading_figures
    candidate, baseline = clean(comparison.candidate, 80), clean(comparison.baseline, 80)
    names = {"\ue000": candidate, "\ue001": baseline}  # placeholders: `clean` leaves neither in a name
    claim, _ = verdict(figures, *names)
    # A sentence begins with a capital, a name as its owner writes it.
    claim = claim if claim[0] in names else capital(claim)
    controlled = length_control(comparison)
    seeds = f"One of {len(spread.seeds)} training seeds; over all of them: {over_seeds(spread)}." if spread else None
    return View(
        judge=clean(judge.name, 80),
        model=clean(judge.model, 80),
        candidate=candidate,
        baseline=baseline,
        claim=[names.get(piece, piece) for piece in re.split("([\ue000\ue001])", claim)],
        evidence=" ".join(filter(None, [evidence(comparison), seeds])),
        finding=figures.finding,
        parts=_parts(figures, candidate, baseline),
        rate=figures.win_rate,
        interval=figures.interval,
        facts=_facts(judge, comparison, figures),
        cautions=[clean(text, 1000) for text in cautions(judge, comparison)],
        notes=[clean(capital(text), 1000) for text in [controlled, *comparison.notes] if text],
        tables=comparison_tables([comparison], named=False),
    )


def _parts(figures: TallyFigures, candidate: str, baseline: str) -> list[Part]:
    counts = {
        "win": (f"{candidate} better", figures.win),
        "tie": ("tie called by the judge", figures.called),
        "split": ("judge contradicted itself", figures.contradicted),
        "same": ("identical answers", figures.identical),
        "loss": (f"{baseline} better", figures.loss),
        "none": ("no verdict", figures.unparsed + figures.failed),
    }
    parts, x = [], 0.0
    for name, (label, count) in counts.items():
        width = 100 * count / figures.n if figures.n else 0.0
        if count or name in ("win", "loss"):
            parts.append(Part(name, label, count, x, width))
        x += width
    return parts


def _facts(judge: Judge, comparison: Comparison, figures: TallyFigures) -> list[Fact]:
    """Win rate, decided pairs, the judge's agreement with people, and its consistency."""
    facts = [_rate(comparison, figures), _decided(comparison, figures), _trust(judge)]
    if comparison.consistency is not None:
        first = f"the answer shown first wins {number(comparison.first_position_rate)} % of the time"
        facts.append(Fact("Same verdict in both orders", "", f"{comparison.consistency:.1f} %", first))
    return facts


def _rate(comparison: Comparison, figures: TallyFigures) -> Fact:
    """The win rate of the system that the claim names first."""
    names = [clean(name, 40) for name in (comparison.candidate, comparison.baseline)]
    title = "Weighted win rate of" if figures.kind == "weighted" else "Win rate of"
    if figures.win_rate is None:
        return Fact(title, names[0], "none", "no pair has a verdict")
    lost = figures.finding == "baseline"
    words = rate_details(figures) or ["no interval"]
    words += [f"{names[0]}: {figures.win_rate:.1f} %"] if lost else []
    return Fact(title, names[lost], f"{number(claimed_rate(figures))} %", "; ".join(words))


def _decided(comparison: Comparison, figures: TallyFigures) -> Fact:
    """How many pairs have a winner, and what the others are."""
    orders = {"both": "judged in both orders", "one": "judged in one order", "alone": "each answer rated alone"}
    identical = f"{figures.identical} of {figures.n_judged} pairs: identical answers" if figures.identical else None
    missing = comparison.pairs_expected - figures.n_judged
    words = [
        largest_tie(figures) or identical or ("no ties" if figures.n_judged else None),
        f"{missing} of {comparison.pairs_expected} without a verdict" if missing else None,
        orders[comparison.orders],
    ]
    return Fact(
        "Decided pairs", "", f"{figures.win + figures.loss} of {figures.n_judged}", "; ".join(filter(None, words))
    )


def _trust(judge: Judge) -> Fact:
    measured = [each for each in (judge.human_agreement or {}).values() if "kappa" in each]
    worst = min(measured, key=lambda each: each["kappa"], default=None)  # of several sets the least flattering
    trusted = f"κ {kappa_text(worst)}" if worst else "not measured"
    if worst and is_chance(worst):
        trusted = "no better than chance"
    detail = clean(judge.agreement, 400) if judge.human_agreement else "how often this judge decides as people do"
    if not measured and judge.agreement != "not measured":
        trusted, detail = "unknown", clean(judge.agreement, 400)
    return Fact("Agreement with people", "", trusted, detail)


def clean(text: object, limit: int = 200) -> str:
    """Foreign text on one line without control and direction characters; the template escapes the rest."""
    return one_line(text, limit)


def _json(views: list[View], pairs: str) -> str:
    names = [{"judge": view.judge, "candidate": view.candidate, "baseline": view.baseline} for view in views]
    return escaped_json({"names": names, "packed": pairs})
