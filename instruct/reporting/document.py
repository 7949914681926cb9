"""The report as a document: warnings, sentences, tables and figures in order. What renders it decides nothing.

Texts are plain, on one line, and may hold foreign names: whoever renders them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from instruct.analysis.results import Claim, Counts
from instruct.base.errors import counted, one_line
from instruct.reporting import text as sentences
from instruct.reporting.bench import OBJECTIVES, bench_tables
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.comparison_tables import (
    brief_table,
    comparison_tables,
    matrix_tables,
    paired_table,
    panel_table,
    seeds_table,
)
from instruct.reporting.model import (
    ComparisonReport,
    JudgeReport,
    ReportData,
    ReportWarning,
)
from instruct.reporting.provenance import answers_table, experiment_tables, trainings_table
from instruct.reporting.tables import Table
from instruct.reporting.tasks import task_tables
from instruct.reporting.text import name
from instruct.reporting.texts import text_tables
from instruct.scores.claims import of_family, stated

# More reasons than this for missing verdicts are in the table only.
_MOST_REASONS = 3
# Of more comparisons of more than two systems, a terminal has the headlines alone.
_MOST_DETAILED = 2


@dataclass(frozen=True)
class Caution:
    """A warning about a judge, about texts or about everything (`about` is empty)."""

    warning: ReportWarning
    about: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two, about a judge or about everything."""

    text: str
    about: str = ""


@dataclass(frozen=True)
class Listing:
    """Sentences, each with those that explain it. `missing`: of what is not there yet; `leads`: they come first."""

    title: str
    items: Sequence[tuple[str, Sequence[str]]]
    missing: bool = False
    leads: bool = False


@dataclass(frozen=True)
class Brief:
    """What the numbers have in full: for what shows the opening alone."""

    content: Table | list[str]


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
    """A comparison; `claim` is the headline's first half in pieces, every other one a name; `figure` is the other half.

    `details` are the sentences below the headline, `exploratory` those about rates that no claim rests on, after what
    these are called; `notes` say how the replies were made, and `missing` why there is no verdict; `tables` have the
    figures in full. `seeds`: the spread over training seeds, if this is one of several.
    `one_of_many`: the headline is enough for what shows the opening alone.
    """

    judge: str
    model: str
    candidate: str
    baseline: str
    headline: str
    claim: list[str]
    figure: str
    details: list[str]
    exploratory: tuple[str, list[str]]
    seeds: str | None
    parts: list[BarPart]
    made: Claim
    judge_warnings: list[ReportWarning]
    warnings: list[ReportWarning]
    missing: list[str]
    notes: list[str]
    tables: list[Table]
    one_of_many: bool

    def lines(self) -> Iterator[tuple[int, str]]:
        """What lines of text say below the headline, each with its depth."""
        if self.one_of_many:
            return
        about, rates = self.exploratory
        yield from ((1, text) for text in self.details)
        if rates:
            yield 1, f"{about}:"
            yield from ((2, text) for text in rates)
        notes = [*(f"WARNING: {warning}" for warning in self.warnings), *self.missing]
        yield from ((1, text) for text in (*notes, *(f"note: {note}" for note in self.notes)))


Kind = TypeVar("Kind")
Block = Caution | Paragraph | Listing | Brief | Verdict | Table


def _with_rows(blocks: Iterable[Kind]) -> list[Kind]:
    """All but tables without rows."""
    return [block for block in blocks if getattr(getattr(block, "content", block), "rows", True)]


@dataclass(frozen=True)
class Document:
    """What a reader must know, which is all that Markdown and a terminal show; the numbers, and how they were made.

    `judges`: of each, what its card says of it. Tables that have nothing to say are left out.
    """

    title: str
    opening: list[Block]
    numbers: list[Table] = field(default_factory=list)
    made: list[Table] = field(default_factory=list)
    judges: list[list[Paragraph]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opening[:] = _with_rows(self.opening)
        for tables in (self.numbers, self.made):
            tables[:] = _with_rows(tables)

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
    report = _stated(report)
    matrices = matrix_tables(report)
    opening: list[Block] = []
    if report.bench:
        claims = [claim for claim in of_family(report.claims, OBJECTIVES) if claim.value is not None]
        differences = [(sentences.claim_headline(claim), ()) for claim in claims]
        opening += [Listing("Objectives side by side", differences, leads=True), *bench_tables(report)[:1]]
    if report.seeds:
        seeds = [(sentences.claim_headline(spread), sentences.seeds_cost(spread)) for spread in report.seeds]
        opening.append(Listing("Training seeds", seeds, leads=True))
    for judge in report.judges:
        tables = [table for of, table in matrices if of == judge.name]
        many = bool(tables) and len(judge.comparisons) > _MOST_DETAILED
        verdicts = [_verdict(judge, pair, report.over_seeds(pair.claim), many) for pair in judge.comparisons]
        warnings = sum(len(verdict.warnings) for verdict in verdicts)
        said = [f"WARNING: {counted(warnings, 'warning')} about these comparisons: report.md"] if warnings else []
        opening += [
            *verdicts,
            *(Caution(warning, name(judge.name)) for warning in judge_warnings(judge)),
            Paragraph(sentences.trust(judge), name(judge.name)),
            Brief(said if many else brief_table(judge.comparisons)),
            *tables,
        ]
    how = [answers_table(report), trainings_table(report), *experiment_tables(report)]
    judges = [about for judge in report.judges if (about := _about(judge))]
    return Document(one_line(report.run, 200), [*opening, *_together(report)], _numbers(report), how, judges)


def _stated(report: ReportData) -> ReportData:
    """The report with its claims as people read them."""
    judges = []
    for judge in report.judges:
        pairs = [pair.model_copy(update={"claim": stated(pair.claim)}) for pair in judge.comparisons]
        judges.append(judge.model_copy(update={"comparisons": pairs}))
    return report.model_copy(update={"judges": judges, "claims": list(map(stated, report.claims))})


def _verdict(judge: JudgeReport, comparison: ComparisonReport, spread: Claim | None, one_of_many: bool) -> Verdict:
    """What the document says of a comparison; `spread`: the claim over all training seeds, if this is one of them."""
    details = [sentences.evidence(comparison)]
    made = comparison.claim
    figure = [sentences.stated_figure(made), *sentences.qualified(made, *sentences.further(comparison))]
    return Verdict(
        judge=name(judge.name),
        model=name(judge.model),
        candidate=name(comparison.candidate),
        baseline=name(comparison.baseline),
        headline=sentences.headline(comparison),
        claim=sentences.finding_pieces(made),
        figure=sentences.capital(". ".join(filter(None, figure))),
        details=[one_line(sentences.capital(text), 1000) for text in details if text],
        exploratory=sentences.exploratory(comparison),
        seeds=f"One of {spread.trainings} training seeds; over all of them: {sentences.stated_figure(spread)}."
        if spread
        else None,
        parts=_parts(comparison.counts, name(comparison.candidate), name(comparison.baseline)),
        made=made,
        judge_warnings=judge_warnings(judge),
        warnings=comparison.warnings,
        missing=_missing(comparison),
        notes=[one_line(note, 1000) for note in comparison.notes],
        tables=_with_rows(comparison_tables(comparison)),
        one_of_many=one_of_many,
    )


def _missing(comparison: ComparisonReport) -> list[str]:
    reasons = [reason for reason in comparison.reasons if reason.verdict in ("unparsed", "failed")]
    lines = [f"{reason.n} x {reason.verdict}: {one_line(reason.reason, 120)}" for reason in reasons[:_MOST_REASONS]]
    more = sum(reason.n for reason in reasons[_MOST_REASONS:])
    return [*lines, f"{more} more without a verdict; report.md lists the reasons"] if more else lines


def _parts(pairs: Counts, candidate: str, baseline: str) -> list[BarPart]:
    better = "preferred" if pairs.weighted else "better"
    counts = {
        "win": (f"{candidate} {better}", pairs.win),
        "tie": ("tie called by the judge", pairs.called),
        "split": ("judge contradicted itself", pairs.contradicted),
        "same": ("identical answers", pairs.identical),
        "loss": (f"{baseline} {better}", pairs.loss),
        "none": ("no verdict", pairs.unread),
    }
    parts, x = [], 0.0
    for kind, (label, count) in counts.items():
        width = 100 * count / pairs.n if pairs.n else 0.0
        if count:
            parts.append(BarPart(kind, label, count, x, width))
        x += width
    return parts


def _together(report: ReportData) -> Iterator[Block]:
    """What the opening says about several comparisons, about texts, and about the whole run."""
    if report.panels:
        agreements = [
            (
                f"Agreement between judges on {name(panel.candidate)} against {name(panel.baseline)}",
                list(map(sentences.kappas, panel.agreements)),
            )
            for panel in report.panels
        ]
        yield Listing("Agreement between judges", agreements)
    if differences := [sentences.claim_headline(claim) for claim in report.paired if claim.value is not None]:
        yield Brief(differences)
    yield from map(Caution, report.cautions)
    for tables in (text_tables(report.measurements, report.claims), task_tables(report.measurements)):
        yield from map(Brief, tables[:1])
    if cost := sentences.spent(report):
        yield Paragraph(cost)
    if report.not_judged:
        yield Listing("Not judged yet", [(sentences.not_judged(pair), ()) for pair in report.not_judged], missing=True)


def _numbers(report: ReportData) -> list[Table]:
    """The tables of several comparisons, in order; the page has the figures from their files."""
    return [
        *bench_tables(report)[1:],
        *map(panel_table, report.panels),
        *text_tables(report.measurements, report.claims),
        *task_tables(report.measurements),
        seeds_table(report.seeds),
        paired_table(report.paired),
    ]


def _about(judge: JudgeReport) -> list[Paragraph]:
    texts = filter(None, (judge.description, judge.notes))
    return [Paragraph(one_line(text, 1000), name(judge.name)) for text in texts]
