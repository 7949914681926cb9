"""The report as a document: warnings, sentences, tables and figures in order. What renders it decides nothing.

Texts are plain, on one line, and may hold foreign names: whoever renders them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from instruct.base.errors import one_line
from instruct.reporting import text as sentences
from instruct.reporting.bench_tables import bench_tables
from instruct.reporting.cautions import judge_warnings, task_warnings
from instruct.reporting.comparison_tables import brief_table, comparison_tables, panel_tables
from instruct.reporting.figures import TEXT_FIGURES, outcome_names
from instruct.reporting.model import Figure, JudgeReport, ReportData, ReportWarning, claim_warning
from instruct.reporting.report_tables import lineage_tables, report_tables
from instruct.reporting.tables import Table
from instruct.reporting.task_tables import task_tables
from instruct.reporting.text import name
from instruct.reporting.text_tables import text_tables
from instruct.reporting.verdicts import Verdict, verdict


@dataclass(frozen=True)
class Caution:
    """A warning about a judge, about texts or about everything (`about` is empty)."""

    warning: ReportWarning
    about: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two, about a judge or about everything; `label` says what they are."""

    text: str
    about: str = ""
    label: str = ""


@dataclass(frozen=True)
class Listing:
    """Sentences, each with those that explain it. `missing`: of what is not there yet; `leads`: they come first."""

    title: str
    items: list[tuple[str, list[str]]]
    missing: bool = False
    leads: bool = False


@dataclass(frozen=True)
class Brief:
    """What the numbers have in full: for what shows the opening alone."""

    content: Table | list[str]


@dataclass(frozen=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: list[Block]


Block = Caution | Paragraph | Listing | Brief | Section | Verdict | Figure | Table


@dataclass(frozen=True)
class Document:
    """`opening`: what a reader must know, which is all that a terminal shows; then the numbers and their lineage."""

    title: str
    opening: list[Block]
    numbers: list[Block] = field(default_factory=list)
    lineage: list[Table] = field(default_factory=list)

    def claims_changed(self) -> list[str]:
        """The warnings that change what may be claimed, each with what it is about."""
        lines = []
        for block in self.opening:
            if isinstance(block, Caution) and block.warning.severity == "claim":
                lines.append(": ".join(filter(None, [block.about, block.warning.text])))
            elif isinstance(block, Verdict):
                about = f"{block.judge}, {block.candidate} against {block.baseline}"
                lines += [f"{about}: {warning}" for warning in block.warnings if warning.severity == "claim"]
        return [one_line(line, 1000) for line in lines]


def document(report: ReportData) -> Document:
    """The document of a report."""
    opening: list[Block] = [
        Caution(warning, name(judge.name)) for judge in report.judges for warning in judge_warnings(judge)
    ]
    if report.bench:
        found: list[tuple[str, list[str]]] = [(line, []) for line in sentences.bench_headlines(report.bench)]
        opening.append(Listing("Objectives side by side", found, leads=True))
    if report.seeds:
        seeds = [(sentences.seeds_headline(spread), sentences.seeds_cost(spread)) for spread in report.seeds]
        opening.append(Listing("Training seeds", seeds))
    for judge in report.judges:
        opening += [
            *(verdict(judge, pair) for pair in judge.comparisons),
            Paragraph(sentences.trust(judge), name(judge.name)),
            Brief(brief_table(judge.comparisons)),
        ]
    return Document(one_line(report.run, 200), [*opening, *_together(report)], _numbers(report), lineage_tables(report))


def summary(whole: Document, where: str = "") -> Document:
    """A document's claims, each with what changes it, and the tables of its opening; `where`: a path or URL."""
    blocks: list[Block] = []
    for block in whole.opening:
        match block:
            case Verdict():
                warnings = [f"Warning: {warning}" for warning in block.warnings if warning.severity == "claim"]
                blocks.append(Listing("Verdict", [(block.headline, warnings)]))
            case Caution() if block.warning.severity != "claim":
                continue
            case Brief(content=Table() as table):
                blocks.append(replace(table, title="", note=""))
            case Brief(content=list() as texts):
                blocks.append(Listing("", [(text, []) for text in texts]))
            case _:
                blocks.append(block)
    return Document(whole.title, [*blocks, *[Paragraph(where, label="Report")] * bool(where)])


def _together(report: ReportData) -> Iterator[Block]:
    """What the opening says about several comparisons, about texts, and about the whole run."""
    if report.panels:
        majorities = [
            (sentences.majority_headline(panel), [sentences.kappas(pair) for pair in panel.agreements])
            for panel in report.panels
        ]
        yield Listing("Panel of judges", majorities)
    if differences := [sentences.paired_difference(pair) for pair in report.paired if pair.difference is not None]:
        yield Brief(differences)
    for text in report.texts.warnings if report.texts else ():
        yield Caution(claim_warning(text))
    for warning in task_warnings(report.tasks) if report.tasks else ():
        yield Caution(warning)
    for table in (*text_tables(report)[:1], *task_tables(report.tasks)[:1]):
        yield Brief(table)
    if report.tasks and report.tasks.forgetting:
        yield Paragraph(sentences.forgetting(report.tasks.forgetting))
    if cost := sentences.spent(report):
        yield Paragraph(cost)
    if report.not_judged:
        items: list[tuple[str, list[str]]] = []
        for pair in report.not_judged:
            stopped = f" ({one_line(pair.stopped)})" if pair.stopped else ""
            items.append((f"{name(pair.judge)}: {name(pair.candidate)} against {name(pair.baseline)}{stopped}", []))
        yield Listing("Not judged yet", items, missing=True)


def _numbers(report: ReportData) -> list[Block]:
    """The figures and tables, in order."""
    figures = {figure.name: figure for figure in report.figures}

    def shown(*names: str) -> list[Block]:
        return [figures[name] for name in names if name in figures]

    names = outcome_names(report.judges)
    blocks = [*(bench_tables(report.bench) if report.bench else []), *shown("win_rates", "stopping")]
    for judge in report.judges:
        content = [*_about(judge), *shown(names[judge.name]), *comparison_tables(judge.comparisons)]
        blocks.append(Section(f"Verdicts of {name(judge.name)}", content))
    blocks += [*shown("length_difference"), *(table for panel in report.panels for table in panel_tables(panel))]
    blocks += shown(*TEXT_FIGURES)
    blocks += [*text_tables(report), *task_tables(report.tasks)]
    for table in report_tables(report):
        blocks += [table, *(shown("answer_lengths") if table.title == "Answers" else [])]
    return [*blocks, *shown("training", "perplexity", "task_curves")]


def _about(judge: JudgeReport) -> Iterator[Block]:
    for label, text in (("The judge", judge.description), ("Notes", judge.notes)):
        if text:
            yield Paragraph(one_line(text, 1000), name(judge.name), label)
    notes = dict.fromkeys(one_line(note, 1000) for pair in judge.comparisons for note in pair.notes)
    if notes:
        yield Listing("", [(note, []) for note in notes])
